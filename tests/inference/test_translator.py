"""`Translator`: the same translations one by one, together, in any order, and from many threads."""

import inspect
import json
import multiprocessing
import os
import pickle
import random
import threading
import typing
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, islice

import pytest
import torch
from toy_bundle import POSITIONS, SENTENCES
from tqdm.auto import tqdm

from vaswani_plugin import LanguageModel, Parser, Summarizer, Translator
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.runner import Hypothesis, TextTooLong

SHORT = ["The cat slept.", "Why?", "It rained near the sea!", 'He said: "We bought apples."']
TEXTS = [*SENTENCES, "", "a bird", " \t", "The cat!", "Small clouds; the sea."]


@pytest.fixture(scope="module")
def translator(toy_bundle):
    with torch.inference_mode():  # weights made inside it could not be copied
        return Translator.from_pretrained(toy_bundle, threads=1)


def outputs(translations):
    return [[(h.text, h.tokens) for h in t.hypotheses] for t in translations]


def test_each_call_has_the_threads_asked_for(toy_bundle):
    before = torch.get_num_threads()
    try:
        Translator.from_pretrained(toy_bundle, threads=before + 1).translate("a bird", beam=1)
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
    streamed = translator.stream(iter([TEXTS[n] for n in order]), buffer=3, long="split", nbest=2)
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
        assert h.text == translator.pipeline.decode(" ".join(h.tokens)) != ""
    assert translator.count_tokens("the cat and the bird") == len(one.source_tokens) > 4
    assert (translator.target_language, translator.longest_source) == ("de", POSITIONS - 1)
    best = one.hypotheses[0]
    assert (one.text, one.score, one.tokens) == (best.text, best.score, best.tokens)
    assert (one.token_scores, one.alignment) == (best.token_scores, best.alignment)
    assert translator.translate("the cat").alignment == ()


def test_a_text_is_scored_in_the_sentences_that_are_translated(translator):
    """Where the target has as many; `score` has the unit of a translation's."""
    pairs = [("The cat slept.", "The bird sang."), ("It rained.", "We bought apples.")]
    text = tuple(map(" ".join, zip(*pairs, strict=True)))
    for alpha in (0.6, 1.0):
        (whole,) = translator.score([text], length_penalty=alpha)
        alone = translator.score(pairs, length_penalty=alpha)
        assert whole.score == pytest.approx(sum(each.score for each in alone))
        assert whole.log_probability == pytest.approx(sum(each.log_probability for each in alone))
        assert whole.tokens == alone[0].tokens + alone[1].tokens
        penalty = ((5 + len(alone[0].token_scores)) / 6) ** alpha
        assert alone[0].score == pytest.approx(alone[0].log_probability / penalty)
    uneven = [(text[0], pairs[0][1])]
    assert translator.score(uneven) == translator.score(uneven, one_sentence=True)
    (alone,) = translator.score([text], length_penalty=alpha, one_sentence=True)
    assert alone.log_probability != pytest.approx(whole.log_probability)


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
        ({"beam": 0}, "beam is 0; it must be at least 1"),
        ({"nbest": 0}, "nbest is 0; it must be at least 1"),
        ({"beam": 2.5}, "beam is 2.5; it must be a whole number"),
        ({"buffer": -1}, "buffer is -1; it must be at least 1"),
        ({"batch_tokens": 0}, "batch_tokens is 0; it must be at least 1"),
        ({"sampling": True, "top_p": 0.0}, "top_p is 0.0; it must be above 0 and at most 1"),
        ({"sampling": True, "top_k": 0}, "top_k is 0; it must be at least 1"),
        ({"temperature": 0}, "temperature is 0; it must be from 0.0001 to 10000"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram is -1; it must be at least 0"),
        ({"length_penalty": float("nan")}, "length_penalty is nan; it must be a finite number"),
        ({"seed": "1"}, "seed is '1'; it must be a whole number"),
        ({"long": "drop"}, "long is 'drop'; it must be error or split or truncate"),
    ):
        with pytest.raises(UserError, match=part):
            next(translator.stream(["a bird"], **options))
    with pytest.raises(UserError, match="threads is 0; it must be from 1 to 1024"):
        Translator.from_pretrained(translator.pipeline.folder, threads=0)
    with pytest.raises(UserError, match="batch_tokens is 0"):
        translator.score([("a bird", "a bird")], batch_tokens=0)


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        (Translator.translate, {"beam": None, "nbest": 1, "one_sentence": False, "top_p": None}),
        (LanguageModel.complete, {"max_new_tokens": None, "stop": "end", "batch_tokens": 4096}),
        (Summarizer.summarize, {"length_penalty": None, "seed": None}),
        (Parser.parse, {"batch_tokens": 2048, "unconstrained": False}),
    ],
)
def test_help_shows_every_option_and_its_default(method, shown):
    parameters = inspect.signature(method).parameters
    assert {name: parameters[name].default for name in shown} == shown
    assert "options" not in parameters
    overload = typing.get_overloads(method.__wrapped__)[1]
    (keywords,) = typing.get_args(overload.__annotations__["options"])
    assert {*keywords.__annotations__, *[*parameters][:2], "progress"} == set(parameters)


