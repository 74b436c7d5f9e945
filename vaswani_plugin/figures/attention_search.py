"""A search for encoder heads that follow word pairs: the paper's Figures 3 and 4, over a corpus.

A rule names pairs of words: a query and its partner, such as a pronoun and the noun it stands for.
A head follows the rule if the partner gets much more weight than both of these baselines:
`distance` is what the same head gives, at the same distance, where the query is another word;
`partner` is what the same partner gets, in the same sentence, from the other words.

Axes: N layers, H heads, T queries, S keys, P pairs, D draws.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.attention_report import View, attend_pairs, write_sentence
from vaswani_plugin.figures.attention_rules import Rule
from vaswani_plugin.inference.attention import Attention, merge_tokens
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.text.corpus_io import read_lines
from vaswani_plugin.text.output_files import write_json

FACTOR = 2.0
"""A head that follows a rule gives the partner at least this many times either baseline ..."""
LEVEL = 0.01
"""... with a p-value of at most this, corrected for the number of heads."""
DRAWS = 999
"""Random draws of each test; the smallest p-value is 1 / (DRAWS + 1)."""


class Example(NamedTuple):
    """A sentence's attention and the positions of a query and its partner."""

    attention: Attention
    query: int
    partner: int


@dataclass(frozen=True)
class Found:
    """The result of `search_heads`.

    Args:
        sentences: how many hold a pair.
        pairs: their number P.
        heads: a dictionary for each head, the greatest gain over both baselines first: `layer` and
            `head` from 1 on, `weight` on the partner, the baselines `distance` and `partner` (all
            means over the pairs), `first` (share of queries that give no other word more, except
            themselves), `p`, `follows`.
        example: the pair to which the first head gives the greatest weight.
    """

    sentences: int
    pairs: int
    heads: list[dict[str, Any]]
    example: Example

    @property
    def verdict(self) -> str:
        """Names the heads that follow the rule, or says that none does."""
        found = [f"layer {h['layer']} head {h['head']}" for h in self.heads if h["follows"]]
        if not found:
            return "no head follows the rule"
        return f"heads that follow the rule: {', '.join(found)}"

    @property
    def numbers(self) -> dict[str, Any]:
        """For JSON: `sentences`, `pairs`, `factor`, `level`, `heads`."""
        numbers = {"sentences": self.sentences, "pairs": self.pairs, "heads": self.heads}
        return numbers | {"factor": FACTOR, "level": LEVEL}

    @property
    def table(self) -> str:
        """The first ten heads as a table, what the columns mean, and the verdict."""
        rows = [[*head.values()][:-1] + ["yes" if head["follows"] else "no"] for head in self.heads]
        table = tabulate(rows[:10], list(self.heads[0]), floatfmt=".3f")
        shown = f"the first {min(10, len(rows))} of {len(rows)} encoder heads"
        return f"""{table}

{self.pairs} pairs in {self.sentences} sentences; {shown}
weight    mean weight of the partner
distance  baseline: the same head at the same distance, from other words
partner   baseline: the same partner, from the sentence's other words
first     share of queries that give no other word more
p         of {DRAWS} permutations with the baselines' weights, corrected for {len(rows)} heads
follows   weight is at least {FACTOR:g} times either baseline, and p at most {LEVEL:g}
{self.verdict}"""


class _Weights:
    """The weights of all pairs, and of the words they are compared with; each (N x H)."""

    def __init__(self) -> None:
        self.shape = (0, 0)  # N, H
        self.sentences = 0
        self.given: list[np.ndarray] = []  # of a pair
        self.first: list[np.ndarray] = []
        self.from_others: list[np.ndarray] = []  # of a pair: (other queries, N x H)
        self.distances: list[int] = []
        self.at_distance: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        self.examples: list[Example] = []

    def add(self, attention: Attention, rule: Rule) -> None:
        """Add a sentence, if it holds a pair and another word."""
        encoder = attention.kinds["encoder"]
        places = len(encoder.queries) - 1  # without the end of sentence
        found = rule.find(encoder.queries[:-1])
        if not found or places < 3:
            return
        self.sentences += 1
        self.shape = encoder.weights.shape[:2]
        flat = encoder.weights[..., :places, :places].reshape(-1, places, places)
        weights = flat.transpose(1, 2, 0).astype(np.float64)  # (T, S, N x H)
        for query, partner in found:
            self._add_pair(weights, query, partner)
            self._keep_best(Example(attention, query, partner))
        rest = np.delete(np.arange(places), [query for query, _ in found])
        for distance in range(1 - places, places):
            inside = rest[(rest + distance >= 0) & (rest + distance < places)]
            self.at_distance[distance].append(weights[inside, inside + distance])

    def _add_pair(self, weights: np.ndarray, query: int, partner: int) -> None:
        given = weights[query, partner]
        self.given.append(given)
        self.first.append(given >= np.delete(weights[query], query, axis=0).max(0))
        self.from_others.append(np.delete(weights[:, partner], [query, partner], axis=0))
        self.distances.append(partner - query)

    def _keep_best(self, example: Example) -> None:
        """Keep for each head the example of the greatest weight; the last given is this one's."""
        if not self.examples:
            self.examples = [example] * len(self.given[-1])
            self.best = self.given[-1].copy()
            return
        for head in np.flatnonzero(self.given[-1] > self.best):
            self.examples[head] = example
        self.best = np.maximum(self.best, self.given[-1])


