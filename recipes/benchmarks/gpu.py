"""Everything that wants a GPU, on one of them, and its tests; run by gpu.sh.

A part that fails is reported, and the others are done. --device cpu rehearses all of it.
"""

import argparse
import sys
from pathlib import Path

from measurement import ROOT, measure
from training import complete, hardly_trained, machine, options

from vaswani_plugin.errors import UserError, run

PARTS = ("training", "decoding", "tests")
SECONDS = {"training": 330, "decoding": 240, "tests": 180}
"""Time limit of each part on a GPU. All parts take about ten minutes."""
HERE = Path(__file__).parent


def command_of(args: argparse.Namespace, part: str) -> list[object]:
    """The command of a part."""
    if part == "tests":
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "gpu", "tests/gpu"]
        return [*command, "-p", "no:cacheprovider"]
    if part == "training":
        command = [sys.executable, HERE / "training.py", "--data", args.data, "--idle"]
        command += ["--sizes", *args.sizes, "--device", args.device, "--precision", args.precision]
        command += ["--max-tokens", args.max_tokens, "--updates", args.updates]
        command += ["--warm-up", args.warm_up, "--repetitions", args.repetitions]
        return [*command, "--work", args.work / "training"]
    size = "base" if "base" in args.sizes else args.sizes[0]
    command = [sys.executable, HERE / "decoding.py", "--alone", "--data-bin", args.data]
    command += ["--model", hardly_trained(args, size), "--work", args.work / "decoding"]
    command += ["--sentences", args.sentences, "--output-length", 28, "--repetitions", 1]
    return [*command, *(["--gpu"] if args.device == "gpu" else [])]


def as_markdown(name: str, parts: dict[str, str]) -> str:
    """The report: what each part printed."""
    head = [f"# {name}"]
    return "\n\n".join([*head, *(f"## {part}\n\n{said}" for part, said in parts.items())]) + "\n"


def run_parts(args: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """What each part said, and the parts that failed; the report is rewritten after each part."""
    said, failed = {}, []
    found = machine(args.device)
    name = ", ".join(f"{key} {value}" for key, value in found.items())
    for part in args.parts:
        print(f"gpu.sh: {part} ...", file=sys.stderr, flush=True)
        output = args.work / f"{part}.txt"
        try:
            seconds = SECONDS[part] if args.device == "gpu" else 1500
            measure(command_of(args, part), stdout=output, timeout=seconds, PYTHONPATH=str(ROOT))
            said[part] = output.read_text(encoding="utf-8").strip()
        except Exception as error:  # after any error, the other parts still give results
            said[part] = f"**Failed**: {' '.join(str(error).split()) or type(error).__name__}"
            failed.append(part)
        report = as_markdown(name, said)
        (args.work / "gpu-report.md").write_text(report, encoding="utf-8")
    return said, failed


def with_defaults(args: argparse.Namespace) -> argparse.Namespace:
    """The options that were not given, for the device."""
    if args.device == "gpu":
        import torch

        has = torch.cuda.is_available()
        room = torch.cuda.get_device_properties(0).total_memory if has else 0
        wanted = {"sizes": ["base", "big"], "vocabulary": 37_000, "sentences": 2000}
        wanted |= {
            "precision": "bf16",
            "max_tokens": 25_000 if room > 60e9 else 4096,
            "updates": 20,
        }
    else:
        wanted = {"sizes": ["debug"], "vocabulary": 1000, "sentences": 16}
        wanted |= {"precision": "fp32", "max_tokens": 400, "updates": 3}
    for name, value in wanted.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def main() -> None:
    """Command line."""
    parser = options(__doc__)
    parser.set_defaults(device="gpu", repetitions=1, sizes=None, precision=None, vocabulary=None)
    parser.set_defaults(max_tokens=None, updates=None)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sentences", type=int, help="sentences to decode (default: 2000)")
    args = complete(with_defaults(parser.parse_args()))
    _, failed = run_parts(args)
    print((args.work / "gpu-report.md").read_text(encoding="utf-8"))
    if failed:
        raise UserError(f"failed: {', '.join(failed)}; the report is {args.work}/gpu-report.md")


if __name__ == "__main__":
    run(main)
