"""What `vaswani attention` does once its flags are read: attention in a sentence, or over a corpus.

Axes: N layers, H heads, T queries, S keys.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vaswani_plugin.cli._attention_figures import draw_heads, draw_lines, draw_statistics
from vaswani_plugin.cli._attention_page import write_page
from vaswani_plugin.cli._attention_statistics import as_table, corpus_statistics
from vaswani_plugin.cli._attention_weights import Attended, Attender, Attention
from vaswani_plugin.cli.attention import KINDS
from vaswani_plugin.text.corpus_io import InputError, read_lines, read_pairs, write_atomically


def run(args: argparse.Namespace) -> int:
    """Show a sentence or a corpus.

    Raises:
        ValueError: flags that don't fit, a layer, head or word that isn't there, an empty
            sentence, a model without per-head weights.
        OSError: a file can't be read or written.
    """
    if args.model is not None:
        attender = Attender.from_bundle(args.model)
    else:
        attender = Attender.from_checkpoint(args.path, args.data, args.bpe_codes)
    if args.corpus is not None:
        return _show_corpus(args, attender)
    attended = attender.attend(args.source, args.target)
    for side, unknown in attender.unknown(attended).items():
        if unknown:
            print(f"--{side}: {unknown} tokens are unknown to the model", file=sys.stderr)
    return _show_sentence(args, attended.merged(attender.subwords) if args.words else attended)


def _show_sentence(args: argparse.Namespace, attended: Attended) -> int:
    if args.kind not in attended.attentions:
        kinds = ", ".join(attended.attentions)
        raise ValueError(f"--kind {args.kind}: this model has none; it has {kinds}")
    attention = attended.attentions[args.kind]
    layer, heads = _chosen(args, attention)
    only = None if args.word is None else _places(args.word, attention.queries, args)
    start = {"kind": args.kind, "layer": layer, "heads": heads, "word": args.word}
    picture = (
        *(attention.weights[layer - 1], heads, attention.queries, attention.keys),
        f"{KINDS[args.kind]}, layer {layer}",
    )
    for path in args.output:
        if path.suffix == ".html":
            write_page(attended, start, path)
        elif path.suffix == ".json":
            _write_json(as_json(attended), path)
        elif args.lines or args.word is not None:
            draw_lines(*picture, path, only)
        else:
            draw_heads(*picture, path)
    _report(args.output, json.dumps(as_json(attended)) if args.format == "json" else "")
    return 0


def _show_corpus(args: argparse.Namespace, attender: Attender) -> int:
    statistics = corpus_statistics(_attend_lines(args, attender))
    numbers = statistics | {"attention": _as_lists(statistics["attention"])}
    for path in args.output or []:
        if path.suffix == ".json":
            _write_json(numbers, path)
        else:
            draw_statistics(statistics, path)
    as_text = args.format == "text"
    _report(args.output or [], as_table(statistics) if as_text else json.dumps(numbers))
    return 0


def _report(outputs: list[Path], text: str) -> None:
    """Print a text, and where the files are: on stderr where stdout holds the text."""
    if text:
        print(text)
    for path in outputs:
        print(os.path.abspath(path), file=sys.stderr if text else sys.stdout)


def _chosen(args: argparse.Namespace, attention: Attention) -> tuple[int, list[int]]:
    layers, heads = attention.weights.shape[:2]
    layer = layers if args.layer is None else args.layer
    if not 1 <= layer <= layers:
        raise ValueError(f"--layer {layer} is not in 1 ... {layers}")
    for head in args.heads or []:
        if not 1 <= head <= heads:
            raise ValueError(f"--heads {head} is not in 1 ... {heads}")
    return layer, list(dict.fromkeys(args.heads or range(1, heads + 1)))


def _places(word: str, queries: list[str], args: argparse.Namespace) -> list[int]:
    places = [i for i, query in enumerate(queries) if query.casefold() == word.casefold()]
    if not places:
        hint = "" if args.words else " (--words merges subwords)"
        raise ValueError(f"--word {word} is not in the sentence: {' '.join(queries)}{hint}")
    return places


def as_json(attended: Attended) -> dict[str, Any]:
    """The weights of every layer and head, rounded to seven decimals.

    Returns:
        `source`, `target`, and `attention`: for each kind `queries` (T labels), `keys` (S) and
        `weights` (N, H, T, S).
    """
    return {
        "source": attended.source,
        "target": attended.target,
        "attention": {
            kind: {
                "queries": attention.queries,
                "keys": attention.keys,
                "weights": attention.weights.astype(float).round(7).tolist(),
            }
            for kind, attention in attended.attentions.items()
        },
    }


def _as_lists(attention: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        kind: {k: v if k == "queries" else v.tolist() for k, v in found.items()}
        for kind, found in attention.items()
    }


def _write_json(content: dict[str, Any], path: Path) -> None:
    with write_atomically(path) as write:
        write(json.dumps(content))


def _attend_lines(args: argparse.Namespace, attender: Attender) -> Iterator[Attended]:
    """The lines of the corpus, empty ones left out."""
    lines = (
        ((source, None) for source in read_lines(args.corpus[0]))
        if len(args.corpus) == 1
        else read_pairs(*args.corpus)
    )
    try:
        bar = tqdm(lines, unit=" sentences", disable=not sys.stderr.isatty())
        for number, (source, target) in enumerate(bar, start=1):
            if not source.strip() or (target is not None and not target.strip()):
                continue
            try:
                attended = attender.attend(source, target)
            except ValueError as error:
                raise ValueError(f"{args.corpus[0]}:{number}: {error}") from error
            yield attended.merged(attender.subwords) if args.words else attended
    except InputError as error:
        raise ValueError(str(error)) from error
