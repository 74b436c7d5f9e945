"""`LanguageModel`: beside fairseq's scorer and loops by hand; batches, threads and streams."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_language_model as toy
from fairseq.sequence_scorer import SequenceScorer

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import save_safetensors
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.model.families import ELSEWHERE
from vaswani_plugin.text.settings import TextSettings

KINDS = {
    **{"ours": toy.OURS, "window": (*toy.OURS, "--attention-window", "3")},
    **({"one-layer": toy.ONE_LAYER, "our-lstm": toy.OUR_LSTM} if ELSEWHERE else {}),
}
TEXTS = [*toy.make_lines(12, 5), "", "ba", "ba zzz\nbe bi", " ".join(toy.WORDS)]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    return Path(toy.write_lines(folder / "dict.txt", [f"{word} 1" for word in toy.WORDS]).parent)


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def checkpoint(kind, data) -> Path:
    state, model = toy.build(data, *KINDS[kind])
    with torch.no_grad():
        for weight in model.parameters():  # so that texts differ
            weight.mul_(3.0 if weight.dim() > 1 else 1.0)
    torch.save({**state, "model": model.state_dict()}, data / f"{kind}.pt")
    return data / f"{kind}.pt"


@pytest.fixture(scope="module")
def model(kind, checkpoint, data) -> LanguageModel:
    return LanguageModel.from_pretrained(toy.bundle_of(checkpoint, data))


@pytest.fixture(scope="module")
def fairseqs(checkpoint, data):
    return toy.load_by_fairseq(checkpoint, data)


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> LanguageModel:
    """A bundle of words, whose model ends its texts at various lengths."""
    folder = tmp_path_factory.mktemp("bundle") / "model"
    return LanguageModel.from_pretrained(toy.write_bundle(folder, TextSettings("words"), toy.WORDS))


def test_scores_are_those_of_fairseqs_scorer(model, fairseqs):
    theirs, dictionary = fairseqs
    units = [text.replace("\n", " </s> ").split() for text in TEXTS]
    rows = [[*map(dictionary.index, words), dictionary.eos()] for words in units]
    target = torch.full((len(rows), max(map(len, rows))), dictionary.pad())
    tokens = target.clone()
    for number, row in enumerate(rows):
        target[number, : len(row)] = torch.tensor(row)
        tokens[number, : len(row)] = torch.tensor([dictionary.eos(), *row[:-1]])
    lengths = torch.tensor([len(row) for row in rows])
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}, "target": target}
    expected = SequenceScorer(dictionary).generate([theirs], sample)
    found = model.score(TEXTS)
    assert [list(one.tokens) for one in found] == units
    for one, (hypothesis,) in zip(found, expected, strict=True):
        scores = hypothesis["positional_scores"].tolist()
        assert one.token_scores == pytest.approx(scores, abs=1e-4)
        assert one.score == pytest.approx(sum(scores), abs=1e-3)
        assert one.perplexity == pytest.approx(math.exp(-np.mean(scores)), rel=1e-4)
    assert len({round(one.score, 3) for one in found}) > 10


@torch.no_grad()
def test_greedy_is_what_fairseqs_model_prefers(model, fairseqs):
    theirs, dictionary = fairseqs
    prompts = ["ba be", "", "gu ko ba fe", "di"]
    found = model.complete(prompts, max_new_tokens=7)
    for prompt, completed in zip(prompts, found, strict=True):
        text = [dictionary.eos(), *map(dictionary.index, prompt.split())]
        new, scores = [], []
        while len(new) < 7:
            tokens = torch.tensor([text + new])
            output = theirs(tokens, src_lengths=torch.tensor([tokens.size(1)]))
            log_p = theirs.get_normalized_probs(output, log_probs=True)[0, -1]
            log_p[[dictionary.pad(), dictionary.unk()]] = -math.inf
            token = int(log_p.argmax())
            scores.append(float(log_p[token]))
            if token == dictionary.eos():
                break
            new.append(token)
        assert list(completed.best.tokens) == [dictionary[token] for token in new]
        assert completed.best.token_scores == pytest.approx(scores, abs=1e-4)
        assert completed.best.ended == (len(new) < 7)
        assert completed.text.split() == [*prompt.split(), *completed.best.tokens]
        assert model.complete(prompt, max_new_tokens=7).best.tokens == completed.best.tokens


def test_the_perplexity_of_a_line_is_that_of_its_score(ours):
    line = TEXTS[0]
    found, score = ours.perplexity(line), ours.score(line)
    assert found["tokens"] == len(score.token_scores) and found["unknown"] == 0
    assert found["bits"] == pytest.approx(-score.score / math.log(2), rel=1e-5)
    assert found["perplexity_per_word"] == pytest.approx(score.perplexity, rel=1e-5)
    assert found["bits_per_character"] == pytest.approx(found["bits"] / (len(line) + 1), rel=1e-5)


def test_eight_threads_at_once(ours):
    """Scores, beams and samples, each by its own seed."""
    prompts = [" ".join(toy.WORDS[n : n + n % 4]) for n in range(12)]

    def work(number: int):
        drawn = {"sampling": True, "seed": number, "temperature": 3.0}
        return (
            ours.complete(prompts, max_new_tokens=6, beam=3, nbest=2),
            ours.complete(prompts[:4], max_new_tokens=6, **drawn),
            ours.score(TEXTS),
        )

    expected = [work(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == expected
    assert expected[0][1] != expected[1][1]
    # A prompt's sample depends on the seed, its number and itself alone.
    drawn = {"sampling": True, "seed": 0, "temperature": 3.0, "max_new_tokens": 6}
    assert ours.complete(["gu", *prompts[1:3]], **drawn)[1:] == expected[0][1][1:3]
    first, second = ours.complete(["ba", "ba"], **drawn)
    assert first.text != second.text


def test_options_of_the_search(ours):
    prompts = ["ba", "ba be bi", ""]
    free = ours.complete(prompts, max_new_tokens=12)
    assert any(one.best.ended for one in free), "none ends by itself: no test of the least length"
    for one in ours.complete(prompts, max_new_tokens=12, min_new_tokens=9):
        assert len(one.best.tokens) >= 9
    for one in ours.complete(prompts, max_new_tokens=12, no_repeat_ngram=1, stop="never"):
        assert len(set(one.best.tokens)) == len(one.best.tokens) == 12
    for one in ours.complete(prompts, max_new_tokens=6, beam=5, nbest=3, length_penalty=0.6):
        scores = [continuation.score for continuation in one.continuations]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
        for continuation in one.continuations:
            length = len(continuation.tokens) + 1
            log_p = sum(continuation.token_scores)
            assert continuation.score == pytest.approx(log_p / ((5 + length) / 6) ** 0.6, abs=1e-5)
    drawn = [ours.complete("ba", sampling=True, temperature=9.0, nbest=4) for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert len({one.text for one in drawn[0].continuations}) == 4
    drawn = ours.complete(["ba"] * 9, sampling=True, nbest=4, stop="never", max_new_tokens=5)
    assert [len(text.tokens) for one in drawn for text in one.continuations] == [5] * 36


def test_a_stream_is_answered_as_it_comes(ours):
    read = []

    def prompts():
        for number in itertools.count():
            read.append(number)
            yield toy.WORDS[number % 30]

    found = list(itertools.islice(ours.stream(prompts(), buffer=4, max_new_tokens=3), 6))
    assert len(read) == 8
    for one, other in zip(found, ours.complete(toy.WORDS[:6], max_new_tokens=3), strict=True):
        assert (one.prompt, one.best.text) == (other.prompt, other.best.text)
        assert one.best.token_scores == pytest.approx(other.best.token_scores, abs=1e-4)
    assert list(ours.stream([])) == ours.complete([]) == ours.score([]) == []


def test_what_does_not_fit(ours):
    with pytest.raises(UserError, match="min_new_tokens 4 exceeds"):
        ours.complete("ba", max_new_tokens=3, min_new_tokens=4)
    with pytest.raises(UserError, match="stop is 'always'; it must be end or never"):
        ours.complete("ba", stop="always")
    with pytest.raises(UserError, match="text 2 has 32 tokens and the model 32 positions"):
        ours.score(["ba", " ".join([*toy.WORDS, "ba", "be"])])
    asked = [(ours.score, "batch_tokens", 0), (ours.perplexity, "batch_tokens", 0)]
    asked += [(ours.perplexity, "context_window", -1), (ours.perplexity, "tokens_per_sample", 8.5)]
    for ask, name, value in asked:
        with pytest.raises(UserError, match=f"^{name} is {value}; it must be "):
            ask("ba", **{name: value})
    for ask in (ours.complete, ours.score, ours.perplexity):
        for bad, why in ((float("nan"), "is nan"), ("ba \ud800", "holds half a surrogate")):
            with pytest.raises(UserError, match=f"^(prompt 1|the text|line 1) {why}"):
                ask([bad])


def test_a_bundle_with_safetensors_alone(tmp_path):
    folder = toy.write_bundle(tmp_path / "model", TextSettings("words"), toy.WORDS)
    expected = LanguageModel.from_pretrained(folder, dtype="float32").score(TEXTS)
    save_safetensors(load_checkpoint(folder / "model.pt"), folder / "model.safetensors")
    (folder / "model.pt").unlink()
    assert LanguageModel.from_pretrained(folder).score(TEXTS) == expected
