"""Seconds that each command takes on two lines of text, mostly its start; run by startup.sh.

pyperf times them; a row is a median, also as a multiple of that of `python -c "import torch"`.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyperf
from measurement import ROOT

TEXTS = {
    "hyp": "a cat sat .\nthe dog runs .\n",
    "ref": "the cat sat .\na dog runs .\n",
    "sentence": "The old doctor saw a bird in the garden.\n",
    "trees": "(S (NP (D the) (N cat)) (VP (V sat)))\n(S (NP (D a) (N dog)) (VP (V runs)))\n",
}
COMMANDS = (
    *("--help", "bleu --hypothesis hyp --reference ref", "evalb trees trees"),
    *("rouge --hypothesis hyp --references ref", "archs --help", "translate --help"),
    *("cost --hours 3 --device H100", "complexity"),
)
"""Arguments of `vaswani`, apart from blanks."""
BASELINE = "import torch"


def as_table(medians: dict[str, float]) -> str:
    """A table in Markdown; the baseline is the first."""
    lines = ["| command | seconds | times `import torch` |", "|---|---|---|"]
    for name, seconds in medians.items():
        lines.append(f"| {name} | {seconds:.2f} | {seconds / medians[BASELINE]:.2f} |")
    return "\n".join(lines)


def forward(command: list[str], args: Any) -> None:
    """Gives our own options to pyperf's worker processes, too."""
    for model in args.model:
        command += ["--model", model]
    command += [f"--only={args.only}"] if args.only else []


def main() -> None:
    """Command line."""
    runner = pyperf.Runner(values=1, processes=5, warmups=1, loops=1, add_cmdline_args=forward)
    add = runner.argparser.add_argument
    add("--model", action="append", default=[], help="a bundle, or an export: translate with it")
    add("--only", default="", help="the commands that begin so (default: all)")
    args = runner.parse_args()
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    runner.args.inherit_environ = [*(runner.args.inherit_environ or []), *environment]
    os.environ.update(environment)
    lines = {BASELINE: ["-c", BASELINE]}
    for command in COMMANDS:
        if command.startswith(args.only):
            lines[f"vaswani {command}"] = ["-m", "vaswani_plugin.cli", *command.split()]
    for model in args.model:
        translate = ["-m", "vaswani_plugin.cli", "translate", "--cpu", "sentence", "--model"]
        lines[f"vaswani translate --model {model}"] = [*translate, str(Path(model).resolve())]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in TEXTS.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        os.chdir(folder)
        found = {}
        for name, line in lines.items():
            bench = runner.bench_command(name, [sys.executable, *line])
            if bench is not None:  # None in a worker
                found[name] = bench.median()
    if not args.worker:
        print(as_table(found))


if __name__ == "__main__":
    main()
