"""BLEU against a count in the open, multi-bleu.perl's corner cases; its words; its buckets."""

import math
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_plugin.metrics import bleu
from vaswani_plugin.metrics.segments import Segments, has_no_spaces

LINE = st.lists(st.sampled_from(["a", "b", "c", "d\u00a0e"]), max_size=12).map(" ".join)
TRIPLES = st.lists(st.tuples(LINE, LINE, LINE), min_size=1, max_size=5)


def plain_bleu(hypotheses: list[str], references: list[list[str]]) -> float:
    """BLEU of Papineni et al. 2002, counted in the open: orders 1 to 4, brevity penalty."""
    matches, totals, length, gold_length = Counter(), Counter(), 0, 0
    for hypothesis, *golds in zip(hypotheses, *references, strict=True):
        words = hypothesis.split(" ") if hypothesis else []
        golds = [gold.split(" ") if gold else [] for gold in golds]
        length += len(words)
        # Of two equally close references, the shorter counts.
        gold_length += min((abs(len(gold) - len(words)), len(gold)) for gold in golds)[1]
        for n in range(1, 5):
            ours = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
            best = Counter()
            for gold in golds:
                best |= Counter(tuple(gold[i : i + n]) for i in range(len(gold) - n + 1))
            matches[n] += sum((ours & best).values())
            totals[n] += sum(ours.values())
    if 0 in [matches[n] for n in range(1, 5)]:
        return 0.0
    precision = sum(math.log(matches[n] / totals[n]) for n in range(1, 5)) / 4
    return 100 * math.exp(min(0.0, 1 - gold_length / length) + precision)


@settings(max_examples=200, deadline=None)
@given(TRIPLES)
def test_tokenized_score_is_the_count_in_the_open(triples: list) -> None:
    hypotheses, *references = (list(lines) for lines in zip(*triples, strict=True))
    found = bleu.tokenized_score(hypotheses, references)
    assert found == pytest.approx(min(100.0, plain_bleu(hypotheses, references)), abs=1e-9)


@pytest.mark.parametrize(
    ("hypotheses", "references", "score"),
    [
        (["a b c x d"], ["a b c y d"], 0.0),  # no four words in a row; sacreBLEU smooths
        (["one two three four."], ["one two three four ."], 0.0),  # words are left alone
        # Words are divided by ASCII white space alone, as in Perl over bytes.
        (["a\tb\u00a0c  d\u2028e \x0b f\x85g x y z"], ["a b\u00a0c d\u2028e f\x85g x y z"], 100.0),
        (["a b\u00a0c d e f"], ["a b c d e f"], 0.0),
        ([""], ["a b c d"], 0.0),
        (["a b c"], ["a b c"], 0.0),  # no 4-gram at all
    ],
)
def test_tokenized_score_by_hand(hypotheses: list, references: list, score: float) -> None:
    assert bleu.tokenized_score(hypotheses, [references]) == pytest.approx(score)


def test_lowercase_of_multi_bleu_knows_ascii_letters_alone() -> None:
    words = ["THE Über SAT ON THE MAT", "the über sat on the mat"]
    assert 0 < bleu.tokenized_score(words[:1], [words[1:]], lowercase=True) < 100


def test_every_other_white_space_belongs_to_a_word() -> None:
    spaces = {chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()}
    assert set(bleu._OTHER_SPACES) == spaces - set(" \t\n\r\f\v")


def test_borders_of_readings() -> None:
    for below, above, word in ((19.99, 20.0, "gist is clear"), (60.0, 60.01, "better than human")):
        assert word in bleu.reading(above) and word not in bleu.reading(below)


LINES = {
    "zh": ["房子在山上，离海不远。", "他和你在家。"],
    "th": ["แมวนั่งบนเสื่อ", "สุนัขเห่าตอนกลางคืน"],
    "de": ["Der Hund bellt in der Nacht.", "Die Katze sitzt auf der Matte."],
}


@pytest.mark.parametrize("language", LINES)
def test_each_language_has_words_for_sacrebleu(language: str) -> None:
    tokenizer, _ = bleu.tokenizer_of(language)
    metric = bleu.sacrebleu_metric(tokenizer=tokenizer)
    changed = [line[:-2] + "x" + line[-1] for line in LINES[language]]
    assert 30 < bleu.corpus_score(metric, changed, [LINES[language]]) < 100
    assert has_no_spaces(LINES[language]) == (language != "de")


