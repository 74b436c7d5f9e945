"""Moses' rules in a Hugging Face tokenizer do what sacremoses does."""

import random
from pathlib import Path

import pytest
import tokenizers

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.huggingface_tokenizer import (
    bpe_tokenizer,
    detokenization_steps,
    moses_steps,
)
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.moses import make_detokenizer, make_processor
from vaswani_plugin.text.settings import Settings

LINES = [
    "The old doctor's friends didn't see a well-known bird, in 1,000 gardens.",
    'He said: "We bought 7,50 apples & a pear, for $5 (or 5 €)!"',
    "Mr. Smith of the U.S.A. came at 5 p.m. in No. 7. No. He went.",
    "It's rock'n'roll... the Jones' house, 'quoted' -- and 90's d'accord l'homme.",
    "«\u00a0Vraiment\u00a0?\u00a0» „Ja“, sagte er. „Nein.“ z.B. Nr. 5 usw. und so.",
    "中文，句子。 日本 の 文 mixed, हिन्दी, ½ Ⅷ ﬁne 😀 e\u0301 H\u0331 a\u200bb",
    "ΟΔΟ ΣΟΦΟ. İstanbul STRASSE",
    "'start and end'",
    "a,b ,c, 5,300 ,5 x,y.' [brackets] {braces} <tag> | 50 % ; : 1\u00a0000",
    "tabs\tand  two \u2028 spaces\x1c and\x85more",
    '. .. ... .... a. b.. (c). "d." e.f. g.\'',
    '" open, "two" and `one\' ``more\'\' "',
    "",
]
FLAGS = [(False, False, True), (True, True, True), (False, True, False)]


def their_words(language, *flags):
    normalizer = tokenizers.normalizers.Sequence(moses_steps(language, *flags))
    return lambda line: " ".join(normalizer.normalize_str(line).split())


def our_words(language, lowercase, normalize, escape):
    return make_processor(language, lowercase, normalize, True, False, escape)


def their_text(language):
    decoder = tokenizers.decoders.Sequence(detokenization_steps(language))
    return lambda words: decoder.decode([words])


def differences(lines, one, other):
    found = ((line, one(line), other(line)) for line in lines)
    return [row for row in found if row[1] != row[2]]


@pytest.mark.parametrize("language", ["en", "de", "fr", "ru"])
def test_text_is_split_and_joined_alike(language):
    for flags in FLAGS:
        ours = our_words(language, *flags)
        assert not differences(LINES, ours, their_words(language, *flags))
        words = list(map(ours, LINES))
        assert words != LINES
        assert not differences(words, make_detokenizer(language), their_text(language))


@pytest.mark.parametrize("language", ["en", "de"])
def test_nearly_all_nonsense_is_split_and_joined_alike(language):
    """Rules that use up their context differ after the second match in a row."""
    rng = random.Random(2)
    text = "ab A.B'c,\"`-5 9 .&|<>[]()%:;„“”‘’«»–—…\u00a0 éß中。½😀\u0301$€ s' 's Mr. No. z.B. \t"
    lines = ["".join(rng.choices(text, k=rng.randrange(1, 30))) for _ in range(300)]
    for flags in FLAGS:
        ours = our_words(language, *flags)
        assert len(differences(lines, ours, their_words(language, *flags))) <= 3
        words = list(map(ours, lines))
        assert len(differences(words, make_detokenizer(language), their_text(language))) <= 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_language": "fi-FI"}, "joined by rules for fi"),
        ({"source_language": "el-CY", "lowercase": True}, "Greek sigma"),
        ({"aggressive_dash_splits": True}, "split at hyphens"),
        ({"vocabulary": "v", "vocabulary_threshold": 5}, "subwords of v only"),
        ({"tokenizer": "none"}, "tokenizer none and subword-nmt"),
    ],
)
def test_text_that_needs_other_rules_is_refused(changes, message):
    given = {"source_language": "en", "target_language": "de", "lowercase": False, "codes": "codes"}
    given |= {"normalize_punctuation": False, "tokenizer": "moses", "subwords": "subword-nmt"}
    with pytest.raises(UserError, match=f"text .*{message}.*--without-tokenizer"):
        bpe_tokenizer(Path("none"), Settings(**given | changes), Dictionary(), True)
