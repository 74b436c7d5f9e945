"""`vaswani rescore`: another system's n-best lists, reordered by the scores of our models.

Each --system adds log P of the hypotheses to the list's own score. The weights are tuned on a
development set, or equal. The table is as in Sutskever et al. (2014), section 3.6.
"""

import argparse
import json
import sys
from pathlib import Path

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._types import non_negative_int
from vaswani_plugin.text.output_files import check_outputs

HELP = "rescore n-best lists with models or ensembles, and tune the weights for BLEU"
EXAMPLE = (
    "vaswani rescore --data DATA_BIN --nbest test.nbest --source test.en --reference test.de \\\n"
    "    --dev-nbest valid.nbest --dev-source valid.en --dev-reference valid.de \\\n"
    "    --system lstm=lstm.pt --system five=a.pt:b.pt:c.pt:d.pt:e.pt --output best.de"
)
WARNING = (
    "vaswani rescore: without --dev-nbest nothing tells how good a system is: its log P and the "
    "list's score count the same (--average), which harms where the system is the weaker one"
)
PATHS = (
    ("data", "folder of the models' dictionaries", {"required": True, "metavar": "DIR"}),
    ("bpe-codes", "split sources and hypotheses by these BPE codes", {}),
    ("nbest", "the n-best lists, of Moses (ids from 0) or fairseq-generate", {"required": True}),
    ("source", "source sentences, one per line (default: the S lines of --nbest)", {}),
    (
        "reference",
        "tokenized references, one per line (default: the T lines of --nbest)",
        {"nargs": "+"},
    ),
    ("dev-nbest", "n-best lists of a development set, on which the weights are tuned", {}),
    ("dev-source", "source sentences of --dev-nbest", {}),
    ("dev-reference", "references of --dev-nbest", {"nargs": "+"}),
    ("output", "write the best hypothesis of each list", {}),
    ("output-nbest", "write the reordered lists, in Moses' format", {}),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    system = (
        "a checkpoint, or several as an ensemble, that scores the hypotheses; may be repeated: "
    )
    system += "each gets a row of the table, and --output uses the last"
    kind = "NAME=FILE[:FILE...]"
    add("--system", action="append", required=True, metavar=kind, help=system)
    for name, meaning, more in PATHS:
        add(f"--{name}", **{"type": Path, "metavar": "FILE", "help": meaning} | more)
    weights = parser.add_mutually_exclusive_group()
    fixed = "fixed weights; NAME is a system (its log P), score (that of the list) or words (the "
    fixed += "number of words)"
    weights.add_argument("--weights", nargs="+", metavar="NAME=NUMBER", help=fixed)
    average = (
        "equal weights of the list's score and the system's log P, on the same scale (Sutskever "
    )
    average += "et al. 2014); the default, with a warning, if there is no --dev-nbest"
    weights.add_argument("--average", action="store_true", help=average)
    restarts = "random restarts of the tuning (default: 10)"
    add("--restarts", type=non_negative_int, metavar="N", help=restarts)
    add("--seed", type=int, help="random seed of the restarts (default: 1)")
    flags.add_batch_tokens(parser, 4000, "target tokens", "--max-tokens")
    flags.add_device(parser)
    flags.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Rescore; returns 0.

    Raises:
        ValueError: flags that don't fit, a list or a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    inputs = [args.nbest, args.source, args.dev_nbest, args.dev_source, args.bpe_codes]
    inputs += [*(args.reference or []), *(args.dev_reference or [])]
    check_outputs("--output and --output-nbest", [args.output, args.output_nbest], inputs)
    from vaswani_plugin.export.ensembles import load_scorer
    from vaswani_plugin.figures import rescoring  # importing torch takes a second

    systems = rescoring.read_systems(args.system)
    fixed = rescoring.read_weights(args.weights or [], systems)
    if fixed and args.dev_nbest is not None:
        raise ValueError("--weights fixes what --dev-nbest would tune: leave one out")
    if args.dev_nbest is None and (args.dev_source or args.dev_reference):
        raise ValueError("--dev-source and --dev-reference go with --dev-nbest")
    is_tuned = args.dev_nbest is not None and not args.average
    given = ("restarts", args.restarts), ("seed", args.seed)
    tuning = {name: value for name, value in given if value is not None}
    if tuning and not is_tuned:
        raise ValueError("--restarts and --seed go with --dev-nbest, without --average")
    sets = [rescoring.read_set(args.nbest, args.source, args.reference, args.bpe_codes)]
    if args.dev_nbest is not None:
        dev_files = args.dev_nbest, args.dev_source, args.dev_reference
        sets.append(rescoring.read_set(*dev_files, args.bpe_codes))
        if sets[1].references is None:
            raise ValueError(f"{args.dev_nbest} holds no references: give --dev-reference")
    test, dev = sets[0], sets[1] if len(sets) > 1 else None
    is_even = not (is_tuned or fixed)
    device = flags.chosen_device(args)
    notes = rescoring.add_systems(
        systems, lambda paths: load_scorer(paths, args.data, device), sets, args.max_tokens, is_even
    )
    for note in [*notes, *([WARNING] if is_even and not args.average else [])]:
        print(note, file=sys.stderr)
    weigh = rescoring.even_weights if is_even else rescoring.fixed_weights(fixed)
    if is_tuned:
        weigh = rescoring.tuned_weights(dev, **tuning)
    rows = rescoring.make_rows(systems, weigh, dev, test, with_words=is_tuned)
    last = [row["weights"] for row in rows if row["weights"]][-1]
    rescoring.write_reordered(test, last, args.output, args.output_nbest)
    counts = {"sentences": len(test.texts), "hypotheses": sum(map(len, test.texts))}
    as_json = json.dumps({**counts, "rows": rows}, indent=2)
    print(as_json if args.format == "json" else rescoring.as_table(rows))
    return 0
