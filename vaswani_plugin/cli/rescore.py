"""`vaswani rescore`: another system's n-best lists, reordered by the scores of our models.

Each --system adds log P of the hypotheses to the list's own score. The weights are tuned on a
development set, or equal. The table is as in Sutskever et al. (2014), section 3.6.
"""

import argparse
import json
import sys
from pathlib import Path

from vaswani_plugin.cli._flags import add_batch_tokens, add_processor, natural, processor

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
    ("data", "the models' binarized data", {"required": True, "metavar": "DIR"}),
    ("bpe-codes", "split sources and hypotheses with these", {}),
    ("nbest", "lists to reorder, of Moses (ids from 0) or fairseq-generate", {"required": True}),
    ("source", "a line a sentence (default: the list's S lines)", {}),
    ("reference", "tokenized, a line a sentence (default: the list's T lines)", {"nargs": "+"}),
    ("dev-nbest", "lists to tune the weights on", {}),
    ("dev-source", "of them", {}),
    ("dev-reference", "of them", {"nargs": "+"}),
    ("output", "the best of each list", {}),
    ("output-nbest", "all of them, reordered, Moses' format", {}),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--system",
        action="append",
        required=True,
        metavar="NAME=FILE[:FILE...]",
        help="a checkpoint or an ensemble that scores the hypotheses; may be repeated, a row of "
        "the table each; the last one is applied in --output and --output-nbest",
    )
    for name, meaning, more in PATHS:
        options = {"type": Path, "metavar": "FILE", "help": meaning} | more
        parser.add_argument(f"--{name}", **options)
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument(
        "--weights",
        nargs="+",
        metavar="NAME=NUMBER",
        help="fixed, of log P by the names of the systems, of score (the list's own) and of words "
        "(their number)",
    )
    weights.add_argument(
        "--average",
        action="store_true",
        help="the even average of the list's score and of the system's log P on the same scale "
        "(Sutskever et al. 2014); done, with a warning, where there are no --dev-nbest either",
    )
    parser.add_argument(
        "--restarts", type=natural, default=10, metavar="N", help="random starts (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random starts (default: 1)")
    add_batch_tokens(parser, 4000, "target tokens scored", "--max-tokens")
    add_processor(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Rescore; returns 0.

    Raises:
        ValueError: flags that don't fit, a list or a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    from vaswani_plugin.analysis import rescoring  # importing torch takes a second
    from vaswani_plugin.interchange.ensembles import load_scorer

    systems = rescoring.read_systems(args.system)
    fixed = rescoring.read_weights(args.weights or [], systems)
    if fixed and args.dev_nbest is not None:
        raise ValueError("--weights fixes what --dev-nbest would tune: leave one out")
    if args.dev_nbest is None and (args.dev_source or args.dev_reference):
        raise ValueError("--dev-source and --dev-reference go with --dev-nbest")
    sets = [rescoring.read_set(args.nbest, args.source, args.reference, args.bpe_codes)]
    if args.dev_nbest is not None:
        dev_files = args.dev_nbest, args.dev_source, args.dev_reference
        sets.append(rescoring.read_set(*dev_files, args.bpe_codes))
        if sets[1].references is None:
            raise ValueError(f"{args.dev_nbest} holds no references: give --dev-reference")
    test, dev = sets[0], sets[1] if len(sets) > 1 else None
    is_tuned = dev is not None and not args.average
    is_even = not (is_tuned or fixed)
    device = processor(args)
    notes = rescoring.add_systems(
        systems, lambda paths: load_scorer(paths, args.data, device), sets, args.max_tokens, is_even
    )
    for note in [*notes, *([WARNING] if is_even and not args.average else [])]:
        print(note, file=sys.stderr)
    weigh = rescoring.even_weights if is_even else rescoring.fixed_weights(fixed)
    if is_tuned:
        weigh = rescoring.tuned_weights(dev, args.restarts, args.seed)
    rows = rescoring.make_rows(systems, weigh, dev, test, with_words=is_tuned)
    last = [row["weights"] for row in rows if row["weights"]][-1]
    rescoring.write_reordered(test, last, args.output, args.output_nbest)
    counts = {"sentences": len(test.texts), "hypotheses": sum(map(len, test.texts))}
    as_json = json.dumps({**counts, "rows": rows}, indent=2)
    print(as_json if args.format == "json" else rescoring.as_table(rows))
    return 0