def attend_to_rule(translator: Translator, path: Path, rule: Rule) -> Iterator[Attention]:
    """The attention, merged into words, of each line that holds a pair.

    Args:
        translator: of the model.
        path: the sentences, one a line.
        rule: the pairs.

    Raises:
        ValueError: a sentence with a pair is too long; names its line.
        OSError: the file can't be read.
    """
    subwords = translator.pipeline.subwords

    def holds_pair(line: str) -> bool:
        tokens = translator.pipeline.encode(line).split()
        return bool(tokens and rule.find(merge_tokens(tokens, subwords)))

    # Without a translation the model would search for one; the encoder does not see it.
    pairs = ((line, ".") if holds_pair(line) else ("", "") for line in read_lines(path))
    return attend_pairs(translator, pairs, path, subwords)


def search_heads(
    sentences: Iterable[Attention], rule: Rule, draws: int = DRAWS, seed: int = 1
) -> Found:
    """Rank the encoder's heads by how much more weight than the baselines they give to partners.

    Args:
        sentences: their encoder's queries are words and, last, the end of sentence; sentences
            without a pair are left out.
        rule: the pairs to look for.
        draws: D of each of the two tests, see `p_values`.
        seed: of the draws.

    Raises:
        UserError: no sentence holds a pair, or no other word has a word at any pair's distance.
    """
    collected = _Weights()
    for attention in sentences:
        collected.add(attention, rule)
    if not collected.given:
        raise UserError("no sentence holds a pair of the rule; give more text or other pairs")
    wanted = set(collected.distances)
    at_distance = {d: np.concatenate(w) for d, w in collected.at_distance.items() if d in wanted}
    known = [k for k, d in enumerate(collected.distances) if len(at_distance[d])]
    if not known:
        raise UserError("no other words stand at the distance of any pair; give more text")
    given = np.stack([collected.given[k] for k in known])  # (P, N x H)
    distances = [collected.distances[k] for k in known]
    others = [collected.from_others[k] for k in known]
    means = {d: at_distance[d].mean(0) for d in set(distances)}
    generator = np.random.default_rng(seed)
    columns = {
        "weight": given.mean(0),
        "distance": np.mean([means[d] for d in distances], axis=0),
        "partner": np.mean([pool.mean(0) for pool in others], axis=0),
        "first": np.stack([collected.first[k] for k in known]).mean(0),
        "p": np.maximum(
            p_values(given, [at_distance[d] for d in distances], draws, generator),
            p_values(given, others, draws, generator),
        ),
    }
    baseline = np.maximum(columns["distance"], columns["partner"])
    columns["follows"] = (columns["weight"] >= FACTOR * baseline) & (columns["p"] <= LEVEL)
    order = np.argsort(baseline - columns["weight"], kind="stable")
    heads = [
        {"layer": int(head) // collected.shape[1] + 1, "head": int(head) % collected.shape[1] + 1}
        | {name: column[head].item() for name, column in columns.items()}
        for head in order
    ]
    return Found(collected.sentences, len(known), heads, collected.examples[order[0]])


def p_values(
    given: np.ndarray, pools: Sequence[np.ndarray], draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Tests each head's mean weight against weights drawn from each pair's controls.

    A permutation test: a draw takes at random, for each pair, its own weight or one of its
    controls', and averages them over the pairs. Means are standardized by the draws. A head's
    p-value is the share of draws, its own mean among them, in which the greatest of all heads is at
    least its own (Westfall and Young's correction, one step).

    Args:
        given: (P, heads).
        pools: for each pair (controls, heads).
        draws: D.
        generator: of the random numbers.

    Returns:
        (heads), at least 1 / (draws + 1).
    """
    drawn = np.zeros((draws, given.shape[1]))
    for own, pool in zip(given, pools, strict=True):
        chosen = generator.integers(len(pool) + 1, size=draws)
        is_own = (chosen == len(pool))[:, None]
        drawn += np.where(is_own, own, pool[np.minimum(chosen, len(pool) - 1)])
    drawn /= len(pools)
    center, spread = drawn.mean(0), np.maximum(drawn.std(0), 1e-9)
    greatest = ((drawn - center) / spread).max(1)
    own = (given.mean(0) - center) / spread
    return ((greatest[:, None] >= own).sum(0) + 1) / (draws + 1)


def write_found(found: Found, outputs: list[Path]) -> None:
    """Write the numbers to .json files; to others the first head on its example sentence.

    Raises:
        ValueError: matplotlib is not installed.
        OSError: a file can't be written.
    """
    head, example = found.heads[0], found.example
    word = example.attention.kinds["encoder"].queries[example.query]
    view = View("encoder", head["layer"], [head["head"]], word=word, is_merged=True)
    for path in outputs:
        if path.suffix == ".json":
            write_json(path, found.numbers, indent=None)
        else:
            write_sentence(example.attention, view, [path])


def run_search(translator: Translator, path: Path, rule: Rule, outputs: list[Path]) -> Found:
    """Search over a file of sentences and write the outputs; see the functions that it calls.

    Raises:
        ValueError, OSError: as for `attend_to_rule`, `search_heads` and `write_found`.
    """
    found = search_heads(attend_to_rule(translator, path, rule), rule)
    write_found(found, outputs)
    return found
