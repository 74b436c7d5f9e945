"""Turns a parallel corpus of subwords into fairseq's binary form, with one joint dictionary.

    binarize.py --pair en-de --train bpe/train --valid bpe/valid --test bpe/test --output data-bin

Reads PREFIX.en and PREFIX.de for each split and runs fairseq-preprocess --joined-dictionary on
them. The output folder appears when it is complete, or not at all.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vaswani_text.corpus_io import InputError, read_pairs, run

SPLITS = ("train", "valid", "test")


def check_split(split: str, prefix: str, pair: tuple[str, str]) -> int:
    """Checks that both sides of a split exist and correspond; returns the number of lines.

    Raises:
        InputError: a side is missing, empty or of another length.
    """
    paths = [f"{prefix}.{language}" for language in pair]
    for path in paths:
        if not Path(path).is_file():
            raise InputError(f"--{split} {prefix}: {path} does not exist")
    return sum(1 for _ in read_pairs(*paths))


def command_line(
    prefixes: dict[str, str], pair: tuple[str, str], output: Path, factor: int, workers: int
) -> list[str]:
    """The call of fairseq-preprocess."""
    # Beside this interpreter, so that the environment need not be activated.
    program = shutil.which("fairseq-preprocess", path=str(Path(sys.executable).parent))
    command = [program or "fairseq-preprocess", "--source-lang", pair[0], "--target-lang", pair[1]]
    for split, prefix in prefixes.items():
        command += [f"--{split}pref", prefix]
    command += ["--joined-dictionary", "--padding-factor", str(factor)]
    return [*command, "--workers", str(workers), "--destdir", str(output)]


def binarize(
    prefixes: dict[str, str], pair: tuple[str, str], output: Path, factor: int, workers: int
) -> dict[str, int]:
    """Runs fairseq-preprocess into a temporary folder and moves that into place.

    Returns:
        Lines of each split, and `types`, the rows of the dictionary with its special symbols.

    Raises:
        InputError: a file is missing or fairseq-preprocess failed; carries its last line.
    """
    report = {split: check_split(split, prefix, pair) for split, prefix in prefixes.items()}
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        done = subprocess.run(
            command_line(prefixes, pair, temporary, factor, workers),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            last = (done.stdout.strip().split("\n") or [""])[-1]
            raise InputError(f"fairseq-preprocess failed (exit code {done.returncode}): {last}")
        entries = (temporary / f"dict.{pair[0]}.txt").read_bytes().count(b"\n")
        # fairseq adds <s>, <pad>, </s> and <unk> when it reads the file.
        report["types"] = entries + 4
        os.chmod(temporary, 0o755)
        if output.exists():
            shutil.rmtree(output)
        os.replace(temporary, output)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return report


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", required=True, help="source and target, such as en-de")
    for split in SPLITS:
        parser.add_argument(
            f"--{split}", required=True, metavar="PREFIX", help=f"{split} files without .LANG"
        )
    parser.add_argument("--output", type=Path, required=True, help="the folder to make")
    parser.add_argument(
        "--padding-factor",
        type=int,
        default=8,
        help="rows of the dictionary become a multiple of this (default 8)",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    args = parser.parse_args()
    source, _, target = args.pair.partition("-")
    if not source or not target or source == target:
        raise InputError(f"--pair {args.pair}: two different languages joined by '-', as in en-de")
    if args.padding_factor < 1 or args.workers < 1:
        raise InputError("--padding-factor and --workers must be at least 1")
    prefixes = {split: getattr(args, split) for split in SPLITS}
    report = binarize(prefixes, (source, target), args.output, args.padding_factor, args.workers)
    print(", ".join(f"{key} {value}" for key, value in report.items()) + f": {args.output}")


if __name__ == "__main__":
    run(main)
