"""Checks of the flags of `vaswani attention`; loads neither torch nor a model."""

import argparse

from vaswani_plugin.figures.figures import check_plot_path


def check_flags(args: argparse.Namespace) -> None:
    """Refuse flags of `vaswani attention` that don't fit, before the model is loaded.

    Raises:
        ValueError: they exclude each other, or a picture can't be drawn; names them.
        FileNotFoundError: an output's folder does not exist.
    """
    if args.path is not None and args.data is None:
        raise ValueError("--path needs --data, the binarized data with the dictionaries")
    if args.model is not None and (args.data or args.bpe_codes):
        raise ValueError("--data and --bpe-codes go with --path: a bundle has its own")
    searches = args.search is not None or args.pairs is not None
    if args.least_distance is not None and not searches:
        raise ValueError("--least-distance goes with --search or --pairs")
    if searches:
        if args.corpus is None or len(args.corpus) > 1:
            raise ValueError(
                "--search and --pairs look at the encoder over --corpus FILE: give one file of "
                "sources"
            )
    if args.corpus is not None:
        if len(args.corpus) > 2:
            raise ValueError(f"--corpus takes one file or two, not {len(args.corpus)}")
        of_sentence = {"--target": args.target, "--word": args.word, "--lines": args.lines}
        of_sentence |= {"--layer": args.layer, "--heads": args.heads, "--kind": args.kind}
        for flag, value in of_sentence.items():
            if value is not None and value is not False:
                raise ValueError(f"{flag} goes with --source, not with --corpus")
    for path in args.output or []:
        if path.suffix == ".html" and args.corpus is not None and not searches:
            raise ValueError(f"{path}: a page shows a sentence; of a corpus give .png or .json")
        if path.suffix not in (".html", ".json"):
            check_plot_path(path)
        elif not path.parent.is_dir():
            raise FileNotFoundError(2, "No such folder", str(path.parent))
