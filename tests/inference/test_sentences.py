"""Texts of several sentences, texts without words, and what is no text; and other processes."""

import json
import multiprocessing
import os
import threading

import pytest
from toy_bundle import SENTENCES, write_toy_bundle

from vaswani_plugin import Translator
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.sentences import join_sentences, split_sentences

SHORT = ["The cat slept.", "Why?", "It rained near the sea!", 'He said: "We bought apples."']


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.from_pretrained(folder, threads=1)


def test_sentences_are_cut_and_are_the_text_together():
    for text, wanted in (
        (
            "The cat slept. Dr. Smith came at 3.15 p.m.",
            ["The cat slept. ", "Dr. Smith came at 3.15 p.m."],
        ),
        ("One. --- !!! Two.  ", ["One. --- !!! ", "Two.  "]),
        ("他来了。我走了！", ["他来了。", "我走了！"]),
        ("The\u2028cat.\u00a0He\rran. Why", ["The\u2028cat.\u00a0", "He\rran. ", "Why"]),
    ):
        found = split_sentences(text, "zh" if text[0] == "他" else "en")
        assert found == wanted and "".join(found) == text
    long = [f"Number {n} sleeps near the sea. " for n in range(2000)]
    assert split_sentences("".join(long), "en") == long
    assert join_sentences(["a.", "", "b."], "de") == "a. b."
    assert join_sentences(["a。", "b。"], "zh") == "a。b。"


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


def test_pieces_are_no_longer_than_the_training_sentences(tmp_path, folder):
    settings = json.loads((folder / "preprocessing.json").read_text())
    for name in folder.iterdir():
        os.link(name, tmp_path / name.name)
    (tmp_path / "preprocessing.json").unlink()
    (tmp_path / "preprocessing.json").write_text(json.dumps(settings | {"longest_trained": 6}))
    cuts = Translator.from_pretrained(tmp_path)
    text = f"{SENTENCES[3]} {SENTENCES[4]}"
    found = cuts.read(text, long="split")
    assert max(map(len, found.pieces)) <= 6 and len(found.sentences) == 2
    joined = tuple(token for piece in found.pieces for token in piece)
    assert joined == tuple(t for sentence in found.sentences for t in sentence.tokens)
    whole = cuts.read("the cat " * 5, long="split", one_sentence=True)
    assert len(whole.pieces) == 1


@pytest.mark.parametrize("one_sentence", [False, True])
def test_a_text_without_words_is_kept(translator, one_sentence):
    texts = ["---", "😀", " ?! ...", "\u2028—", "“”"]
    _, *found = translator.translate(["a bird", *texts], one_sentence=one_sentence, nbest=2)
    for text, one in zip(texts, found, strict=True):
        assert one.text == " ".join(text.splitlines()) and len(one.hypotheses) == 1
        assert (one.source_tokens, one.tokens) == ((), ())


@pytest.mark.parametrize("bad", [float("nan"), None, "a \ud800 bird"])
def test_what_is_no_text_is_named(translator, bad):
    with pytest.raises(UserError, match=r"^text 2 (is (nan|None)|holds half)"):
        translator.translate(["a bird", bad])
    with pytest.raises(UserError, match=r"^(source|target) 1 (is|holds)"):
        translator.score([("a bird", bad)])
    with pytest.raises(UserError, match="^the text (is|holds)"):
        translator.count_tokens(bad)


def test_all_is_read_at_loading(folder, tmp_path, monkeypatch):
    """Neither another working directory nor other files in the folder change a loaded model."""
    for name in folder.iterdir():
        (tmp_path / name.name).write_bytes(name.read_bytes())
    monkeypatch.chdir(tmp_path.parent)
    loaded = Translator.from_pretrained(tmp_path.name)
    pair = "the old farmer slept", "the cat"
    wanted = Translator.from_pretrained(folder).score([pair])
    for name in tmp_path.iterdir():
        name.write_bytes(b"#version: 0.2\n")
    monkeypatch.chdir("/")
    assert loaded.score([pair]) == wanted


def count_in_child(translator, answers):
    answers.put(translator.count_tokens("the cat"))


def test_a_fork_while_another_thread_encodes_hangs_nothing(translator):
    over = threading.Event()

    def encode_on():
        while not over.is_set():
            translator.count_tokens("the cat slept")

    thread = threading.Thread(target=encode_on)
    thread.start()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    given = translator, answers
    children = [context.Process(target=count_in_child, args=given) for _ in range(5)]
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
