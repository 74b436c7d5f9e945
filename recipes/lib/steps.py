"""What common.sh can't say in a few lines of shell.

fairseq-train ... | python steps.py progress        shows its JSON log as one line; passes it on
python steps.py finish WORK RECIPE TITLE bleu=FILE  WORK/result.json, and a line for people
python steps.py flags BUNDLE                        fairseq-train's flags for a model like it
"""

import hashlib
import json
import math
import re
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tqdm import tqdm  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.text.programs import run  # noqa: E402

REMEDY = (
    "Does line N of one file translate line N of the other? Then more updates or pairs may help, "
    "with little text the settings of recipes/own_text.sh: docs/how-to/errors.md."
)
PACKAGES = {"torch": "torch", "fairseq": "fairseq-fixed", "plugin": "vaswani-plugin"}
MAX_UPDATE = re.compile(r"'max_update': (\d+)")
PATIENCE = re.compile(r"'patience': \d")  # -1: validation does not end the training
RECORD = re.compile(r"\| (train_inner|valid) \| (\{.*\})$")
OF_THE_TRAINING = ("_name", "dropout", "attention_dropout", "activation_dropout", "compile")
OF_THE_TRAINING += ("checkpoint_activations", "max_source_positions", "max_target_positions")


def progress() -> None:
    """On a terminal the line is rewritten, elsewhere a new one follows every minute.

    The first says how long the training takes at its speed so far.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(each, signal.SIG_IGN)  # fairseq-train ends first, and saves
    hidden = None if sys.stderr.isatty() else True
    shape = "{desc}{n_fmt}/{total_fmt} updates, {postfix}, {remaining} left"
    bar = tqdm(unit=" updates", disable=hidden, bar_format=shape)
    total, valid, first, shown = 0, "", None, 0.0
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
        if not total and (setting := MAX_UPDATE.search(line)):
            total = bar.total = int(setting[1])
        if not (found := RECORD.search(line.rstrip())):
            continue
        record, now = json.loads(found[2]), time.monotonic()
        if found[1] == "valid":
            valid = f", validation perplexity {float(record['valid_ppl']):.2f}"
            continue
        done = int(record["num_updates"])
        text = f"loss {record['loss']}, {float(record['wps']):,.0f} tokens/s{valid}"
        bar.set_postfix_str(text, refresh=False)
        bar.update(done - bar.n)
        if first is None and float(record["ups"]) > 0:  # of its first update fairseq knows none
            minutes = math.ceil((total - done) / float(record["ups"]) / 60)
            print(f"at most {minutes:,} min for {total:,} updates", file=sys.stderr)
            first, shown = done, now
        elif first is not None and hidden and now - shown > 60:
            shown = now
            print(f"update {done:,} of {total:,}, {text}", file=sys.stderr)
    bar.close()


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
    from vaswani_plugin import processor
    from vaswani_plugin.metrics.rouge import scores_of
    from vaswani_plugin.text.lines import read_lines
    from vaswani_plugin.text.outputs import write_json
    from vaswani_plugin.text.training_log import read_training

    work, reports = Path(folder), {}
    for argument in arguments:
        key, _, path = argument.partition("=")
        known = {k: v for k, v in reports.get(key, {}).items() if v is not None}
        reports[key] = json.loads(Path(path).read_text(encoding="utf-8")) | known
    log = sorted((work / "logs").glob("train*.log"))[-1]
    training = read_training(read_lines(log), str(log))
    texts = [path for path in sorted((work / "raw").iterdir()) if path.suffix != ".part"]
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
        from learned import learned

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
    scores = [point.get("bleu", -point["loss"]) for point in training.valid]
    if PATIENCE.search(log.read_text(encoding="utf-8")) and scores and scores[-1] == max(scores):
        more = f"the same command with --continue {2 * training.updates} goes on"
        print(f"Validation was still getting better: {more}.")
    if warning := result.get("learned", {}).get("warning"):
        print(f"Warning: {warning}. {REMEDY}")


def flags(bundle: str) -> None:
    """Print the value of --arch, then flags of sizes and kinds, a word a line."""
    path = Path(bundle) / "config.json"
    if not path.is_file():
        raise UserError(f"{bundle}: no config.json; `vaswani card --model {bundle}` writes one")
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    words = [model["_name"]]
    for name, value in model.items():
        if name not in OF_THE_TRAINING and value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    print("\n".join(words))


if __name__ == "__main__":
    step = {"progress": progress, "finish": finish, "flags": flags}[sys.argv[1]]
    run(lambda: step(*sys.argv[2:]))