def test_japanese_has_words_where_mecab_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bleu, "find_spec", lambda name: name)
    assert bleu.tokenizer_of("ja") == ("ja-mecab", None)
    monkeypatch.setattr(bleu, "find_spec", lambda name: None)
    tokenizer, warning = bleu.tokenizer_of("ko")
    assert tokenizer == "char" and "pip install 'sacrebleu[ko]'" in warning


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # The letter between is used up: the pass goes on behind it.
        ("a-b-c-d", "a ##AT##-##AT## b-c ##AT##-##AT## d"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("- alone - and -so or so-", "- alone - and -so or so-"),
    ],
)
def test_hyphens_are_split_in_one_pass(line: str, expected: str) -> None:
    assert bleu.split_compounds(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\u201cJa\u201d, \u2019s", '"Ja", \'s'),
        ("\u201eNein\u201c", '\u201eNein"'),  # the script knows no low quote
        ("Ende\u3002  Neu\uff01", "Ende. Neu!"),
    ],
)
def test_unicode_punctuation_becomes_ascii(line: str, expected: str) -> None:
    assert bleu.replace_unicode_punctuation(line) == expected


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("de", 'Er sagte: "Ja".', "Er sagte : &quot; Ja &quot; ."),
        # tokenizer.perl parts the last full stop from any word, within a line it keeps it.
        ("de", "Am 2. Mai oder am 3.", "Am 2. Mai oder am 3 ."),
        ("de", "Um 5 p.m. oder 6 P.M.", "Um 5 p.m. oder 6 P.M ."),
        ("de", "Und so weiter...", "Und so weiter ..."),
        ("de", ".", "."),
        ("de", "a-b", "a-b"),
        ("fr", "peut-être", "peut @-@ être"),
    ],
)
def test_tokens_are_those_of_the_perl_script(language: str, line: str, expected: str) -> None:
    assert bleu.make_scoring_tokenizer(language)(line) == expected


# By source length and rarity.


def test_borders_belong_to_the_bucket_that_they_name() -> None:
    buckets = bleu.group([1, 10, 11, 20, 50, 51, 400, 0, 5], bleu.LENGTHS)
    found = {bucket.label: bucket.members for bucket in buckets}
    assert found == {"1-10": (0, 1, 8), "11-20": (2, 3), "41-50": (4,), "51+": (5, 6)}
    labels = [
        bucket.label for bucket in bleu.group([0, 1, 9, 10, 100, 1000, 10**6, -1], bleu.FREQUENCIES)
    ]
    assert labels == ["0", "1-9", "10-99", "100-999", "1000-9999", "10000+"]


def test_even_groups_keep_the_order_and_leave_out_what_has_no_value() -> None:
    buckets = bleu.group_evenly([9.6, -1.0, 1.0, 30.2, 2.0, 2.0, 70.0, 5.0], 3)
    assert [bucket.members for bucket in buckets] == [(2, 4), (5, 7), (0, 3, 6)]
    assert [bucket.label for bucket in buckets] == ["1-2", "2-5", "10-70"]
    assert [bucket.members for bucket in bleu.group_evenly([3.0, 1.0], 6)] == [(1,), (0,)]
    assert bleu.group_evenly([-1.0], 6) == []


def rows(sources: list[str], **options) -> dict[str, list]:
    lines = [f"w{number} is the answer here" for number in range(len(sources))]
    tables = bleu.by_bucket(Segments(lines, [lines], sources=sources), **options)
    return {key: [(r["bucket"], r["sentences"]) for r in table] for key, table in tables.items()}


def test_words_are_those_of_13a_or_characters_where_nothing_divides_words(tmp_path: Path) -> None:
    training = tmp_path / "train"
    training.write_text("The dog barks.\nThe dog sleeps.\nthe cat\n房子在山上。\n", "utf-8")
    sources = ["A dog, a cat." * 2, "A dog , a cat . " * 2, "房子在山上，离海不远。", ""]
    assert rows(sources) == {"by_length": [("11-20", 3)]}
    sources = ["The dog.", "The dog barks.", "The bird.", "", "the", "山上的房子"]
    found = rows(sources, training=training)
    assert found["by_rarest_word"] == [("0", 2), ("1-9", 3)]
    assert sum(count for _, count in found["by_average_rank"]) == 5  # not the empty one
    found = rows(["the", "the", "THE"], training=training, lowercase=True)
    assert found["by_rarest_word"] == [("1-9", 3)]
