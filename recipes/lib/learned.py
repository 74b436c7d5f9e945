"""Whether a translation model has learned something, and what would help it."""

from collections import Counter
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from vaswani_plugin import Translator
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.metrics.bleu import corpus_score, sacrebleu_metric, tokenizer_of
from vaswani_plugin.text.binary import read_numbers
from vaswani_plugin.text.dictionary import UNK, Dictionary, dictionary_name
from vaswani_plugin.text.training_log import TrainingRun

PAIRS = 200
"""Scored at most."""
LEAST_RATIO = 1.4
"""Of the losses with other sources and with the right ones: 1.1 where only length and punctuation
are taken from the source, 1.7 where a model begins to translate, above 2 where it does."""
BY_HEART = 0.75
"""Of the least loss of other text: 0.95 after 2,700 updates of 40,000 pairs, which still help; 0.25
to 0.73 where 2,000 or 10,000 pairs are read again and again."""

MORE_TEXT = (
    "it is learned by heart, so more pairs would help most, or a model of more text to start from "
    "(recipes/own_text.sh --init-from)"
)
LARGER = "a larger model may learn more (-- --d-model 256 --d-ff 1024)"
SUCH_TEXT = "such text in training would help"


def losses(translator: Translator, pairs: list[tuple[str, str]]) -> list[float]:
    """-log P of targets in nats a subword, with their own sources and with those of other pairs.

    Of at most `PAIRS` pairs, from everywhere in the text; empty if fewer than two fit the model.
    """
    sides = [(translator.pipeline, translator.longest_source)]
    sides += [(translator.pipeline.of_target(), translator.longest_target)]
    pairs = [
        pair
        for pair in pairs[:: len(pairs) // PAIRS + 1]
        if all(0 < len(p.encode(t).split()) <= n for t, (p, n) in zip(pair, sides, strict=True))
    ]
    means, half = [], len(pairs) // 2  # neighbours may share a source
    for others in (pairs, pairs[half:] + pairs[:half]) if half else ():
        scores = translator.score([(a[0], b[1]) for a, b in zip(others, pairs, strict=True)])
        tokens = sum(len(score.token_scores) for score in scores)
        means.append(-sum(score.log_probability for score in scores) / tokens)
    return means


def learned(work: Path) -> dict[str, Any]:
    """BLEU and chrF, without case, of a recipe's translations and of two outputs of no model.

    Also `losses` of validation pairs, and `warning`: what is wrong, or None.
    """
    translator = Translator.from_pretrained(work / "model")
    languages = (translator.source_language, translator.target_language)

    def text(split: str, side: int) -> list[str]:
        return list(islice(read_lines(work / "raw" / f"{split}.{languages[side]}"), 100_000))

    sources, references = text("test", 0), text("test", 1)
    ((commonest, _),) = Counter(text("train", 1)).most_common(1)
    outputs = {
        "translations": list(read_lines(work / "test.out")),
        "copied sources": sources,
        "one sentence for all": [commonest] * len(sources),
    }
    metrics = {"bleu": sacrebleu_metric(True, tokenizer_of(languages[1])[0])}
    metrics["chrf"] = CHRF(lowercase=True)
    result: dict[str, Any] = {
        name: {key: corpus_score(metric, lines, [references]) for key, metric in metrics.items()}
        for name, lines in outputs.items()
    }
    model, *floors = outputs
    beaten = [name for name in floors if all(result[model][k] <= result[name][k] for k in metrics)]
    warning = f"the translations score no better than {' or '.join(beaten)}" if beaten else None
    if (work / "raw" / f"valid.{languages[0]}").is_file():  # IWSLT's is cut off later
        sources, references = text("valid", 0), text("valid", 1)
    pair = losses(translator, list(zip(sources, references, strict=True)))
    if pair and pair[1] < LEAST_RATIO * pair[0]:
        warning = "the translations hardly depend on their sources: the loss is {:.2f} nats a "
        warning = (warning + "subword with the right sources and {:.2f} with others").format(*pair)
    return result | {"losses": pair, "warning": warning}


def advice(work: Path, training: TrainingRun) -> list[str]:
    """What would help next, in sentences: by the curves, the test set's pieces and its lengths."""
    lines, points = [], [point for point in training.valid if "loss" in point]
    scores = [point.get("bleu", -point["loss"]) for point in points]
    # of at most three: they scatter
    improving = bool(scores) and max(scores) in scores[-1 - min(2, len(scores) // 4) :]
    if improving:
        command = f"the same command with --continue {2 * training.updates} goes on"
        lines.append(f"Validation was still getting better: {command} (without --minutes).")
    if points and training.train:
        least = min(point["loss"] for point in points)
        recent = fmean(point["loss"] for point in training.train[-10:])
        said = f"The loss is {recent:.2f} bits on the training text and at best {least:.2f}"
        if recent < BY_HEART * least:
            lines.append(f"{said} on other text: {MORE_TEXT}.")
        elif not improving:
            lines.append(f"{said} on other text: {LARGER}.")
    for path in (work / "data-bin").glob("test.*-*.*.idx"):
        _, pair, language, _ = path.name.split(".")
        if pair.startswith(f"{language}-"):
            (trained, before), (pieces, lengths) = (
                read_numbers(path.with_name(f"{split}.{pair}.{language}"))
                for split in ("train", "test")
            )
            longest = np.quantile(before, 0.99)
            long = np.mean(lengths > longest)
            words = Dictionary.load(path.with_name(dictionary_name(language))).symbols
            # sentencepiece writes an unknown letter as its bytes
            strange = [n for n, word in enumerate(words) if n == UNK or word.startswith("<0x")]
            unknown = np.isin(pieces, strange).mean()
            if unknown > np.isin(trained, strange).mean() + 0.005:
                said = f"{unknown:.1%} of the test sources' pieces are unknown"
                lines.append(f"{said}, or bytes of unknown letters: {SUCH_TEXT}.")
            if long > 0.05:
                lines.append(
                    f"{long:.0%} of the test sources are longer than 99% of those in training "
                    f"({longest:.0f} pieces): {SUCH_TEXT}."
                )
    return lines
