"""`Summarizer`: one article, many, a stream; the command's tests have the rest."""

import pytest
import torch
import toy_language_model as toy

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.summarization import Summarizer
from vaswani_plugin.text.settings import TextSettings

ARTICLES = [" ".join(toy.WORDS[n : n + 1 + n % 14]) for n in range(16)] + ["", "  "]


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory) -> Summarizer:
    settings = TextSettings("words", article_tokens=12, summary_tokens=6, beam=3)
    folder = tmp_path_factory.mktemp("summaries") / "model"
    toy.write_bundle(folder, settings, [*toy.WORDS, "<sep>"])
    state = torch.load(folder / "model.pt")
    state["cfg"]["task"] |= {"loss_after": "<sep>", "sample_break_mode": "eos"}
    torch.save(state, folder / "model.pt")
    return Summarizer.from_pretrained(folder)


def test_one_many_and_a_stream(summarizer):
    found = summarizer.summarize(ARTICLES)
    alone = [summarizer.summarize(article) for article in ARTICLES]
    streamed = summarizer.stream(iter(ARTICLES), buffer=3, batch_tokens=20)
    for one, other, another in zip(found, alone, streamed, strict=True):
        assert one.tokens == other.tokens == another.tokens and one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.score == pytest.approx(another.score, abs=1e-4)
    assert summarizer.summarize("ba\nbe\n").tokens == summarizer.summarize("ba be").tokens
    assert found[-1].text == found[-2].text == "" and len({one.text for one in found}) > 3
    assert [one.read_tokens for one in found[:14]] == [min(12, n + 1) for n in range(14)]
    assert all("<sep>" not in one.tokens for one in found)


def test_it_neither_completes_nor_scores(summarizer):
    model: LanguageModel = summarizer.model
    for ask in (model.complete, model.score, model.perplexity):
        with pytest.raises(UserError, match="learned only what follows <sep>"):
            ask("ba")
    with pytest.raises(UserError, match="max_length 19: beside 12 units"):
        summarizer.summarize("ba", max_length=19)
