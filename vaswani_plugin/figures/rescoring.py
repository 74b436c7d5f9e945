"""Rescoring of another system's n-best lists: features, weights, the table, the files.

The table is that of Sutskever et al. (2014), section 3.6: the baseline, each system on top of it,
the oracle.

Axes: N lists, K hypotheses of a list.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from vaswani_plugin.figures.nbest import read_nbest, write_nbest
from vaswani_plugin.figures.rescoring_set import SCORE, WORDS, RescoringSet
from vaswani_plugin.inference.forced import ForcedScorer
from vaswani_plugin.metrics.tuning import oracle, tune
from vaswani_plugin.text.output_files import write_atomically

Weigh = Callable[[list[str]], list[float]]
"""A function from the names of features to their weights."""


def read_systems(given: Sequence[str]) -> dict[str, list[Path]]:
    """Checkpoints by the names of their systems.

    Args:
        given: NAME=CHECKPOINT[:CHECKPOINT...] of each.

    Raises:
        ValueError: a text has another form, or a name is used twice.
        FileNotFoundError: there is no such checkpoint.
    """
    systems: dict[str, list[Path]] = {}
    for text in given:
        name, equals, paths = text.partition("=")
        if not (name and equals and paths):
            raise ValueError(f"--system {text}: must be NAME=CHECKPOINT[:CHECKPOINT...]")
        if name in (SCORE, WORDS) or name in systems or not name.isidentifier():
            raise ValueError(
                f"--system {text}: {name!r} is taken or no name (letters, digits and _); "
                "choose another"
            )
        systems[name] = [Path(path) for path in paths.split(":")]
        for path in systems[name]:  # fail now, not after an hour of scoring by the first systems
            if not path.exists():
                raise FileNotFoundError(f"--system {text}: {path} does not exist")
    return systems


def read_weights(given: Sequence[str], systems: Iterable[str]) -> dict[str, float]:
    """Weights by the names of their features.

    Args:
        given: NAME=NUMBER of each.
        systems: names of systems, which are features in addition to those of every list.

    Raises:
        ValueError: a text has another form, or names no feature, or one that is given twice.
    """
    weights: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name in weights:
            raise ValueError(f"--weights {text}: {name} is given twice")
        try:
            weights[name] = float(value)
        except ValueError:
            weights[name] = math.nan
        if not math.isfinite(weights[name]):
            raise ValueError(f"--weights {text}: must be NAME=NUMBER")
        known = (SCORE, WORDS, *systems)
        if name not in known:
            raise ValueError(
                f"--weights {name}: no feature of that name; there are {', '.join(known)}"
            )
    return weights


def read_set(
    nbest: Path, sources: Path | None, references: list[Path] | None, codes: Path | None
) -> RescoringSet:
    """Read n-best lists with their sources and references.

    Args:
        nbest: file of the lists.
        sources, references: see `RescoringSet`.
        codes: BPE codes that split words into the models' subwords; None: words stay whole.

    Raises:
        ValueError: a file can't be used, or a side is missing.
        OSError: a file can't be read.
    """
    split = None
    if codes is not None:
        from vaswani_plugin.text import bpe

        split = bpe.make_encoder(str(codes))
    return RescoringSet(read_nbest(nbest), sources, references, split)


def add_systems(
    systems: dict[str, list[Path]],
    load: Callable[[list[Path]], ForcedScorer],
    sets: Sequence[RescoringSet],
    max_tokens: int,
    on_the_lists_scale: bool,
) -> Iterator[str]:
    """Score the hypotheses of all lists with each system; a terminal shows a progress bar.

    Args:
        systems: checkpoints by the name of their feature.
        load: makes a scorer from checkpoints.
        sets: the lists, to which the features are added.
        max_tokens: target tokens of a batch, padding included.
        on_the_lists_scale: see `RescoringSet.add`.

    Yields:
        A warning for each system that doesn't know all words.

    Raises:
        ValueError: a checkpoint can't be used, or a sentence is empty or too long for it.
        OSError: a file can't be read.
    """
    for name, paths in systems.items():
        scorer = load(paths)
        for lists in sets:
            title = f"{name}, {lists.nbest.path}"
            total = sum(map(len, lists.texts))
            with tqdm(total=total, desc=title, unit=" hyp", disable=None) as bar:
                log_p, unknown = score_lists(scorer, lists, max_tokens, title, bar.update)
            lists.add(name, log_p, on_the_lists_scale)
            if unknown[0]:
                yield f"{title}: {unknown[0]} source tokens are unknown to the model"
            if unknown[1]:
                yield (
                    f"{title}: {unknown[1]} tokens of the hypotheses are unknown to the model "
                    "(--bpe-codes splits words)"
                )


def score_lists(
    scorer: ForcedScorer,
    lists: RescoringSet,
    max_tokens: int,
    title: str,
    done: Callable[[int], object] = lambda count: None,
) -> tuple[list[np.ndarray], tuple[int, int]]:
    """log P of every hypothesis, its end of sentence included, in nats.

    Args:
        scorer: a model or an ensemble.
        lists: the hypotheses.
        max_tokens: target tokens of a batch, padding included.
        title: of the lists, in errors.
        done: called with the number of hypotheses that were scored since its last call.

    Returns:
        log P, (K,) of each list; and the numbers of unknown tokens in sources and hypotheses.

    Raises:
        ValueError: a sentence is empty or too long for a model.
    """
    sources = [
        scorer.encode(line.split(), 0, f"{title}: source {i}")
        for i, line in enumerate(lists.sources)
    ]
    targets = [
        [scorer.encode(line.split(), 1, f"{title}: hypothesis of sentence {i}") for line in row]
        for i, row in enumerate(lists.texts)
    ]
    unknown = (
        sum(row.count(scorer.source.unk()) for row in sources),
        sum(tokens.count(scorer.target.unk()) for row in targets for tokens in row),
    )
    found = scorer.score(sources, targets, max_tokens, done)
    return [np.array([sum(tokens) for tokens in row]) for row in found], unknown


def even_weights(names: list[str]) -> list[float]:
    """The weights of Sutskever et al.'s even average: one half each for the list and the system."""
    return [0.0 if name == WORDS else 0.5 for name in names]


