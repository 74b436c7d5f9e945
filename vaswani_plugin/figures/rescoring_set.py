"""N-best lists to rescore, with sources, references, features and BLEU's counts.

Axes: N lists, K hypotheses of a list, F features.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from vaswani_plugin.figures.nbest import NBest
from vaswani_plugin.metrics.segments import read_lines
from vaswani_plugin.metrics.tuning import Pool, count_ngrams
from vaswani_plugin.text.coding import join_bpe

SCORE, WORDS = "score", "words"
"""Names of the features that every list has: the system's own score, and the number of words."""


class RescoringSet:
    """N-best lists with their sources, references and features.

    Args:
        nbest: the lists.
        sources: file of the sources; None takes the list's own.
        references: files; None takes the list's own, if any.
        split: function that splits words into the models' subwords; None: words stay whole.

    Raises:
        ValueError: a side is missing or has another number of lines than there are lists.
    """

    def __init__(
        self,
        nbest: NBest,
        sources: Path | None,
        references: list[Path] | None,
        split: Callable[[str], str] | None,
    ) -> None:
        self.nbest = nbest
        lines = nbest.sources if sources is None else _lines_for(nbest, sources)
        if lines is None:
            raise ValueError(f"{nbest.path} holds no sources: give their file with --source")
        self.sources = [split(line) for line in lines] if split else lines
        texts = [[entry.text for entry in entries] for entries in nbest.lists]
        self.texts = [[split(t) for t in row] for row in texts] if split else texts
        self.references = None
        if references is not None:
            self.references = [_lines_for(nbest, path) for path in references]
        elif nbest.references is not None:
            self.references = [nbest.references]
        self.words = [[join_bpe(text) for text in row] for row in texts]
        self.features = {
            SCORE: [np.array([entry.score for entry in entries]) for entries in nbest.lists],
            WORDS: [np.array([float(len(text.split())) for text in row]) for row in self.words],
        }
        self._counts: list[np.ndarray] | None = None

    def add(self, name: str, log_p: list[np.ndarray], on_the_lists_scale: bool) -> None:
        """Add a system's log P of every hypothesis as a feature.

        Args:
            name: of the feature.
            log_p: natural logarithms, (K,) of each list.
            on_the_lists_scale: convert them to the scale of the list's own score by
                `Entry.per_nat`, so that the two can be averaged.

        Raises:
            ValueError: the list's scale is unknown.
        """
        if on_the_lists_scale:
            scales = map(self._scale, range(len(log_p)))
            log_p = [values * scale for values, scale in zip(log_p, scales, strict=True)]
        self.features[name] = log_p

    def _scale(self, number: int) -> np.ndarray:
        entries = self.nbest.lists[number]
        if any(entry.per_nat is None for entry in entries):
            raise ValueError(
                f"{self.nbest.path}: sentence {number} has no P lines, so that nothing says how "
                "its scores depend on the length: make the list again without --quiet, or give "
                "--dev-nbest or --weights"
            )
        return np.array([entry.per_nat for entry in entries])

    def rows(self, names: Iterable[str]) -> list[np.ndarray]:
        """The features of these names, (K, F) of each list."""
        columns = [self.features[name] for name in names]
        return [np.stack(parts, axis=1) for parts in zip(*columns, strict=True)]

    def pool(self, names: Iterable[str]) -> Pool:
        """The features of these names and BLEU's counts, which need references."""
        if self._counts is None:
            self._counts = self._count()
        return Pool.of(self.rows(names), self._counts)

    def _count(self) -> list[np.ndarray]:
        golds = zip(*([join_bpe(line) for line in side] for side in self.references), strict=True)
        return [
            np.stack([count_ngrams(text, gold) for text in row])
            for row, gold in zip(self.words, golds, strict=True)
        ]


def _lines_for(nbest: NBest, path: Path) -> list[str]:
    lines, count = read_lines(path), len(nbest.lists)
    if len(lines) > count:
        raise ValueError(
            f"{nbest.path}: no hypotheses of sentence {count}, which is line {count + 1} of {path} "
            f"({count} lists, {len(lines)} lines)"
        )
    if len(lines) < count:
        raise ValueError(
            f"{nbest.path}: hypotheses of sentence {len(lines)}, but {path} has only {len(lines)} "
            "lines (ids count from 0)"
        )
    return lines
