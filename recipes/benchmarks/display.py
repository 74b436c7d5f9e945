"""What a training's display costs: bar, scores, translations and curves, beside one without them.

  taskset -c 0 python recipes/benchmarks/display.py DATA_BIN ROUNDS FLAG...   of fairseq-train

Both validate; they take turns, on a terminal of 80 columns. Prints CPU and wall seconds as JSON.
"""

import json
import os
import shlex
import sys
import tempfile

from measurement import ROOT, measure
from training import machine, spread

SCORES = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1}', "--eval-bleu-print-samples"]
TRAIN = ["fairseq-train", "--user-dir", str(ROOT / "vaswani_plugin"), "--cpu", "--no-save"]
TRAIN += ["--no-progress-bar", "--log-format", "json", "--log-interval", "10"]
data, rounds, *flags = sys.argv[1:]
seconds: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
with tempfile.TemporaryDirectory() as work:
    log, steps = f"{work}/logs/train.log", str(ROOT / "recipes" / "lib" / "steps.py")
    os.mkdir(f"{work}/logs")
    for number in range(int(rounds)):
        for kind in sorted(seconds, reverse=number % 2 == 0):  # each is the first as often
            scores, shown = (
                (SCORES, f"| python {steps} progress {log}") if kind == "with" else ([], "")
            )
            command = shlex.join([*TRAIN, "--save-dir", work, data, *scores, *flags])
            command = f"set -o pipefail; stty cols 80; {command} {shown} >{log}"
            used = measure(["script", "-qec", shlex.join(["bash", "-c", command]), "/dev/null"])
            seconds[kind].append({"cpu": used.cpu, "wall": used.wall})
            print(number, kind, used, file=sys.stderr)
result = {
    f"{kind} {key}": spread(each[key] for each in runs)
    for kind, runs in seconds.items()
    for key in ("cpu", "wall")
}
for key in ("cpu", "wall"):
    pairs = zip(seconds["with"], seconds["without"], strict=True)
    result[f"{key}, with / without"] = spread(a[key] / b[key] for a, b in pairs)
print(
    json.dumps(
        {"machine": machine("cpu"), "flags": flags, "seconds": result, "runs": seconds}, indent=1
    )
)
