"""A corpus of a billion lines on many machines, by Ray Data: in parts, each of which is done once.

    split -l 100000 -d -a 5 corpus.en parts/
    python examples/many_machines.py translate parts translated --model BUNDLE --workers 64
    python examples/many_machines.py prepare parts prepared --language en --codes codes --workers 64
    cat translated/* > corpus.de

An actor holds a model, or a language's rules and codes. It reads a part, works on its lines and
writes the part of the same name, whole or not at all. Where an actor or its machine dies, Ray gives
its part to another one. A part that is there is left alone, so the same command goes on after any
fault. The parts' names keep the order. On a cluster (`ray job submit`) both folders are on a disk
that all nodes share; without one Ray uses the cores of this machine.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import ray

from vaswani_plugin import Translator
from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.files.outputs import write_lines
from vaswani_plugin.files.programs import run
from vaswani_plugin.text.bpe import make_encoder
from vaswani_plugin.text.languages import check_language
from vaswani_plugin.text.moses import make_processor

WorkOnLines = Callable[[Iterable[str]], Iterable[str]]


def translating(model: Path, device: str) -> WorkOnLines:
    """Translates with a bundle, as `vaswani translate --long split` does: no line stops a part."""
    translator = Translator.from_pretrained(model, device=device, threads=1)
    return lambda lines: (found.text for found in translator.stream(lines, long="split"))


def preparing(language: str, codes: Path) -> WorkOnLines:
    """Normalizes punctuation, tokenizes and splits into subwords, as data-prep's scripts do."""
    options = {"normalize": True, "tokenize": True, "aggressive": False, "escape": True}
    to_words = make_processor(check_language(language), lowercase=False, **options)
    to_subwords = make_encoder(str(codes))
    return lambda lines: (to_subwords(to_words(line)) for line in lines)


class Worker:
    """An actor: makes what it works with once, then does one part after the other."""

    def __init__(self, make: Callable[[], WorkOnLines], output: Path) -> None:
        self.work, self.output = make(), output

    def __call__(self, batch: dict) -> dict:
        """Does the parts of a batch, {"part": paths}; what an actor left when it died is whole."""
        for part in batch["part"]:
            target = self.output / Path(part).name
            if not target.exists():
                write_lines(target, self.work(read_lines(part)))
        return batch


def main() -> None:
    """Command line."""
    plain = argparse.RawDescriptionHelpFormatter
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    tasks = flags.add_subparsers(dest="task", required=True)
    translate, prepare = tasks.add_parser("translate"), tasks.add_parser("prepare")
    translate.add_argument("--model", required=True, type=Path, help="a bundle")
    translate.add_argument("--gpu", action="store_true", help="each actor has a GPU of its own")
    prepare.add_argument("--language", required=True, help="the text's, such as en")
    prepare.add_argument("--codes", required=True, type=Path, help="the output of bpe.py learn")
    for task in (translate, prepare):
        task.add_argument("parts", type=Path, help="folder of texts, plain or .gz; names in order")
        task.add_argument("output", type=Path, help="folder for texts of the same names")
        task.add_argument("--workers", type=int, default=2, help="actors of all machines together")
    args = flags.parse_args()
    if args.task == "translate":
        model, each = args.model.resolve(), {"num_gpus": 1} if args.gpu else {"num_cpus": 1}
        translating(model, "cpu")  # what is wrong with it is said before Ray starts
        make = partial(translating, model, "cuda" if args.gpu else "cpu")
    else:
        make, each = partial(preparing, args.language, args.codes.resolve()), {"num_cpus": 1}
        make()
    parts = sorted(path for path in args.parts.iterdir() if not path.name.startswith("."))
    if not parts:
        raise UserError(f"{args.parts}: holds no parts")
    left = [
        {"part": str(path.resolve())} for path in parts if not (args.output / path.name).exists()
    ]
    print(f"{len(parts)} parts, {len(left)} of them to do", file=sys.stderr, flush=True)
    if left:
        ray.init(include_dashboard=False)
        work = ray.data.from_items(left, override_num_blocks=len(left)).map_batches(
            Worker,
            fn_constructor_args=(make, args.output.resolve()),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(args.workers, len(left))),
            **each,
        )
        work.materialize()
    print(f"{args.output}: {len(parts)} parts", file=sys.stderr)


if __name__ == "__main__":
    run(main)
