"""What common.sh can't say in a few lines of shell.

fairseq-train ... | python steps.py progress LOG    shows its JSON log, which goes on to LOG
python steps.py finish WORK RECIPE TITLE bleu=FILE  WORK/result.json, and a line for people
python steps.py flags BUNDLE                        fairseq-train's flags for a model like it
"""

import hashlib
import json
import math
import os
import re
import signal
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tqdm import tqdm  # noqa: E402
from tqdm.utils import disp_trim  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.files.lines import read_lines  # noqa: E402
from vaswani_plugin.files.programs import run  # noqa: E402
from vaswani_plugin.text.training_log import read_curves, read_training  # noqa: E402

REMEDY = (
    "Does line N of one file translate line N of the other? Then more updates or pairs may help, "
    "with little text the settings of recipes/own_text.sh: docs/how-to/errors.md."
)
PACKAGES = {"torch": "torch", "fairseq": "fairseq-fixed", "plugin": "vaswani-plugin"}
LIMITS = re.compile(r"'max_update': (\d+), 'stop_time_hours': ([\d.]+)")
PATIENCE = re.compile(r"'patience': \d")  # -1: validation does not end the training
UNKNOWN = re.compile("UNKNOWNTOKENIN(HYP|REF)")
RECORD = re.compile(r"\| (train_inner|valid|sample) \| (\{.*\})$")
OF_THE_TRAINING = ("_name", "dropout", "attention_dropout", "activation_dropout", "compile")
OF_THE_TRAINING += ("checkpoint_activations", "max_source_positions", "max_target_positions")


