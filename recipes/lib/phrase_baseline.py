"""A statistical baseline: phrase-based translation by nltk, written as n-best lists.

    phrase_baseline.py --train tok/train --pair en-de --lists 100 \\
        --input tok/valid.en --output valid.nbest --input tok/test.en --output test.nbest

Phrase pairs (phrase_table.py) and a trigram model of the target score the hypotheses of a stack
decoder (nltk). The lists are in Moses' format: ID ||| HYPOTHESIS ||| FEATURES ||| SCORE.

nltk is written in Python: it suits some ten thousands of short pairs. Sutskever et al. (2014)
rescored the lists of a much larger system of this kind.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from nltk.translate import PhraseTable, StackDecoder
from phrase_table import (
    Words,
    count_phrases,
    grow_diagonally,
    make_phrase_table,
    train_ibm_model,
)
from tqdm import tqdm

from vaswani_plugin.metrics.ngram import NgramModel
from vaswani_plugin.text import corpus_io
from vaswani_plugin.text.corpus_io import read_lines
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import write_atomically

UNKNOWN_SCORE = -10.0
"""Of a source word that no phrase has; it is copied."""


def read_pairs(prefix: str, pair: tuple[str, str], most: int) -> list[tuple[Words, Words]]:
    """Reads the first pairs of a tokenized corpus.

    Args:
        prefix: of the two files.
        pair: source and target language, the files' endings.
        most: number of pairs that are read; 0: all.

    Raises:
        InputError: the files differ in length as far as they are read, are empty, or a side of a
            pair is empty; names the line.
    """
    lines = islice(corpus_io.read_pairs(*(f"{prefix}.{side}" for side in pair)), most or None)
    pairs = [(tuple(source.split()), tuple(target.split())) for source, target in lines]
    for number, (source, target) in enumerate(pairs, start=1):
        if not (source and target):
            raise InputError(f"{prefix}, line {number}: a side is empty; drop the pair")
    return pairs


class TargetModel:
    """A trigram model of target words, in the form that nltk's decoder asks for.

    Args:
        sentences: of the target, for training.
        table: the phrase table, for scores of source phrases.
    """

    def __init__(self, sentences: Sequence[Words], table: PhraseTable) -> None:
        self.table = table
        self.numbers: dict[str, int] = {"</s>": 0, "<unk>": 1}
        stream = [0]
        for words in sentences:
            stream += [self.numbers.setdefault(word, len(self.numbers)) for word in words] + [0]
        self.models = [NgramModel(stream, order, len(self.numbers), 0) for order in (1, 2, 3)]
        self.word_score = cache(self._word_score)

    def _word_score(self, *words: str) -> float:
        """log P of the last of at most three words, given the others."""
        numbers = [self.numbers.get(word, 1) for word in words]
        return float(self.models[len(words) - 1].log_probabilities(numbers)[-1])

    def phrase_score(self, context: Words, phrase: Words) -> float:
        """log P of a phrase after the words of the context."""
        words = context + phrase
        ends = range(len(context) + 1, len(words) + 1)
        return sum(self.word_score(*words[max(end - 3, 0) : end]) for end in ends)

    def probability_change(self, hypothesis, phrase: Words) -> float:
        """log P of a phrase after a hypothesis."""
        return self.phrase_score(last_words(hypothesis), phrase)

    def probability(self, phrase: Words) -> float:
        """log P of the best translation of a source phrase, without a context.

        nltk asks for the score of the source phrase, in its estimate of the words to come.
        """
        return self.phrase_score((), self.table.translations_for(phrase)[0].trg_phrase)

    def end_score(self, hypothesis) -> float:
        """log P of the end of the sentence after a hypothesis."""
        return self.phrase_score(last_words(hypothesis), ("</s>",))


def last_words(hypothesis) -> Words:
    """The last two words of a hypothesis, with an end of sentence before its first one."""
    words: Words = ()
    while hypothesis is not None and len(words) < 2:
        words = tuple(hypothesis.trg_phrase) + words
        hypothesis = hypothesis.previous
    return words[-2:] if len(words) > 1 else ("</s>", *words)


class ListDecoder(StackDecoder):
    """nltk's decoder, which keeps every complete hypothesis that it scores, not the best alone.

    nltk scores each hypothesis by `future_score`; a complete one has no future but its end.
    """

    def future_score(self, hypothesis, future_score_table, sentence_length: int) -> float:
        """Scores what is to come; keeps a complete hypothesis."""
        if hypothesis.total_translated_words() < sentence_length:
            return super().future_score(hypothesis, future_score_table, sentence_length)
        end = self.language_model.end_score(hypothesis)
        text = " ".join(hypothesis.translation_so_far())
        score = hypothesis.raw_score + end
        self.complete[text] = max(score, self.complete.get(text, score))
        return end

    def best(self, sentence: Words, number: int) -> list[tuple[str, float]]:
        """The best `number` different translations of a sentence with their scores, best first."""
        self.complete: dict[str, float] = {}
        for word in sentence:
            if (word,) not in self.phrase_table:
                self.phrase_table.add((word,), (word,), UNKNOWN_SCORE)
        self.translate(sentence)
        return sorted(self.complete.items(), key=lambda item: (-item[1], item[0]))[:number]


def train(pairs: Sequence[tuple[Words, Words]], args: argparse.Namespace) -> ListDecoder:
    """Makes a decoder from a corpus."""
    say(f"aligning {len(pairs):,} pairs in both directions")
    forward, there = train_ibm_model(pairs, args.iterations)
    backward, back = train_ibm_model([(b, a) for a, b in pairs], args.iterations)
    turned = [{(i, j) for j, i in alignment} for alignment in back]
    alignments = [grow_diagonally(*both) for both in zip(there, turned, strict=True)]
    counts = count_phrases(pairs, alignments, args.longest_phrase)
    table = make_phrase_table(counts, forward, backward, args.options)
    say(f"{len(counts):,} phrase pairs")
    decoder = ListDecoder(table, TargetModel([target for _, target in pairs], table))
    decoder.stack_size, decoder.beam_threshold = args.stack_size, args.threshold
    decoder.distortion_factor, decoder.word_penalty = args.distortion, args.word_penalty
    return decoder


def translate(
    decoder: ListDecoder, sentences: Sequence[Words], number: int, workers: int
) -> Iterator[list[tuple[str, float]]]:
    """Yields the list of each sentence; processes share the work."""
    global _decode
    _decode = lambda words: decoder.best(words, number)  # noqa: E731  (forked, never sent)
    hidden = not sys.stderr.isatty()
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        lists = pool.imap(_decode_one, sentences)
        yield from tqdm(lists, total=len(sentences), unit=" sentences", disable=hidden)


def _decode_one(words: Words) -> list[tuple[str, float]]:
    return _decode(words)


def write_lists(path: Path, lists: Iterator[list[tuple[str, float]]]) -> None:
    """Writes Moses' n-best lists."""
    with write_atomically(path) as write:
        for number, found in enumerate(lists):
            for text, score in found:
                write(f"{number} ||| {text} ||| score= {score:.4f} ||| {score:.4f}")


