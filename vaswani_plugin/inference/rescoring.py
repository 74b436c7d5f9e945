"""Another system's n-best lists, reordered by the scores of our models.

Sutskever et al. (2014), section 3.6: log P of each hypothesis under a model joins the list's own
score, evenly or by weights that give the best BLEU on a development set. The oracle chooses by the
references.

Lists are in Moses' format, ID ||| HYPOTHESIS ||| FEATURES ||| SCORE, with ids from 0.

Axes: N lists, M hypotheses of all lists.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics.bleu import BLEU
from tabulate import tabulate
from tqdm import tqdm

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_text
from vaswani_plugin.inference.checkpoints import load_model
from vaswani_plugin.inference.runner import batches_by_length
from vaswani_plugin.inference.search_engine import SearchEngine
from vaswani_plugin.metrics.segments import first_gap
from vaswani_plugin.text import bpe
from vaswani_plugin.text.bpe import join_bpe
from vaswani_plugin.text.dictionary import plain_units
from vaswani_plugin.text.languages import trained_languages
from vaswani_plugin.text.settings import Settings

SCORE, WORDS = "score", "words"
"""Features that every list has: the system's own score, and the number of words."""
_HYPOTHESIS = re.compile(
    r"\s*([0-9]+)\s*\|\|\|(.*?)\|\|\|.*?\|\|\|\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e(?:-[0-9]+|\+?[0-9]{1,2}))?)\s*(?:\|\|\||$)",
    re.I,
)
ORDERS = 4  # of the n-grams of BLEU
GRID = 21
"""Points of the grid of each weight; it is searched twice, the second time near the best point."""


def load_scorers(
    systems: Mapping[str, Sequence[Path]], data: Path, device: torch.device
) -> Iterator[tuple[str, SearchEngine]]:
    """Load one system after another: checkpoints of one direction, an ensemble that scores."""
    languages = set()
    for name, paths in systems.items():
        members = [load_model(path, data, Settings) for path in paths]
        languages |= {trained_languages(member.task, data) for member in members}
        if len(languages) > 1:
            pairs = " and ".join(sorted(map("-".join, languages)))
            raise UserError(f"--system {name}: checkpoints of {pairs}: give those of one direction")
        models = [member.family.searched(member.model.to(device)) for member in members]
        yield name, SearchEngine(models, members[0].source, members[0].target, device)


