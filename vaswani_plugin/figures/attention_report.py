"""Attention of a sentence or over a corpus as files: pictures, a page to explore, numbers.

Axes: N layers, H heads, T queries, S keys.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.attention_figures import draw_heads, draw_lines
from vaswani_plugin.figures.attention_page import write_page
from vaswani_plugin.inference.attention import KINDS, Attention, HeadWeights
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.text.lines import read_lines, read_pairs
from vaswani_plugin.text.outputs import write_json


@dataclass(frozen=True)
class View:
    """The part of a sentence's attention to show.

    Args:
        kind: a key of `KINDS`.
        layer: from 1 on; None: the last one.
        heads: from 1 on; None: all.
        lines: draw lines between tokens (Figures 3 to 5) instead of heat maps.
        word: draw only the lines of this word.
        is_merged: the labels are words, not subwords.
    """

    kind: str = "cross"
    layer: int | None = None
    heads: Sequence[int] | None = None
    lines: bool = False
    word: str | None = None
    is_merged: bool = False


def write_sentence(attention: Attention, view: View, outputs: list[Path]) -> None:
    """Write the attention of a sentence to files; the suffix is .html, .json, or a picture's.

    Raises:
        UserError: a kind, layer, head or word that does not exist.
        ValueError: matplotlib is not installed.
        OSError: a file can't be written.
    """
    if view.kind not in attention.kinds:
        kinds = ", ".join(attention.kinds)
        raise UserError(f"--kind {view.kind}: this model has none; it has {kinds}")
    shown = attention.kinds[view.kind]
    layer, heads = _chosen(view, shown)
    only = None if view.word is None else _places(view.word, shown.queries, view.is_merged)
    start = {"kind": view.kind, "layer": layer, "heads": heads, "word": view.word}
    title = f"{KINDS[view.kind]}, layer {layer}"
    picture = shown.weights[layer - 1], heads, shown.queries, shown.keys, title
    for path in outputs:
        if path.suffix == ".html":
            write_page(attention, start, path)
        elif path.suffix == ".json":
            write_json(path, as_json(attention), indent=None)
        elif view.lines or view.word is not None:
            draw_lines(*picture, path, only)
        else:
            draw_heads(*picture, path)


def _chosen(view: View, shown: HeadWeights) -> tuple[int, list[int]]:
    layers, heads = shown.weights.shape[:2]
    layer = layers if view.layer is None else view.layer
    if not 1 <= layer <= layers:
        raise UserError(f"--layer {layer} is not in 1 ... {layers}")
    for head in view.heads or []:
        if not 1 <= head <= heads:
            raise UserError(f"--heads {head} is not in 1 ... {heads}")
    return layer, list(dict.fromkeys(view.heads or range(1, heads + 1)))


def _places(word: str, queries: list[str], is_merged: bool) -> list[int]:
    places = [i for i, query in enumerate(queries) if query.casefold() == word.casefold()]
    if not places:
        hint = "" if is_merged else " (--words merges subwords)"
        raise UserError(f"--word {word} is not in the sentence: {' '.join(queries)}{hint}")
    return places


def as_json(attention: Attention) -> dict[str, Any]:
    """The weights of every layer and head, rounded to seven decimals.

    Returns:
        `source`, `target`, and `attention`: for each kind `queries` (T labels), `keys` (S) and
        `weights` (N, H, T, S).
    """
    return {
        "source": attention.source,
        "target": attention.target,
        "attention": {
            kind: {
                "queries": heads.queries,
                "keys": heads.keys,
                "weights": heads.weights.astype(float).round(7).tolist(),
            }
            for kind, heads in attention.kinds.items()
        },
    }


def read_corpus(paths: list[Path]) -> Iterator[tuple[str, str | None]]:
    """Pairs of source and target; without a second file the targets are None.

    Raises:
        UserError: a line can't be read, or the files have different numbers of lines.
        OSError: a file can't be read.
    """
    if len(paths) == 1:
        return ((source, None) for source in read_lines(paths[0]))
    return read_pairs(*paths)


def attend_pairs(
    translator: Translator,
    pairs: Iterable[tuple[str, str | None]],
    name: Path,
    merge: str | None = None,
) -> Iterator[Attention]:
    """The attention of each pair; empty pairs are skipped; a terminal shows a progress bar.

    Args:
        translator: of the model.
        pairs: source and target; for a target None, the model translates the source.
        name: of the corpus, for error messages.
        merge: kind of the subwords to merge into words; None: don't merge.

    Raises:
        ValueError: a sentence is too long; names its line.
    """
    bar = tqdm(pairs, unit=" sentences", disable=None)
    for number, (source, target) in enumerate(bar, start=1):
        if not source.strip() or (target is not None and not target.strip()):
            continue
        try:
            attention = translator.attention(source, target)
        except ValueError as error:
            raise UserError(f"{name}:{number}: {error}") from error
        yield attention.merged(merge) if merge else attention