def progress(log: str) -> None:
    """Show a training: on a terminal as a bar, elsewhere in a line every half minute.

    Each validation adds its scores and the translations that fairseq-train logs, and draws
    WORK/curves.png again, in at most a fiftieth of the time.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(each, signal.SIG_IGN)  # fairseq-train ends first, and saves
    os.nice(10)  # it also comes first
    path, terminal = Path(log), sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    picture = path.parents[1] / f"{path.stem.replace('train', 'curves')}.png"
    bar = tqdm(disable=not terminal, bar_format="{bar} {desc}", dynamic_ncols=True)
    total, hours, before, valid = 0, 0.0, 0.0, ""
    first, shown, free, samples, undrawn = None, -math.inf, 0.0, [], False
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
        if setting := LIMITS.search(line):
            total, hours = int(setting[1]), float(setting[2])
            bar.total = total
        if hours and "Loaded checkpoint" in line:
            with suppress(UserError):  # a fine-tuning has no curves yet
                points = chain(*read_curves(read_lines(path, True), log).values())
                before = max(point.get("seconds", 0) for point in points)
        if "early stop since" in line:
            text = f"ends early: {line.strip().rpartition('early stop since ')[2]}"
            tqdm.write(text, file=sys.stderr)
        if not (match := RECORD.search(line.rstrip())):
            continue
        record, now = json.loads(match[2]), time.monotonic()
        if match[1] == "sample":
            for key, text in record.items():
                if "▁" in text:  # BLEU of pieces leaves sentencepiece's
                    text = text.replace(" ", "").replace("▁", " ").strip()
                samples.append(f"  {key:12} {UNKNOWN.sub('<unk>', text)}")
            samples.append("")
        elif match[1] == "valid":
            valid, undrawn = f", valid {record['valid_loss']}", True
            text = f"update {int(record['valid_num_updates']):,}: validation loss "
            text += f"{record['valid_loss']}, perplexity {record['valid_ppl']}"
            for key, name in (("bleu", "BLEU"), ("chrf", "chrF")):
                text += f", {name} {record[f'valid_{key}']}" if f"valid_{key}" in record else ""
            for best in [key for key in record if key.startswith("valid_best_")]:  # of all starts
                kind = best.rpartition("_")[2].replace("bleu", "BLEU")
                is_best = record[best] == record[best.replace("best_", "")]
                text += f", the best {kind} so far" if is_best else f", best {kind}: {record[best]}"
            if terminal and (width := os.get_terminal_size(2).columns):  # 0: it doesn't know
                samples = [disp_trim(sample, width) for sample in samples]
            tqdm.write("\n".join([text, *samples[:-1]]), file=sys.stderr)
            samples = []
            if now > free:
                is_drawn, undrawn = draw_curves(path, picture), False
                free = time.monotonic() + 50 * (time.monotonic() - now) if is_drawn else math.inf
        elif float(record["ups"]) > 0:  # of its first update fairseq knows none
            done, wall = int(record["num_updates"]), float(record.get("wall", 0))
            first = first or (done, wall)
            pace = 1 / float(record["ups"])
            if wall > first[1] + 30 and done > first[0]:  # with validations
                pace = (wall - first[1]) / (done - first[0])
            left = (total - done) * pace
            if hours:
                left = max(0, min(left, 3600 * hours - before - wall))
            text = f"{done:,}/{total:,}, ≤ {math.ceil(left / 60):,} min left, loss {record['loss']}"
            text += f"{valid}, {float(record['wps']):,.0f} tokens/s"
            bar.n = done
            bar.set_description_str(text)
            if not terminal and now - shown > 30:
                shown = now
                print(text, file=sys.stderr, flush=True)
    bar.close()
    if undrawn:
        draw_curves(path, picture)


def draw_curves(log: Path, picture: Path) -> bool:
    """Draw the loss, and scores or perplexity; where that fails, say so: a training goes on."""
    from vaswani_plugin.figures.curves import draw, read_run  # for a second

    try:
        run = read_run(log, None, ["loss", "ppl", "bleu", "chrf"])
        names = dict.fromkeys(key.split()[-1] for key in run["series"])
        draw([run], [name for name in names if name != "ppl" or "bleu" not in names], picture)
    except (OSError, UserError) as error:
        print(f"{picture}: not drawn: {error}", file=sys.stderr)
        return False
    return True


def described(path: Path, work: Path) -> dict[str, Any]:
    """Name, size and sum of a file."""
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    return {"file": str(path.relative_to(work)), "bytes": len(content), "sha256": sha256}


def finish(folder: str, recipe: str, title: str, *arguments: str) -> None:
    """Write result.json of WORK, and print a line.

    `title` is what was scored. `arguments` are KEY=FILE, JSON reports of `vaswani`; of several
    under one key each fills in what the earlier ones lack.
    """
    from learned import advice, learned

    from vaswani_plugin import processor
    from vaswani_plugin.files.outputs import write_json
    from vaswani_plugin.metrics.rouge import scores_of

    work, reports = Path(folder), {}
    for argument in arguments:
        key, _, path = argument.partition("=")
        known = {k: v for k, v in reports.get(key, {}).items() if v is not None}
        reports[key] = json.loads(Path(path).read_text(encoding="utf-8")) | known
    log = max(p for p in (work / "logs").glob("train*.log") if ".node" not in p.name)
    training = read_training(read_lines(log, True), str(log))
    texts = [p for p in sorted((work / "raw").glob("[!.]*")) if p.suffix != ".part"]
    result = {
        "recipe": recipe,
        "arch": training.arch,
        "parameters": training.parameters,
        "updates": training.updates,
        "tokens_per_second": round(training.tokens_per_second),
        "wall_seconds": round(training.seconds),
        "data": [{**described(p, work), "lines": p.read_bytes().count(b"\n")} for p in texts],
        "binarized": [described(p, work) for p in sorted((work / "data-bin").glob("*.*.*"))],
        **reports,
        "versions": {key: version(package) for key, package in PACKAGES.items()},
        "processor": processor.description(),
    }
    settings = work / "model" / "preprocessing.json"
    if "bleu" in reports and settings.is_file() and "source_language" in settings.read_text():
        result["learned"] = learned(work)
    write_json(work / "result.json", result)
    mean = reports.get("averaged", {"inputs": [], "asked": 0})
    few = len(mean["inputs"]) < mean["asked"]
    fewer = f"average of only {len(mean['inputs'])} of {mean['asked']} checkpoints, " if few else ""
    print(
        f"{title}: {', '.join(scores_of(result))} ({training.arch}, {training.parameters:,} "
        f"parameters, {training.updates:,} updates, {fewer}{training.seconds / 60:.1f} min, "
        f"{training.tokens_per_second:,.0f} target tokens/s): {work / 'result.json'}"
    )
    if PATIENCE.search(log.read_text(encoding="utf-8")):
        for line in advice(work, training):
            print(line)
    if warning := result.get("learned", {}).get("warning"):
        print(f"Warning: {warning}. {REMEDY}")


def flags(bundle: str) -> None:
    """Print the value of --arch, then flags of sizes and kinds, a word a line."""
    path = Path(bundle) / "config.json"
    if not path.is_file():
        raise UserError(f"{bundle}: no config.json; `vaswani card --model {bundle}` writes one")
    model = json.loads(path.read_text(encoding="utf-8")).get("model")
    if model is None:
        raise UserError(f"{path}: of another program; give the bundle that it was exported from")
    words = [model["_name"]]
    for name, value in model.items():
        if name not in OF_THE_TRAINING and value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    print("\n".join(words))


if __name__ == "__main__":
    step = {"progress": progress, "finish": finish, "flags": flags}[sys.argv[1]]
    run(lambda: step(*sys.argv[2:]))