def say(text: str) -> None:
    """Prints a line for people."""
    print(f"phrase_baseline: {text}", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--train", required=True, metavar="PREFIX", help="tokenized text, without .LANG")
    add("--pair", required=True, help="source and target, such as en-de")
    add("--pairs", type=int, default=0, metavar="N", help="train on the first N (default: all)")
    add("--input", type=Path, action="append", required=True, help="sentences; repeatable")
    add("--output", type=Path, action="append", required=True, help="lists, one per --input")
    add("--lists", type=int, default=100, metavar="N", help="of a sentence (default 100)")
    add("--iterations", type=int, default=3, metavar="N", help="of IBM Model 2 (default 3)")
    add("--longest-phrase", type=int, default=4, metavar="N", help="words (default 4)")
    add("--options", type=int, default=6, metavar="N", help="translations of a phrase (default 6)")
    add("--stack-size", type=int, default=50, metavar="N", help="hypotheses (default 50)")
    add("--threshold", type=float, default=1e-4, help="of the best in a stack (default 1e-4)")
    add("--distortion", type=float, default=0.7, help="factor for each word jumped (default 0.7)")
    add("--word-penalty", type=float, default=-1.0, help="negative: longer output (default -1)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args()


def main() -> None:
    """Command line."""
    args = parse_arguments()
    if len(args.input) != len(args.output):
        raise InputError(f"{len(args.input)} --input and {len(args.output)} --output: one for each")
    source, _, target = args.pair.partition("-")
    texts = [[tuple(line.split()) for line in read_lines(path)] for path in args.input]
    for path, sentences in zip(args.input, texts, strict=True):
        for number, words in enumerate(sentences, start=1):
            if not words:
                raise InputError(f"{path}, line {number}: is empty; a list needs a sentence")
    decoder = train(read_pairs(args.train, (source, target), args.pairs), args)
    for path, sentences in zip(args.output, texts, strict=True):
        write_lists(path, translate(decoder, sentences, args.lists, args.workers))
        say(f"{path}: lists of {len(sentences):,} sentences")


if __name__ == "__main__":
    run(main)
