"""Trains the models of recipes/ancestors.sh with each seed, and translates with each of them.

    ancestors_train.py seq2seq transformer --work W --data-bin D --data-key K --seeds 1,2 ...

Each training has a folder WORK/models/MODEL-SEED with logs/train.log, checkpoints/, points/ (its
intermediate scores), test.txt (fairseq-generate's output) and, once it is finished, result.json.
It runs from point to point; an interrupted training continues from the last point.
"""

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from ancestors_models import (
    Training,
    add_settings,
    choose_models,
    find_test_texts,
    settings_of,
    trainings_of,
)
from trainings import (
    Devices,
    begin,
    execute,
    last_validation,
    progress_of,
    subword_flag,
    training_command,
    translation_command,
)

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.metrics.bleu import tokenized_score
from vaswani_plugin.metrics.segments import read_generate_output
from vaswani_plugin.text.checkpoint_outline import read_outline
from vaswani_plugin.text.lines import read_json, read_lines
from vaswani_plugin.text.outputs import write_json
from vaswani_plugin.text.training_log import read_training

say = progress_of("ancestors")
_TRANSLATED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.]+) sentences/s")
_AGAIN = "remove it, and this part is done again"
_BEAM = ["--beam", "4", "--lenpen", "0.6"]
_GREEDY = ["--beam", "1"]


def train_to(training: Training, args: argparse.Namespace, point: int) -> list[str]:
    """Returns the command that trains from the previous point to this point."""
    settings = settings_of(args)
    flags = [*training.flags(settings), *settings.limit(point)]
    return training_command(args.data_bin, flags, training.folder(args.work), settings.gpus)


def translate(
    training: Training, args: argparse.Namespace, subset: str, search: list[str]
) -> list[str]:
    """Returns the command that translates a subset with the training's last checkpoint."""
    checkpoint = training.folder(args.work) / "checkpoints" / "checkpoint_last.pt"
    given = checkpoint, subset, search, args.post_process, settings_of(args).gpus
    return translation_command(args.data_bin, *given)


def read_point(folder: Path) -> dict[str, float]:
    """Reads a training's updates, validation perplexity, and the seconds of all its parts.

    The seconds are those of the last checkpoint. So a part that was cut off counts up to the
    checkpoint from which the next one went on.

    Args:
        folder: of the training; its last part has just ended.

    Raises:
        UserError: the last part did not end, or its checkpoint can't be used.
    """
    valid = last_validation(folder / "logs" / "train.log")
    checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
    seconds = read_outline(checkpoint).seconds
    if seconds is None:
        raise UserError(f"{checkpoint}: no training time; did fairseq-train write it?")
    return {"updates": int(valid["num_updates"]), "seconds": seconds, "ppl": valid["ppl"]}


def reach_point(
    training: Training, args: argparse.Namespace, point: int, environment: dict[str, str]
) -> dict[str, float]:
    """Trains up to a point and translates the validation set; reads its result if it exists."""
    folder = training.folder(args.work)
    record, trained = folder / "points" / f"{point}.json", folder / "points" / f"{point}.trained"
    if record.is_file():
        return read_json(record, _AGAIN)
    record.parent.mkdir(exist_ok=True)
    log, output = folder / "logs" / "train.log", folder / "valid.txt"
    if not trained.exists():  # fairseq-train would add an update to a complete part
        execute(train_to(training, args, point), log, environment)
        trained.touch()
    output.unlink(missing_ok=True)
    execute(translate(training, args, "valid", _GREEDY), output, environment)
    found = read_generate_output(output)
    score = tokenized_score(found.hypotheses, [found.references])
    reached = read_point(folder) | {"bleu": score}
    write_json(record, reached)
    return reached


def finish(
    training: Training, args: argparse.Namespace, environment: dict[str, str]
) -> dict[str, Any]:
    """Trains, then translates the test set; returns the content of result.json.

    Raises:
        UserError: a command failed, or a value is missing in its output.
    """
    folder, settings = training.folder(args.work), settings_of(args)
    key = training.key(settings, args.data_key)
    begin(folder, key, say)
    points = []
    for point in range(1, settings.points + 1):
        points.append(reach_point(training, args, point, environment))
        say(
            f"{training.name}: {points[-1]['seconds']:.0f} s, {points[-1]['updates']:,} updates, "
            f"validation PPL {points[-1]['ppl']:.2f}, greedy BLEU {points[-1]['bleu']:.1f}"
        )
    output, log = folder / "test.txt", folder / "logs" / "train.log"
    output.unlink(missing_ok=True)
    execute(translate(training, args, "test", _BEAM), output, environment)
    speed = next((f for line in read_lines(output) if (f := _TRANSLATED.search(line))), None)
    if speed is None:
        raise UserError(f"{output}: no line that tells the speed; did fairseq-generate finish?")
    whole = read_training(read_lines(log), str(log))
    last = points[-1]
    result = {"model": training.model.name, "seed": training.seed, "key": key}
    result |= {"parameters": whole.parameters, "vocabulary": whole.target_vocabulary}
    result |= {"updates": last["updates"], "seconds": last["seconds"], "ppl": last["ppl"]}
    result |= {"tokens_per_second": whole.tokens_per_second, "tokens_per_update": whole.tokens}
    result |= {"sentences_per_second": float(speed[1]), "points": points}
    result["command"] = shlex.join(train_to(training, args, settings.points))
    write_json(folder / "result.json", result)
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help="names (default: all)")
    add_settings(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    args = parser.parse_args()
    settings = settings_of(args)
    trainings = trainings_of(choose_models(args.models), [int(s) for s in args.seeds.split(",")])
    if args.dry_run:
        args.post_process = "subword_nmt"
        for training in trainings:
            for command in (
                train_to(training, args, settings.points),
                translate(training, args, "test", _BEAM),
            ):
                print("+", shlex.join(command), file=sys.stderr)
        return
    find_test_texts(args.data_bin)  # what the report needs is missing now, not after hours
    args.post_process = subword_flag(args.data_bin)
    devices = Devices(args.parallel, args.gpus, args.threads)

    def work(number: int) -> None:
        training = trainings[number]
        if training.result(args.work, settings, args.data_key) is not None:
            say(f"{training.name} was finished before")
            return
        with devices.share() as environment:
            say(f"{training.name} ({number + 1} of {len(trainings)}) begins")
            finish(training, args, environment)

    devices.map(work, range(len(trainings)))


if __name__ == "__main__":
    run(main)