def test_the_bar_moves_with_every_batch_and_changes_nothing(translator, monkeypatch, capsys):
    texts, moves = ["a bird", "the cat"] * 3, []
    options = {"sampling": True, "seed": 3, "batch_tokens": 8}
    without = translator.translate(texts, **options)
    assert capsys.readouterr() == ("", "")
    assert translator.translate(texts, progress=True, **options) == without
    shown = capsys.readouterr()
    assert shown.out == "" and "6/6" in shown.err
    monkeypatch.setattr(tqdm, "update", lambda bar, count: moves.append(count))
    translator.translate(texts, progress=True, **options)
    assert sum(moves) == len(texts) and len(moves) > 2


def test_each_sentence_is_translated_by_itself(translator):
    alone = [translator.translate(text, nbest=2, align=True) for text in SHORT]
    whole = translator.translate(" ".join(SHORT), nbest=2, align=True)
    assert whole.text == " ".join(each.text for each in alone)
    assert whole.source_tokens == tuple(token for each in alone for token in each.source_tokens)
    assert whole.hypotheses[1].text == " ".join(each.hypotheses[1].text for each in alone)
    assert whole.score == pytest.approx(sum(each.score for each in alone), abs=1e-4)
    start = len(alone[0].source_tokens), len(alone[0].tokens)
    moved = [(s + start[0], t + start[1]) for s, t in alone[1].alignment]
    assert [pair for pair in whole.alignment if pair in moved] == moved
    one = translator.translate(" ".join(SHORT), one_sentence=True, long="truncate")
    assert one.tokens != whole.tokens


def test_a_sentence_is_whole_as_far_as_training_supports_it(tmp_path, toy_bundle):
    """Up to a tenth longer than the longest sentence in training."""
    settings = json.loads((toy_bundle / "preprocessing.json").read_text())
    for name in toy_bundle.iterdir():
        os.link(name, tmp_path / name.name)
    (tmp_path / "preprocessing.json").unlink()
    (tmp_path / "preprocessing.json").write_text(json.dumps(settings | {"longest_trained": 10}))
    cuts = Translator.from_pretrained(tmp_path)

    def pieces(text, **options):
        return [*map(" ".join, cuts.read(text, long="split", **options).pieces)]

    twelve = "the , " * 6
    assert pieces(twelve[:-3]) == [twelve[:-3]]
    assert pieces(twelve) == ["the , the , the ,"] * 2
    assert pieces(twelve, one_sentence=True) == [twelve.strip()]
    text = f"{SENTENCES[3]} {SENTENCES[4]}"
    found = cuts.read(text, long="split")
    assert max(map(len, found.pieces)) <= 11 and len(found.sentences) == 2
    joined = tuple(token for piece in found.pieces for token in piece)
    assert joined == tuple(t for sentence in found.sentences for t in sentence.tokens)


@pytest.mark.parametrize("one_sentence", [False, True])
def test_a_text_without_words_is_kept(translator, one_sentence):
    texts = ["---", "😀", " ?! ...", "\u2028—", "“”"]
    _, *found = translator.translate(["a bird", *texts], one_sentence=one_sentence, nbest=2)
    for text, one in zip(texts, found, strict=True):
        assert one.text == " ".join(text.splitlines()) and len(one.hypotheses) == 1
        assert (one.source_tokens, one.tokens) == ((), ())


@pytest.mark.parametrize("bad", [float("nan"), None])
def test_what_is_no_text_is_named(translator, bad):
    with pytest.raises(UserError, match="^text 2 is (nan|None)"):
        translator.translate(["a bird", bad])
    with pytest.raises(UserError, match="^(source|target) 1 is"):
        translator.score([("a bird", bad)])
    with pytest.raises(UserError, match="^the text is"):
        translator.count_tokens(bad)


def test_all_is_read_at_loading(toy_bundle, tmp_path, monkeypatch):
    """Neither another working directory nor other files in the folder, one of links, change it."""
    (tmp_path.parent / "blobs").mkdir()
    for name in toy_bundle.iterdir():
        blob = tmp_path.parent / "blobs" / name.name
        blob.write_bytes(name.read_bytes())
        (tmp_path / name.name).symlink_to(blob)
    monkeypatch.chdir(tmp_path.parent)
    loaded = Translator.from_pretrained(tmp_path.name)
    pair = "the old farmer slept", "the cat"
    wanted = Translator.from_pretrained(toy_bundle).score([pair])
    for name in tmp_path.iterdir():
        name.write_bytes(b"#version: 0.2\n")
    monkeypatch.chdir("/")
    assert loaded.score([pair]) == wanted


def test_a_pickle_is_the_call_that_loaded_it(toy_bundle, translator, tmp_path, monkeypatch):
    monkeypatch.chdir(toy_bundle.parent)
    loaded = Translator.from_pretrained(toy_bundle.name, threads=1, dtype="bfloat16")
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickle.dumps(loaded))
    assert again.translate("the cat") == loaded.translate("the cat") and again.engine.threads == 1
    assert next(again.engine.model.parameters()).dtype == torch.bfloat16
    with pytest.raises(UserError, match="only what from_pretrained loaded"):
        pickle.dumps(Translator(translator.pipeline, translator.engine))


def test_a_fork_while_another_thread_encodes_hangs_nothing(translator):
    over = threading.Event()

    def encode_on():
        while not over.is_set():
            translator.count_tokens("the cat slept")

    thread = threading.Thread(target=encode_on)
    thread.start()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    count = lambda: answers.put(translator.count_tokens("the cat"))  # noqa: E731
    children = [context.Process(target=count) for _ in range(5)]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
    over.set()
    thread.join()
    hangs = any(child.is_alive() for child in children)
    for child in children:
        child.kill()
    assert not hangs and answers.get() == translator.count_tokens("the cat")