def fixed_weights(given: dict[str, float]) -> Weigh:
    """Weights by name; 0 where none is given."""
    return lambda names: [given.get(name, 0.0) for name in names]


def tuned_weights(dev: RescoringSet, restarts: int = 10, seed: int = 1) -> Weigh:
    """Weights that give the best BLEU on lists with references (Och 2003).

    Args:
        dev: the lists.
        restarts: searches from random weights, besides the one from equal weights.
        seed: of the random weights.
    """

    def weigh(names: list[str]) -> list[float]:
        start = np.array([float(name != WORDS) for name in names])
        return tune(dev.pool(names), start, restarts, seed).tolist()

    return weigh


def make_rows(
    systems: Sequence[str],
    weigh: Weigh,
    dev: RescoringSet | None,
    test: RescoringSet,
    with_words: bool,
) -> list[dict[str, Any]]:
    """The rows of the table: `system`, `weights`, `dev_bleu` and `test_bleu` (None: unknown).

    Args:
        systems: names of features; each has a row.
        weigh: gives the weights of a row.
        dev: lists on which the weights were tuned.
        test: lists to reorder.
        with_words: add a row for the baseline with the number of words as its only new feature.
    """
    rows = [_row("baseline", {SCORE: 1.0}, dev, test)]
    variants = {f"baseline + {name}": [SCORE, name, WORDS] for name in systems}
    if with_words:
        variants = {f"baseline + {WORDS}": [SCORE, WORDS], **variants}
    for title, names in variants.items():
        rows.append(_row(title, dict(zip(names, weigh(names), strict=True)), dev, test))
    if test.references is not None:
        best = {"dev_bleu": _oracle(dev), "test_bleu": _oracle(test)}
        rows.append({"system": "oracle", "weights": None, **best})
    return rows


def _row(
    title: str, weights: dict[str, float], dev: RescoringSet | None, test: RescoringSet
) -> dict[str, Any]:
    scores = {"dev_bleu": _bleu(dev, weights), "test_bleu": _bleu(test, weights)}
    return {"system": title, "weights": weights, **scores}


def _bleu(lists: RescoringSet | None, weights: dict[str, float]) -> float | None:
    if lists is None or lists.references is None:
        return None
    pool = lists.pool(weights)
    return pool.bleu(pool.choose(np.array(list(weights.values()))))


def _oracle(lists: RescoringSet | None) -> float | None:
    if lists is None or lists.references is None:
        return None
    pool = lists.pool([SCORE])
    return pool.bleu(oracle(pool))


def as_table(rows: list[dict[str, Any]]) -> str:
    """The rows as text."""
    return tabulate(map(_cells, rows), headers="keys", tablefmt="github", disable_numparse=True)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    weights = row["weights"] or {}
    cells = {"system": row["system"]}
    for part in ("dev", "test"):
        score = row[f"{part}_bleu"]
        cells[f"{part} BLEU"] = "" if score is None else f"{score:.2f}"
    return cells | {"weights": ", ".join(f"{k} {v:.4g}" for k, v in weights.items())}


def write_reordered(
    test: RescoringSet, weights: dict[str, float], best: Path | None, nbest: Path | None
) -> None:
    """Write the best of each list to `best`, and all of them in Moses' format to `nbest`, if given.

    Raises:
        OSError: a file can't be written.
    """
    features = test.rows(weights)
    scores = [part @ np.array(list(weights.values())) for part in features]
    if best is not None:
        with write_atomically(best) as write:
            for entries, totals in zip(test.nbest.lists, scores, strict=True):
                write(entries[int(totals.argmax())].output)
    if nbest is not None:
        with write_atomically(nbest) as write:
            write_nbest(write, test.nbest, list(weights), features, scores)
