"""`Summarizer` and `vaswani summarize`: what the model itself would write after the article."""

import json
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from toy_language_model import OURS, POSITIONS, WORDS, build, write_lines

from tests.support.commands import Ended, vaswani
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.summarization import Summarizer
from vaswani_plugin.text.settings import TextSettings

ARTICLE, SUMMARY = 12, 6
LONG = " ".join(WORDS[:20])
ARTICLES = ["ba be bi", "", "  \t ", LONG, "gu  zzz ko", " ".join(LONG.split()[:ARTICLE])]
ARTICLES += ["<sep> </s> ba", "ko"]
FLAGS = (*OURS, "--sample-break-mode", "eos", "--loss-after", "<sep>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A bundle whose model has random weights and gives different articles different summaries."""
    settings = TextSettings("words", article_tokens=ARTICLE, summary_tokens=SUMMARY, beam=3)
    folder = tmp_path_factory.mktemp("summaries")
    write_lines(folder / "dict.txt", [f"{unit} 1" for unit in [*WORDS, "<sep>"]])
    (folder / "preprocessing.json").write_text(settings.to_json(), encoding="utf-8")
    state, model = build(folder, *FLAGS)
    with torch.no_grad():
        # Otherwise the last word, whose embedding goes through all layers, would be repeated.
        for name, weights in model.named_parameters():
            weights.mul_(4.0 if "feed_forward" in name and weights.dim() == 2 else 1.0)
    torch.save({**state, "model": model.state_dict()}, folder / "model.pt")
    return folder


def summarize(folder: Path, lines: list[str], *flags: object) -> Ended:
    text = "".join(f"{line}\n" for line in lines).encode()
    return vaswani("summarize", "--model", folder, "--cpu", *flags, stdin=text)


def objects(folder: Path, *flags: object) -> list[dict]:
    done = summarize(folder, ARTICLES, *flags, "--format", "json")
    return [json.loads(line) for line in done.out.split("\n")[:-1]]


@torch.no_grad()
def by_hand(folder: Path, article: str) -> tuple[list[str], list[float]]:
    """Greedy: words, and their log-probabilities with that of the end, by whole passes."""
    _, model = build(folder, *FLAGS)
    model.load_state_dict(torch.load(folder / "model.pt")["model"])
    model.eval()
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    words = [word if word not in ("<sep>", "</s>") else "<unk>" for word in article.split()]
    text = [dictionary.eos(), *map(dictionary.index, words[:ARTICLE]), dictionary.index("<sep>")]
    never = [dictionary.index(symbol) for symbol in ("<pad>", "<unk>", "<sep>")]
    tokens: list[int] = []
    scores: list[float] = []
    while len(tokens) < SUMMARY:
        scored = model(torch.tensor([[*text, *tokens]]))[0][0, -1].double().log_softmax(-1)
        scored[never] = -torch.inf
        if not tokens:
            scored[dictionary.eos()] = -torch.inf  # a summary has a word
        best = int(scored.argmax())
        scores.append(float(scored[best]))
        if best == dictionary.eos():
            break
        tokens.append(best)
    return [dictionary[token] for token in tokens], scores


def test_greedy_is_what_the_model_says(folder):
    found = objects(folder, "--beam", 1)
    assert len({tuple(entry["tokens"]) for entry in found}) > 3, "all alike: no test"
    assert any(len(set(entry["tokens"])) > 3 for entry in found), "one word repeated: no test"
    for number, (article, entry) in enumerate(zip(ARTICLES, found, strict=True), start=1):
        units = article.split()
        assert entry["line"] == number and entry["article_tokens"] == len(units)
        assert entry["read_tokens"] == min(ARTICLE, len(units))
        words, scores = by_hand(folder, article) if units else ([], [])
        assert entry["tokens"] == words and entry["summary"] == " ".join(words)
        assert entry["token_scores"] == pytest.approx(scores, abs=1e-4)


def test_every_line_gives_a_line_and_long_articles_are_cut(folder):
    done = summarize(folder, ARTICLES)
    lines = done.out.split("\n")[:-1]
    assert done.code == 0 and len(lines) == len(ARTICLES)
    assert lines[1] == lines[2] == "" and lines[3] == lines[5] != ""
    assert "1 of 8 articles are longer than the model reads" in done.err
    assert "the first 12 units were read" in done.err
    assert summarize(folder, ["ba"]).err == ""
    assert summarize(folder, ["\u200b \u00ad"]).out == "\n"


def test_options_of_the_search(folder):
    found = objects(folder)
    assert found != objects(folder, "--beam", 1)
    assert found == objects(folder, "--beam", 3, "--lenpen", 0.6)
    for entry in found:
        if entry["tokens"]:
            length = len(entry["tokens"]) + 1  # the end, or the cut
            expected = sum(entry["token_scores"]) / ((5 + length) / 6) ** 0.6
            assert entry["score"] == pytest.approx(expected, abs=1e-5)
    assert max(len(entry["tokens"]) for entry in objects(folder, "--max-length", 2)) <= 2
    done = summarize(folder, ARTICLES, "--no-repeat-ngram-size", 1)
    assert done.out.count("\n") == len(ARTICLES), done.err
    for line in done.out.splitlines():
        assert len(set(line.split())) == len(line.split())
    room = POSITIONS - ARTICLE - 2
    assert summarize(folder, ["ba"], "--max-length", room).code == 0
    assert f"positions leave {room}" in summarize(folder, ["ba"], "--max-length", room + 1).error


def test_one_many_and_a_stream(folder):
    summarizer = Summarizer.from_pretrained(folder)
    found = summarizer.summarize(ARTICLES)
    alone = [summarizer.summarize(article) for article in ARTICLES]
    streamed = summarizer.stream(iter(ARTICLES), buffer=3, batch_tokens=20)
    for one, *others in zip(found, alone, streamed, strict=True):
        for other in others:
            assert (one.tokens, one.text) == (other.tokens, other.text)
            assert one.score == pytest.approx(other.score, abs=1e-4)
    assert summarizer.summarize("ba\nbe\n").tokens == summarizer.summarize("ba be").tokens
    options = {"sampling": True, "temperature": 3.0}
    first, again, other = (summarizer.summarize(ARTICLES, seed=n, **options) for n in (1, 1, 2))
    assert first == again != other
    for ask in (summarizer.model.complete, summarizer.model.score, summarizer.model.perplexity):
        with pytest.raises(UserError, match="learned only what follows <sep>"):
            ask("ba")