class Lists:
    """N-best lists with sources, references and features, from files.

    `codes` are BPE codes that split words, also those of BPE text; without, tokens stay.
    """

    def __init__(
        self,
        path: Path,
        sources: Path,
        references: Sequence[Path] | None = None,
        codes: Path | None = None,
    ) -> None:
        self.path, lists = path, read_nbest(path)
        self.list_of = [number for number, row in enumerate(lists) for _ in row]
        """Of each hypothesis, (M,)."""
        self.outputs = [text for row in lists for text, _ in row]
        self.count = len(lists)
        join, split = (join_bpe, bpe.make_encoder(str(codes))) if codes else (str, str)
        self.sources = [plain_units(split(join(line))) for line in self._lines_for(sources)]
        self.references = list(map(self._lines_for, references or []))
        self.texts = [plain_units(split(join(text))) for text in self.outputs]
        self.words = list(map(join_bpe, self.outputs))
        self.features = {
            SCORE: np.array([score for row in lists for _, score in row]),
            WORDS: np.array([float(len(text.split())) for text in self.words]),
        }
        # The hypotheses of each list, (N, longest); a row is filled up with M.
        rest, fill = iter(range(len(self.outputs))), len(self.outputs)
        rows = ([next(rest) for _ in row] for row in lists)
        self.places = np.array(list(zip(*zip_longest(*rows, fillvalue=fill), strict=True)))

    def _lines_for(self, path: Path) -> list[str]:
        lines = list(read_text(path))
        if len(lines) != self.count:
            counts = f"{self.count} lists (ids count from 0), {path} has {len(lines)} lines"
            raise UserError(f"{self.path} has {counts}: they must be of the same sentences")
        return lines

    def add(self, name: str, scorer: SearchEngine, max_tokens: int) -> list[str]:
        """Add log P of every hypothesis under a model or an ensemble as a feature.

        `max_tokens` limits target tokens in a batch; a model that lacks words gives a warning.
        """
        title, targets = f"{name}, {self.path}", [text.split() for text in self.texts]
        sources = [self.sources[number].split() for number in self.list_of]
        sides = (
            ("source", sources, scorer.longest_source, scorer.source),
            ("hypothesis", targets, scorer.longest_target, scorer.target),
        )
        for side, rows, longest, _ in sides:
            for number, tokens in zip(self.list_of, rows, strict=True):
                if len(tokens) > longest:
                    has = f"sentence {number} has {len(tokens) + 1} tokens with its end"
                    advice = f"the model takes {longest + 1}: leave the sentence out"
                    raise UserError(f"{title}: the {side} of {has}, and {advice}")
        # By the length of the sources; the targets of a source are neighbours.
        sizes = [*zip(map(len, sources), self.list_of, map(len, targets), strict=True)]
        order = sorted(range(len(targets)), key=sizes.__getitem__)
        scores = self.features[name] = np.zeros(len(targets))
        with tqdm(total=len(targets), desc=title, unit=" hyp", disable=None) as bar:
            for batch in batches_by_length([len(x) + 1 for x in targets], max_tokens, order):
                pairs = [sources[n] for n in batch], [targets[n] for n in batch]
                scores[batch] = [sum(row) for row in scorer.score(*pairs)]
                bar.update(len(batch))
        unknown = [
            sum(dictionary.index(token) == dictionary.unk() for row in rows for token in row)
            for _, rows, _, dictionary in sides
        ]
        counts = f"{unknown[0]} tokens of the sources and {unknown[1]} of the hypotheses"
        warning = f"{title}: {counts} are unknown to the model (--bpe-codes splits words)"
        return [warning] if any(unknown) else []

    def scores(self, weights: Mapping[str, float]) -> np.ndarray:
        """The weighted sum of the features, (M,)."""
        weighted = [weight * self.features[name] for name, weight in weights.items()]
        return np.asarray(np.sum(weighted, axis=0))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The hypothesis of each list with the highest score, (N,); of equal ones, the first."""
        order = np.append(scores, -np.inf)[self.places].argmax(axis=1)
        return np.asarray(self.places[np.arange(len(order)), order])

    @cached_property
    def counts(self) -> np.ndarray:
        """Matches and totals of each order, output length and reference length, (M, 10)."""
        # sacreBLEU's corpus score uses the same counts; words are separated by spaces.
        counter = BLEU(tokenize="none", smooth_method="none", effective_order=True)
        golds = [[join_bpe(side[number]) for side in self.references] for number in self.list_of]
        scores = map(counter.sentence_score, self.words, golds)
        return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])

    def bleu(self, chosen: np.ndarray) -> float:
        """Corpus BLEU, 0 to 100, of hypotheses (N,)."""
        return float(bleu_of(self.counts[chosen].sum(axis=0)))

    def oracle(self) -> np.ndarray:
        """The hypotheses (N,) with the best BLEU that changing one at a time finds: a lower bound.

        It starts from the best of each list (BLEU with 1 added to counts above the first order).
        """
        chosen, before = self.best(bleu_of(self.counts + np.array([0, 1, 1, 1] * 2 + [0, 0]))), -1.0
        while (now := self.bleu(chosen)) > before:
            before = now
            for row, places in enumerate(self.places):
                places = places[places < len(self.texts)]
                others = self.counts[chosen].sum(axis=0) - self.counts[chosen[row]]
                scores = bleu_of(others + self.counts[places])
                if scores.max() > bleu_of(others + self.counts[chosen[row]]) + 1e-9:
                    chosen[row] = places[scores.argmax()]
        return chosen


def bleu_of(counts: np.ndarray) -> np.ndarray:
    """BLEU from 0 to 100, unsmoothed, of counts (..., 10); 0 where some order has no match."""
    matches, totals = counts[..., :ORDERS], counts[..., ORDERS : 2 * ORDERS]
    output, reference = counts[..., -2], counts[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.log(matches / totals).mean(axis=-1)
        brevity = np.minimum(0.0, 1 - reference / output)
    return np.where((matches > 0).all(axis=-1), 100 * np.exp(precision + brevity), 0.0)


def search_weights(dev: Lists, names: Sequence[str]) -> dict[str, float]:
    """The weights with the best BLEU on a grid, twice: over everything, then around the best point.

    The list's score and log P share 1, in units of their standard deviations over all hypotheses;
    the number of words gets from -1 to 1, around the best point up to 1.1. Of equal points, that
    with the smallest weight of the number of words counts. `names` are the list's score, a system
    if any, and the number of words, in this order. The absolute values of the result sum to 1.
    """
    spread = {name: dev.features[name].std() or 1.0 for name in names}
    share, length, width, best, weights = 0.5, 0.0, 1.0, -1.0, {}
    for _ in range(2):
        steps = np.linspace(-width, width, GRID)
        shares = np.clip(share + steps / 2, 0, 1) if len(names) > 2 else [0.0]
        for b, a in product(sorted(length + steps, key=abs), shares):
            values = [1 - a, a, b] if len(names) > 2 else [1.0, b]
            scaled = {n: v / spread[n] for n, v in zip(names, values, strict=True)}
            score = dev.bleu(dev.best(dev.scores(scaled)))
            if score > best + 1e-9:
                best, weights, point = score, scaled, (a, b)
        (share, length), width = point, width * 2 / (GRID - 1)
    total = sum(map(abs, weights.values()))
    return {name: float(weight / total) for name, weight in weights.items()}


def make_rows(
    systems: Iterable[str],
    weigh: Callable[[list[str]], Mapping[str, float]],
    dev: Lists | None,
    test: Lists,
) -> list[dict[str, Any]]:
    """The rows of the table: `system`, `weights`, `dev_bleu` and `test_bleu` (None: unknown).

    With `dev` the number of words alone has a row, too. `weigh` gives features' weights by name.
    """

    def row(title: str, weights: Mapping[str, float] | None) -> dict[str, Any]:
        columns: dict[str, Any] = {"system": title, "weights": weights}
        for part, lists in (("dev_bleu", dev), ("test_bleu", test)):
            columns[part] = None
            if lists is not None and lists.references:
                chosen = lists.best(lists.scores(weights)) if weights else lists.oracle()
                columns[part] = lists.bleu(chosen)
        return columns

    rows = [row("baseline", {SCORE: 1.0})]
    if dev is not None:
        rows.append(row(f"baseline + {WORDS}", weigh([SCORE, WORDS])))
    rows += [row(f"baseline + {name}", weigh([SCORE, name, WORDS])) for name in systems]
    return rows + ([row("oracle", None)] if test.references else [])


def as_table(rows: list[dict[str, Any]]) -> str:
    """The rows as text."""
    table = []
    for row in rows:
        scores = ["" if (s := row[k]) is None else f"{s:.2f}" for k in ("dev_bleu", "test_bleu")]
        weights = ", ".join(f"{k} {v:.4g}" for k, v in (row["weights"] or {}).items())
        table.append([row["system"], *scores, weights])
    headers = ["system", "dev BLEU", "test BLEU", "weights"]
    return str(tabulate(table, headers, tablefmt="github", disable_numparse=True))


def read_nbest(path: Path) -> list[list[tuple[str, float]]]:
    """The lists of a file, each of texts and scores, in the order of their ids, from 0 on."""
    lists: dict[int, list[tuple[str, float]]] = {}
    last = -1
    for number, line in enumerate(read_text(path), 1):
        fields = _HYPOTHESIS.match(line)
        if not fields:
            form = "ID ||| HYPOTHESIS ||| FEATURES ||| SCORE, as of docs/how-to/rescore.md"
            raise UserError(f"{path}, line {number}: must be {form}")
        before, last = last, int(fields[1])
        if last != before and last in lists:
            raise UserError(f"{path}, line {number}: sentence {last} comes again: two lists?")
        lists.setdefault(last, []).append((fields[2].strip(), float(fields[3])))
    count, first = max(lists) + 1, first_gap(lists)
    if first < count:
        missing = f"{count - len(lists)} of {count} sentences missing; ids count from 0"
        raise UserError(f"{path}: no hypotheses of sentence {first} ({missing})")
    return [lists[i] for i in range(count)]
