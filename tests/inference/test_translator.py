"""`Translator`: the same translations one by one, together, in any order, and from many threads."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, islice

import pytest
import torch
from toy_bundle import POSITIONS, SENTENCES, write_toy_bundle
from tqdm.auto import tqdm

from vaswani_plugin import Translator
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.texts import Hypothesis, TextTooLong

LONGEST = POSITIONS - 1  # the end of sentence takes one
TEXTS = [*SENTENCES, "", "a bird", " \t", "The cat!", "Small clouds; the sea."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.from_pretrained(folder, threads=1)


def outputs(translations):
    return [[(h.text, h.tokens) for h in t.hypotheses] for t in translations]


def test_three_lines(translator, folder):
    found = translator.translate("A bird in the garden.")
    assert found.text == translator.pipeline.decode(" ".join(found.tokens)) != ""
    assert (translator.source_language, translator.target_language) == ("en", "de")
    assert translator.longest_source == LONGEST
    assert translator.count_tokens("A bird in the garden.") == len(found.source_tokens) > 4
    assert found.source == "A bird in the garden."


def test_each_call_has_the_threads_asked_for(folder):
    before = torch.get_num_threads()
    try:
        Translator.from_pretrained(folder, threads=before + 1).translate("a bird", beam=1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_alone_together_and_in_any_order(translator):
    alone = [translator.translate(text, long="split", nbest=2) for text in TEXTS]
    expected = outputs(alone)
    assert len({t.text for t in alone}) > len(TEXTS) // 2, "all alike: no test"
    for size in (30, 4096):
        together = translator.translate(TEXTS, long="split", nbest=2, batch_tokens=size)
        assert outputs(together) == expected
        for one, other in zip(alone, together, strict=True):
            for mine, its in zip(one.hypotheses, other.hypotheses, strict=True):
                assert mine.score == pytest.approx(its.score, abs=1e-4)
                assert mine.token_scores == pytest.approx(its.token_scores, abs=1e-4)
    order = random.Random(2).sample(range(len(TEXTS)), len(TEXTS))
    shuffled = [TEXTS[n] for n in order]
    streamed = translator.stream(iter(shuffled), buffer=3, long="split", nbest=2)
    assert outputs(streamed) == [expected[n] for n in order]


def test_eight_threads_translate_what_one_does(translator):
    """With and without alignments at the same time: neither disturbs the other."""
    texts = [" ".join(random.Random(n).sample(SENTENCES[n % 5].split(), 6)) for n in range(20)]

    def work(number):
        options = {"align": number % 2 == 0, "long": "split", "batch_tokens": 100}
        found = translator.translate(texts[number:][:6], **options)
        return [(t.text, t.tokens, t.alignment) for t in found]

    expected = list(map(work, range(14)))
    assert all(found[2] for found in expected[0]) and not any(found[2] for found in expected[1])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(14))) == expected


def test_scores_and_alignment(translator):
    (one,) = translator.translate(["the cat and the bird"], nbest=2, length_penalty=0.9, align=True)
    for h in one.hypotheses:
        penalty = ((5 + len(h.tokens) + 1) / 6) ** 0.9
        assert h.score == pytest.approx(sum(h.token_scores) / penalty, abs=1e-5)
        assert [t for _, t in h.alignment] == list(range(len(h.tokens)))
        assert all(0 <= s < len(one.source_tokens) for s, _ in h.alignment)
    best = one.hypotheses[0]
    assert (one.text, one.score, one.tokens) == (best.text, best.score, best.tokens)
    assert (one.token_scores, one.alignment) == (best.token_scores, best.alignment)
    assert translator.translate("the cat").alignment == ()


def test_no_text_and_a_line_break(translator):
    """A line break counts as a space."""
    assert translator.translate([]) == []
    for text in ("", " \u3000", "\n"):
        assert translator.translate(text).hypotheses == (Hypothesis("", 0.0, (), (), ()),)
    one = translator.translate("the cat\nand the bird")
    assert one.hypotheses == translator.translate("the cat and the bird").hypotheses
    assert one.source == "the cat\nand the bird"


def test_a_stream_gives_what_it_has_before_it_fails(translator):
    def lines():  # read no further than is asked for
        yield from ("a bird", "the cat", "the sea")
        raise OSError("the disk is gone")

    assert len(list(islice(translator.stream(lines(), buffer=1), 3))) == 3

    found = []
    with pytest.raises(OSError, match="disk is gone"):
        for translation in translator.stream(lines(), buffer=2):
            found.append(translation.text)
    assert found == [t.text for t in translator.translate(["a bird", "the cat", "the sea"])]
    found = translator.stream(["a bird", " ".join(SENTENCES)], buffer=10, one_sentence=True)
    assert next(found).source == "a bird"
    with pytest.raises(TextTooLong, match="text 2"):
        next(found)


def test_samples_depend_on_the_seed_the_text_and_its_number(translator):
    """Seed 6 of a text was seed 5 of the next text, where each is a batch of its own."""
    options = {"sampling": True, "nbest": 5, "temperature": 3.0, "batch_tokens": 1}
    texts = ["a bird"] * 4
    first, second = (outputs(translator.translate(texts, seed=n, **options)) for n in (5, 6))
    assert all(a != b for a, b in combinations([*first, *second], 2))
    assert first == outputs(translator.stream(texts, buffer=1, seed=5, **options))
    assert outputs(translator.translate(texts, **options)) != first
    cold = translator.translate("a bird", sampling=True, temperature=1e-4, top_k=5)
    assert cold.tokens == translator.translate("a bird", beam=1).tokens


def test_bad_options_are_named(translator):
    for options, part in (
        ({"nbest": 3}, "a beam of 2 finds no more than 2"),
        ({"beam": 10**6}, "dictionary has"),
        ({"long": "drop"}, "long is 'drop'; it must be error or split or truncate"),
    ):
        with pytest.raises(UserError, match=part):
            translator.translate("a bird", **options)
    with pytest.raises(TypeError, match="beem: no option of that name; there are beam, nbest"):
        translator.translate("a bird", beem=2)


def test_a_pickled_translator_loads_its_files_again(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    translator = Translator.from_pretrained(folder.name, threads=1)
    pickled = pickle.dumps(translator)
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    assert again.translate("a bird") == translator.translate("a bird")
    with pytest.raises(TypeError, match="by from_pretrained in the other process"):
        pickle.dumps(Translator(translator.pipeline, translator.engine))


def test_the_bar_moves_with_every_batch_and_changes_nothing(translator, monkeypatch, capsys):
    translator.translate(["a bird", "the cat"])
    assert capsys.readouterr() == ("", "")
    translator.translate(["a bird", "the cat"], progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "2/2" in shown.err
    seen, texts = [], ["a bird", "the cat"] * 3
    decode = translator.engine.decode
    monkeypatch.setattr(
        translator.engine, "decode", lambda *given: seen.append("batch") or decode(*given)
    )
    monkeypatch.setattr(tqdm, "update", lambda bar, count: seen.append(count))
    options = {"sampling": True, "seed": 3, "batch_tokens": 8}
    shown = translator.translate(texts, progress=True, **options)
    assert seen[0] == "batch" and seen[1::2] == [n for n in seen[1::2] if n > 0] and len(seen) > 2
    assert shown == translator.translate(texts, **options)
