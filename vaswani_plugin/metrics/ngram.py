"""Baselines of a language model: uniform, unigram, trigram, over words.

The n-gram model is interpolated modified Kneser-Ney (Chen & Goodman 1999): a discount D_1, D_2 or
D_3+ is subtracted from each count, and the discounted mass of a context goes to the next lower
order, which counts the different contexts of an n-gram. The lowest order interpolates with the
uniform distribution. Order 1 is a unigram model with absolute discounting, order 0 is uniform.

No maintained library does this for millions of words in Python: nltk's `KneserNeyInterpolated`
takes a day for wikitext-2, and the kenlm package does not estimate models.

Axes: N tokens, G distinct n-grams of an order, C distinct contexts.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vaswani_plugin.errors import UserError
from vaswani_plugin.metrics import token_stream
from vaswani_plugin.metrics.perplexity import count_text, cross_entropy_rate, perplexity, result
from vaswani_plugin.text.coding import UNKNOWN

ORDERS = {"uniform": 0, "unigram": 1, "trigram": 3}


class NgramModel:
    """An n-gram model, estimated from a stream of tokens; contexts cross line ends.

    `tokens` are (N,) numbers below `vocabulary`. An `order` of 0 is the uniform distribution.
    `start` is the token before the first one, such as the end of a line.
    """

    def __init__(self, tokens: ArrayLike, order: int, vocabulary: int, start: int) -> None:
        if vocabulary ** max(order, 1) > np.iinfo(np.int64).max:  # an n-gram is one number
            raise UserError(f"{order}-grams of {vocabulary:,} types are too many to be numbered")
        self.vocabulary, self.start = vocabulary, start
        # By order, from unigrams on: n-grams (G,), their counts, the discounts (4,), contexts (C,),
        # their counts and discounted mass (2, C).
        self._orders: list[tuple[NDArray, ...]] = []
        occurrences = self._ngrams(np.asarray(tokens, np.int64), order)
        for length in range(order, 0, -1):
            ngrams, counts = np.unique(occurrences, return_counts=True)
            discounts = estimate_discounts(counts)
            contexts, first = np.unique(ngrams // vocabulary, return_index=True)
            sums = np.stack([counts, discounts[np.minimum(counts, 3)]])
            of_contexts = np.add.reduceat(sums, first, axis=1)
            self._orders.insert(0, (ngrams, counts, discounts, contexts, of_contexts))
            occurrences = ngrams % vocabulary ** (length - 1)  # each once: contexts are counted

    def _ngrams(self, tokens: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The n-gram that ends with each token, packed into one number, (N,)."""
        padded = np.concatenate([np.full(max(length - 1, 0), self.start), tokens])
        packed = np.zeros(len(tokens), np.int64)
        for offset in range(length):
            packed = packed * self.vocabulary + padded[offset : offset + len(tokens)]
        return packed

    def log_probabilities(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """log P, natural, of each token of a stream (N,), given those before."""
        tokens = np.asarray(tokens, np.int64)
        probability = np.full(len(tokens), 1 / self.vocabulary)
        for length, order in enumerate(self._orders, start=1):
            ngrams, counts, discounts, contexts, of_contexts = order
            asked = self._ngrams(tokens, length)
            count = _look_up(ngrams, counts, asked, 0)
            total, rest = _look_up(contexts, of_contexts, asked // self.vocabulary, 1)
            probability = (count - discounts[np.minimum(count, 3)] + rest * probability) / total
        return np.log(probability)


def _look_up(keys: NDArray, values: NDArray, asked: NDArray, default: int) -> NDArray:
    """The values, (..., K), of the sorted keys (K,) that are asked for."""
    index = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[index] == asked, values[..., index], default)


def estimate_discounts(counts: ArrayLike) -> NDArray[np.float64]:
    """0, D_1, D_2 and D_3+ by Chen & Goodman's Eq. 26 from the n-grams' counts.

    With n_k n-grams of count k and Y = n_1 / (n_1 + 2 n_2): D_k = k - (k + 1) Y n_{k+1} / n_k.
    They are k / 2 where an n_k is 0 or a D_k is not between 0 and k, as for a vocabulary of 65
    characters.
    """
    k = np.arange(1, 4)
    n = np.array([np.count_nonzero(np.asarray(counts) == number) for number in range(1, 5)])
    discounts = k / 2
    if n[:3].all():
        y = n[0] / (n[0] + 2 * n[1])
        estimated = k - (k + 1) * y * n[1:] / n[:3]
        if ((estimated >= 0) & (estimated <= k)).all():
            discounts = estimated
    return np.array([0, *discounts])


def baselines(
    scored: token_stream.ScoredText, paths: Iterable[Path], validation: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The report's rows of all baselines; warnings are appended to `scored.warnings`.

    A row also has the perplexity a word on the training text, `training_perplexity`, and on
    validation text, `validation_perplexity` (None without one): an n-gram model knows its training
    text far better than any other. `paths` are the training texts.
    """
    valid = [] if validation is None else token_stream.text_to_score(validation)
    for path in paths:
        counts = count_text(" ".join(line.split()) for line in scored.lines)
        train = token_stream.text_to_score(path)
        words = dict.fromkeys(word for line in train for word in line.split())
        indices = {word: number for number, word in enumerate(words)}
        # The end of a line is no word, not even </s>; an unknown word is the text's own <unk>.
        unknown, end = indices.setdefault(UNKNOWN, len(indices)), len(indices)
        tokens = token_stream.number_lines(scored.lines, indices, unknown, end)
        scored.warnings.extend(token_stream.unknown_warning(f"the words of {path}", tokens))
        texts = {"training_perplexity": train, "validation_perplexity": valid}
        streams = {
            k: token_stream.number_lines(x, indices, unknown, end).numbers for k, x in texts.items()
        }
        for name, order in ORDERS.items():
            model = NgramModel(streams["training_perplexity"], order, end + 1, start=end)
            others: dict[str, float | None] = dict.fromkeys(streams)
            for key, stream in streams.items():
                if len(stream):
                    nats = cross_entropy_rate(model.log_probabilities(stream))
                    others[key] = perplexity(nats / math.log(2))
            log_p = model.log_probabilities(tokens.numbers)
            yield result(name, "words", log_p, counts, unknown=tokens.unknown, **others)
