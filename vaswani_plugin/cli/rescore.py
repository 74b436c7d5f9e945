"""`vaswani rescore`: another system's n-best lists, reordered by the scores of our models.

Each --system adds log P of the hypotheses to the list's own score. The table is that of Sutskever
et al. (2014), section 3.6.
"""

import argparse
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._start import start_fairseq
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.outputs import check_outputs

if TYPE_CHECKING:
    import torch

    from vaswani_plugin.inference.forced import LoadedForced

HELP = "rescore n-best lists with models or ensembles, by weights that give the best BLEU"
EXAMPLE = (
    "vaswani rescore --data DATA_BIN --nbest test.nbest --source test.en --reference test.de \\\n"
    "    --dev-nbest valid.nbest --dev-source valid.en --dev-reference valid.de \\\n"
    "    --system lstm=lstm.pt --system five=a.pt:b.pt:c.pt:d.pt:e.pt --output best.de"
)
WARNING = (
    "vaswani rescore: without --dev-nbest nothing tells how good a system is: its log P and the "
    "list's score count the same (--average), which harms where the system is the weaker one"
)
SYSTEM = """a checkpoint, or several as an ensemble, that scores the hypotheses; may be repeated:
each gets a row of the table, and --output uses the last"""
WEIGHTS = """fixed weights; NAME is a system (its log P), score (that of the list) or words (the
number of words)"""
AVERAGE = """equal weights of the list's score and the system's log P (Sutskever et al. 2014); the
default, with a warning, if there is no --dev-nbest"""
REQUIRED = {"required": True}
PATHS = (
    ("data", "folder of the models' dictionaries", {**REQUIRED, "metavar": "DIR"}),
    ("bpe-codes", "split sources and hypotheses by these BPE codes", {}),
    ("nbest", "the n-best lists, in Moses' format, ids from 0", REQUIRED),
    ("source", "source sentences, one per line", REQUIRED),
    ("reference", "tokenized references, one per line", {"nargs": "+"}),
    ("dev-nbest", "n-best lists of a development set, for which the weights are searched", {}),
    ("dev-source", "source sentences of --dev-nbest", {}),
    ("dev-reference", "references of --dev-nbest", {"nargs": "+"}),
    ("output", "write the best hypothesis of each list", {}),
    ("output-nbest", "write the reordered lists, in Moses' format", {}),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    kind = "NAME=FILE[:FILE...]"
    add("--system", action="append", required=True, metavar=kind, help=SYSTEM)
    for name, meaning, more in PATHS:
        add(f"--{name}", **{"type": Path, "metavar": "FILE", "help": meaning} | more)
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--weights", nargs="+", metavar="NAME=NUMBER", default=[], help=WEIGHTS)
    weights.add_argument("--average", action="store_true", help=AVERAGE)
    flags.add_batch_tokens(parser, 4000, "target tokens", "--max-tokens")
    flags.add_device(parser)
    flags.add_format(parser)


def read_systems(given: list[str]) -> dict[str, list[Path]]:
    """The checkpoints of each NAME=FILE[:FILE...].

    Raises:
        UserError: a text has another form, a name is used twice, or a file does not exist.
    """
    systems: dict[str, list[Path]] = {}
    for text in given:
        name, _, paths = text.partition("=")
        if not paths or not name.isidentifier():
            raise UserError(f"--system {text}: must be NAME=CHECKPOINT[:CHECKPOINT...]")
        if name in ("score", "words") or name in systems:
            raise UserError(f"--system {text}: {name!r} is taken; choose another name")
        systems[name] = [Path(path) for path in paths.split(":")]
        for path in systems[name]:  # fail now, not after an hour of scoring by the first systems
            if not path.exists():
                raise UserError(f"--system {text}: {path} does not exist")
    return systems


def read_weights(given: list[str], names: list[str]) -> dict[str, float]:
    """The number of each NAME=NUMBER; names are those of the features.

    Raises:
        UserError: a text has another form, or names no feature, or one that is given twice.
    """
    weights: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in names or name in weights:
            raise UserError(f"--weights {text}: once for each of {', '.join(names)}")
        try:
            weights[name] = float(value)
        except ValueError:
            weights[name] = math.nan
        if not math.isfinite(weights[name]):
            raise UserError(f"--weights {text}: must be NAME=NUMBER")
    return weights


def load_foreign(path: Path, data: Path, device: "torch.device") -> "LoadedForced":
    """Load a model that only fairseq builds, for `forced.load_scorer`."""
    start_fairseq()
    from vaswani_plugin.fairseq_plugin.generator import load_forced

    return load_forced(path, data, device)


def run(args: argparse.Namespace) -> int:
    """Rescore; returns 0.

    Raises:
        ValueError: flags that don't fit, a list or a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    inputs = [args.nbest, args.source, args.dev_nbest, args.dev_source, args.bpe_codes]
    inputs += [*(args.reference or []), *(args.dev_reference or [])]
    check_outputs("--output and --output-nbest", [args.output, args.output_nbest], inputs)
    of_dev = args.dev_nbest, args.dev_source, args.dev_reference
    if any(of_dev) and not all(of_dev):
        raise UserError("--dev-nbest, --dev-source and --dev-reference go together")
    systems = read_systems(args.system)
    fixed = read_weights(args.weights, ["score", "words", *systems])
    if fixed and args.dev_nbest:
        raise UserError("--weights fixes what --dev-nbest would search for: leave one out")
    from vaswani_plugin.figures import rescoring  # importing torch takes a second
    from vaswani_plugin.inference.forced import load_scorer

    test = rescoring.Lists(args.nbest, args.source, args.reference, args.bpe_codes)
    dev = rescoring.Lists(*of_dev, args.bpe_codes) if args.dev_nbest else None
    device, notes = flags.chosen_device(args), []
    for name, paths in systems.items():
        scorer = load_scorer(paths, args.data, device, load_foreign)
        for lists in filter(None, (test, dev)):
            notes += lists.add(name, scorer, args.max_tokens)
    is_searched = dev is not None and not args.average
    if not (is_searched or fixed or args.average):
        notes.append(WARNING)
    for note in notes:
        print(note, file=sys.stderr)

    def given(names: list[str]) -> dict[str, float]:
        even = {name: 0.0 if name == "words" else 0.5 for name in names}
        return {name: fixed.get(name, 0.0) for name in names} if fixed else even

    weigh = partial(rescoring.search_weights, dev) if is_searched else given
    rows = rescoring.make_rows(systems, weigh, dev, test, with_words=is_searched)
    last = [row["weights"] for row in rows if row["weights"]][-1]
    rescoring.write_reordered(test, last, args.output, args.output_nbest)
    counts = {"sentences": len(test.lists), "hypotheses": len(test.entries)}
    as_json = json.dumps({**counts, "rows": rows}, indent=2)
    print(as_json if args.format == "json" else rescoring.as_table(rows))
    return 0
