"""Trains rows of Table 3 with each seed, translates the validation set, and scores it.

    table3_train.py base a --work W --data-bin D --data-key K --seeds 1,2 --parallel 1 ...

Each training has a folder WORK/rows/ROW-SEED with logs/train.log, checkpoints/, generate.txt and,
once it is finished, result.json. A finished training is skipped. An interrupted training continues
from its last checkpoint. A training with other settings or other data runs again.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from table3_rows import (
    Training,
    add_seeds,
    add_settings,
    choose_rows,
    settings_of,
    sizes,
    training_flags,
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
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_json
from vaswani_plugin.text.training_log import read_training

say = progress_of("table3")
SAVES = 6  # checkpoints of a training, from which it can resume; each is also validated


def commands(training: Training, args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns the commands that train a row with a seed and translate with it."""
    folder, row, settings = training.folder(args.work), training.row, settings_of(args)
    flags = training_flags(row, settings, training.seed)
    flags += ["--save-interval-updates", str(max(1, settings.updates(row) // SAVES))]
    flags += ["--keep-interval-updates", "1"]
    train = training_command(args.data_bin, flags, folder, settings.gpus_each)
    # No checkpoint averaging, as in the paper's Table 3.
    checkpoint, search = folder / "checkpoints" / "checkpoint_last.pt", "--beam 4 --lenpen 0.6"
    given = checkpoint, "valid", search.split(), args.post_process, settings.gpus_each
    return train, translation_command(args.data_bin, *given)


def finish(
    training: Training, args: argparse.Namespace, environment: dict[str, str]
) -> dict[str, Any]:
    """Trains, translates and scores; returns the content of result.json."""
    folder, row, settings = training.folder(args.work), training.row, settings_of(args)
    key = training.key(settings, args.data_key)
    begin(folder, key, say)
    trained = folder / "trained"
    train, translate = commands(training, args)
    log, translations = folder / "logs" / "train.log", folder / "generate.txt"
    if not trained.exists():  # fairseq-train would add an update to a complete training
        execute(train, log, environment)
        trained.touch()
    translations.unlink(missing_ok=True)
    execute(translate, translations, environment)
    result = {"row": row.name, "seed": training.seed, "key": key, "sizes": sizes(row, settings)}
    result |= read_figures(log, settings.updates(row))
    output = read_generate_output(translations)
    score = tokenized_score(output.hypotheses, [output.references])
    result |= {"bleu": score, "command": shlex.join(train)}
    write_json(folder / "result.json", result)
    return result


def read_figures(log: Path, updates: int) -> dict[str, Any]:
    """Reads the size, the time and the last validation from the log of a finished training.

    Raises:
        UserError: the log ends before the last update.
    """
    valid, training = last_validation(log, updates), read_training(read_lines(log), str(log))
    return {
        "ppl": valid["ppl"],
        "updates": int(valid["num_updates"]),
        "parameters": training.parameters,
        "seconds": training.seconds,
        "tokens_per_second": training.tokens_per_second,
    }


def train_all(trainings: list[Training], args: argparse.Namespace) -> None:
    """Does all trainings, `--parallel` at a time.

    Raises:
        UserError: some trainings failed; the others ran to their end.
    """
    devices = Devices(args.parallel, args.gpus_each * args.parallel, args.threads)

    failures = []

    def work(training: Training) -> None:
        with devices.share() as environment:
            say(f"{training.name}: begins; {training.folder(args.work) / 'logs' / 'train.log'}")
            try:
                found = finish(training, args, environment)
            except (UserError, ValueError, OSError) as error:
                failures.append(training.name)
                say(f"{training.name}: error: {error}")
            else:
                say(
                    f"{training.name}: PPL {found['ppl']:.2f}, BLEU {found['bleu']:.1f}, "
                    f"{found['seconds']:.0f} s of training"
                )

    devices.map(work, trainings)
    if failures:
        raise UserError(
            f"these trainings failed: {' '.join(failures)}; the same command tries again"
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help="names or letters (default: all)")
    add_settings(parser)
    add_seeds(parser)
    parser.add_argument("--data-bin", type=Path, required=True)
    parser.add_argument(
        "--parallel", type=int, required=True, help="trainings to run at the same time"
    )
    parser.add_argument("--threads", type=int, required=True, help="threads of each training")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    args = parser.parse_args()
    rows = choose_rows(args.rows)
    settings = settings_of(args)
    for row in rows:
        sizes(row, settings)  # a size that can't be divided fails here, before hours of training
    trainings = trainings_of(rows, args.seeds, args.base_seeds)
    if args.dry_run:
        args.post_process = "subword_nmt"
        for command in (command for training in trainings for command in commands(training, args)):
            print("+", shlex.join(command), file=sys.stderr)
        return
    args.post_process = subword_flag(args.data_bin)
    missing = [t for t in trainings if t.result(args.work, settings, args.data_key) is None]
    if len(missing) < len(trainings):
        say(f"{len(trainings) - len(missing)} of {len(trainings)} trainings were finished before")
    train_all(missing, args)


if __name__ == "__main__":
    run(main)
