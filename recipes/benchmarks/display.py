"""What a training's display costs: bar, scores, translations and curves, beside one without them.

  taskset -c 0 python recipes/benchmarks/display.py DATA_BIN ROUNDS FLAG...   of fairseq-train

Both validate; they take turns, on a terminal of 80 columns. Prints CPU and wall seconds as JSON.
"""

import json
import shlex
import sys
import tempfile
from pathlib import Path

from measurement import ROOT, Measurement, measure
from training import machine, spread

SEARCH = '{"beam": 1, "max_len_a": 2, "max_len_b": 10}'
SCORES = f"--eval-bleu --eval-bleu-args '{SEARCH}' --eval-bleu-print-samples"
TRAIN = f"fairseq-train --user-dir {ROOT / 'vaswani_plugin'} --cpu --no-progress-bar --no-save"
data, rounds, *flags = sys.argv[1:]
runs: dict[str, list[Measurement]] = {"without": [], "with": []}
with tempfile.TemporaryDirectory() as work:
    log = Path(work) / "logs" / "train.log"
    log.parent.mkdir()
    train = f"{TRAIN} --save-dir {work} --log-format json --log-interval 10 {shlex.join([data])}"
    shown = f"{SCORES} | python {ROOT / 'recipes' / 'lib' / 'steps.py'} progress {log}"
    for number in range(int(rounds)):
        for kind in sorted(runs, reverse=number % 2 == 0):  # each is the first as often
            command = f"{train} {shlex.join(flags)} {shown if kind == 'with' else ''} >{log}"
            bash = ["bash", "-o", "pipefail", "-c", f"stty cols 80; {command}"]
            runs[kind].append(measure(["script", "-qec", shlex.join(bash), "/dev/null"]))
            print(number, kind, runs[kind][-1], file=sys.stderr)
record = {"machine": machine("cpu"), "flags": flags, "runs": runs}
for key in ("cpu", "wall"):
    seconds = {kind: [vars(run)[key] for run in each] for kind, each in runs.items()}
    shares = [a / b for a, b in zip(seconds["with"], seconds["without"], strict=True)]
    record[key] = {kind: spread(each) for kind, each in (seconds | {"share": shares}).items()}
print(json.dumps(record, indent=1, default=vars))
