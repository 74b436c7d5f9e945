"""`vaswani lm`: beside fairseq-eval-lm and hand computations; dynamic evaluation; bad input."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_bundle
import toy_language_model as toy
from fairseq import checkpoint_utils, options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm
from fairseq_flags import PLUGIN

from tests.conftest import REPO
from vaswani_plugin.cli.__main__ import command_parser, main
from vaswani_plugin.inference import forced as scoring
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.text_scores import StreamScorer, windows
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import TextSettings

DATA = Path(os.environ.get("VASWANI_DATA", REPO.parent / "shared" / "data"))
KINDS = {
    **{"ours": toy.OURS, "one-layer": toy.ONE_LAYER, "our-lstm": toy.OUR_LSTM},
}
SIZES = [(32, 0), (16, 0), (20, 12), (20, 19)]
ORDERS = ("uniform", "unigram", "trigram")
ROW_KEYS = {
    *("name", "coding", "tokens", "unknown", "bits", "cross_entropy_rate", "perplexity"),
    *("bits_per_token", "bits_per_word", "bits_per_character", "bits_per_byte"),
    *("perplexity_per_word", "without_line_ends"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return toy.write_data(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="module")
def checkpoints(data) -> dict[str, Path]:
    updates = dict.fromkeys(KINDS, 60) | {"our-lstm": 250}
    return {
        name: toy.write_checkpoint(data, data / f"{name}.pt", *flags, updates=updates[name])
        for name, flags in KINDS.items()
    }


@pytest.fixture(scope="module")
def letters(tmp_path_factory) -> Path:
    """A bundle that reads characters."""
    units = sorted({letter for word in toy.WORDS for letter in word})
    folder = tmp_path_factory.mktemp("letters") / "model"
    return toy.write_bundle(folder, TextSettings("characters"), ["\u2581", *units])


@pytest.fixture
def lm(capsys):
    """``lm("--model", …)`` gives the JSON object of the command."""

    def run(*args: object) -> dict:
        assert main(["lm", "--cpu", "--format", "json", *map(str, args)]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def model_of(path: Path, folder: Path):
    """The model of a checkpoint, loaded by fairseq itself, in float64."""
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    state["cfg"].task.data = str(folder)
    task = tasks.setup_task(state["cfg"].task)
    model = task.build_model(state["cfg"].model)
    model.load_state_dict(state["model"])
    return model.double().eval(), task.source_dictionary


def forced(model, stream: list[int], end: int, size: int, context: int) -> list[float]:
    """Each token's log-probability alone: the model reads what its window lets it, no more."""
    block, found = size - context, []
    shifted = [end, *stream]
    for position, token in enumerate(stream):
        first = position // block * block
        seen = shifted[max(0, first - context) : position + 1]
        with torch.no_grad():
            logits = model(torch.tensor([seen]))[0][0, -1]
        found.append(float(logits.double().log_softmax(-1)[token]))
    return found


@pytest.mark.parametrize(
    ("kind", "size", "context"),
    [
        *(("ours", *sizes) for sizes in SIZES),
        ("our-lstm", 20, 12),
    ],
)
def test_equals_fairseq_eval_lm(kind, size, context, data, checkpoints, lm):
    windows_flags = ["--tokens-per-sample", str(size), "--context-window", str(context)]
    arguments = [str(data), "--user-dir", str(PLUGIN), "--path", str(checkpoints[kind]), "--cpu"]
    arguments += ["--gen-subset", "test", "--max-tokens", "100", "--num-workers", "0"]
    args = options.parse_args_and_arch(
        options.get_eval_lm_parser(), [*arguments, "--no-progress-bar", *windows_flags]
    )
    theirs = eval_lm.main(convert_namespace_to_omegaconf(args))
    report = lm(
        *("--model", checkpoints[kind], "--data-bin", data, "--batch-tokens", 77, *windows_flags)
    )
    row = report["results"][0]
    assert row["perplexity"] == pytest.approx(float(theirs["perplexity"]), rel=1e-5)
    assert row["bits_per_token"] == pytest.approx(float(theirs["loss"]), rel=1e-5)
    assert row["perplexity"] < 25, "the model learned nothing: a uniform one would pass"
    assert report["windows"] == {"tokens_per_sample": size, "context_window": context}


@pytest.mark.parametrize("kind", KINDS)
def test_equals_forced_log_probabilities(kind, data, checkpoints, lm):
    model, dictionary = model_of(checkpoints[kind], data)
    lines = (data.parent / "test").read_text().splitlines()
    stream = toy.stream_of(dictionary, lines)
    expected = forced(model, stream, dictionary.eos(), 20, 12)
    report = lm(
        *("--model", checkpoints[kind], "--data-bin", data, "--text", data.parent / "test"),
        *("--tokens-per-sample", 20, "--context-window", 12),
    )
    row = report["results"][0]
    assert row["tokens"] == len(stream)
    assert row["cross_entropy_rate"] == pytest.approx(-np.mean(expected), rel=1e-6)
    # Words are this model's tokens, and their mean log-probability is the direct score by word.
    assert row["perplexity_per_word"] == pytest.approx(math.exp(-np.mean(expected)), rel=1e-5)
    alone = math.exp(-sum(expected) / (len(stream) - len(lines)))
    assert row["without_line_ends"]["perplexity_per_word"] == pytest.approx(alone, rel=1e-5)


def test_characters_convert_to_words(letters, tmp_path, lm):
    """Scoring whole words, each with the blank or line end after it, equals converting."""
    lines = toy.make_lines(12, seed=5)
    text = toy.write_lines(tmp_path / "text", lines)
    row = lm("--model", letters, "--text", text)["results"][0]
    model, dictionary = model_of(letters / "model.pt", letters)
    coded = [" ".join(line.replace(" ", "\u2581")) for line in lines]
    stream = toy.stream_of(dictionary, coded)
    scores = forced(model, stream, dictionary.eos(), toy.POSITIONS, 0)
    by_word, word = [], 0.0
    for token, score in zip(stream, scores, strict=True):
        word += score
        if dictionary[token] in ("\u2581", "</s>"):
            by_word.append(word)
            word = 0.0
    assert len(by_word) == sum(len(line.split()) for line in lines)
    # A line's last word carries the line's end, which the published convention counts as a word.
    bits_per_word = -sum(by_word) / math.log(2) / len(by_word)
    assert row["without_line_ends"]["bits_per_word"] == pytest.approx(bits_per_word, rel=1e-6)
    direct = math.exp(-np.mean(by_word))
    assert row["without_line_ends"]["perplexity_per_word"] == pytest.approx(direct, rel=1e-4)
    size = len(text.read_bytes())
    assert row["tokens"] == size and row["coding"] == "characters"
    assert row["bits_per_character"] == pytest.approx(row["bits_per_token"])
    assert row["bits_per_byte"] == pytest.approx(row["bits"] / size)


def test_every_line_is_encoded_once(letters, tmp_path, lm, monkeypatch):
    found, encode = [], Pipeline.encode

    def counted(pipeline: Pipeline, line: str) -> str:
        found.append(line)
        return encode(pipeline, line)

    monkeypatch.setattr(Pipeline, "encode", counted)
    text, lines = tmp_path / "text", ["ba be", "", "be"]
    text.write_text("".join(f"{line}\n" for line in lines))
    lm("--model", letters, "--text", text)
    assert found == lines
    LanguageModel.from_pretrained(letters).perplexity(lines)
    assert found == 2 * lines


@pytest.fixture
def ours(checkpoints, data):
    """The Transformer that scores, in float64, and its dictionary."""
    return scoring_model(checkpoints["ours"], data)


def scoring_model(path: Path, data: Path):
    model = LanguageModel.from_pretrained(path, data=data, dtype=torch.float64)
    return model.model, model.dictionary


def scorer_of(model, dictionary: Dictionary, stream: list[int]) -> StreamScorer:
    return StreamScorer(model, np.array(stream), dictionary.pad(), dictionary.eos())


def learning_reference(model, stream, end, cut, rate, decay) -> list[float]:
    """Dynamic evaluation by PyTorch's own SGD, from the formula, a window after the other."""
    trained = [weight.detach().clone() for weight in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    text, found = torch.tensor([end, *stream]), []
    for window in cut:
        logits = model(text[None, window.start : window.stop])[0][0, window.first - window.start :]
        gold = text[window.first + 1 : window.stop + 1]
        loss = torch.nn.functional.cross_entropy(logits, gold, reduction="none")
        found += (-loss).tolist()
        optimizer.zero_grad()
        loss.mean().backward()
        with torch.no_grad():
            for weight, start in zip(model.parameters(), trained, strict=True):
                weight += decay * (start - weight)
        optimizer.step()
    with torch.no_grad():
        for weight, start in zip(model.parameters(), trained, strict=True):
            weight.copy_(start)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_equals_plain_sgd_with_decay(kind, checkpoints, data):
    model, dictionary = scoring_model(checkpoints[kind], data)
    reference, _ = model_of(checkpoints[kind], data)
    stream, end = toy.stream_of(dictionary, toy.make_lines(30, 9, step=5)), dictionary.eos()
    cut = windows(len(stream), 24, 10)
    before = [weight.clone() for weight in model.decoder.parameters()]
    found = scorer_of(model, dictionary, stream).dynamic(cut, rate=0.05, decay=0.02)
    for weight, start in zip(model.decoder.parameters(), before, strict=True):
        assert torch.equal(weight, start)
    expected = learning_reference(reference, stream, end, cut, 0.05, 0.02)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    static = scorer_of(model, dictionary, stream).static(cut, 100)
    assert np.abs(found - static).max() > 0.1, "it learned nothing"
    assert found.mean() > static.mean(), "text of another kind: learning from it must help"


def test_without_learning_it_is_static(ours):
    model, dictionary = ours
    stream = toy.stream_of(dictionary, toy.make_lines(20, 9))
    cut = windows(len(stream), 24, 10)
    scorer = scorer_of(model, dictionary, stream)
    static = scorer.static(cut, 100)
    np.testing.assert_allclose(scorer.dynamic(cut, rate=0.0, decay=0.5), static, rtol=1e-12)
    assert np.abs(scorer.dynamic(cut, rate=0.5, decay=1.0)[-10:] - static[-10:]).max() > 0


def test_later_text_changes_no_earlier_score(ours):
    model, dictionary = ours
    stream = toy.stream_of(dictionary, toy.make_lines(20, 9))
    cut = windows(len(stream), 24, 10)
    found = scorer_of(model, dictionary, stream).dynamic(cut, rate=0.05, decay=0.01)
    for changed in (20, 57, len(stream) - 1):
        other = list(stream)
        other[changed] = 4 + (other[changed] + 3) % 20
        again = scorer_of(model, dictionary, other).dynamic(cut, rate=0.05, decay=0.01)
        np.testing.assert_array_equal(again[:changed], found[:changed])
        assert again[changed] != found[changed]


def test_no_token_is_scored_after_it_was_learned(ours, monkeypatch):
    """What the learning step gets is the loss of tokens that were scored, each once, in order."""
    model, dictionary = ours
    stream = toy.stream_of(dictionary, toy.make_lines(20, 9))
    scorer, cut, events = scorer_of(model, dictionary, stream), windows(len(stream), 24, 10), []
    score, gradient = StreamScorer._score, torch.autograd.grad

    def spy_score(self, batch):
        events.append(("score", batch[0].first, batch[-1].stop))
        return score(self, batch)

    def spy_gradient(loss, *args, **kwargs):
        events.append(("learn",))
        return gradient(loss, *args, **kwargs)

    monkeypatch.setattr(StreamScorer, "_score", spy_score)
    monkeypatch.setattr(torch.autograd, "grad", spy_gradient)
    scorer.dynamic(cut, rate=0.01, decay=0.0)
    assert [event[0] for event in events] == ["score", "learn"] * len(cut)
    scored = [range(*event[1:]) for event in events if event[0] == "score"]
    assert [token for span in scored for token in span] == list(range(len(stream)))


@pytest.mark.parametrize("size", [1, 7, 24])
def test_a_state_is_carried_through_the_whole_text(size, checkpoints, data):
    """Whatever the windows, each token is predicted from all before it."""
    model, dictionary = scoring_model(checkpoints["our-lstm"], data)
    reference, _ = model_of(checkpoints["our-lstm"], data)
    stream, end = toy.stream_of(dictionary, toy.make_lines(9, 9)), dictionary.eos()
    scorer = StreamScorer(model, np.array(stream), dictionary.pad(), end, carry_state=True)
    with torch.no_grad():
        log_p = reference(torch.tensor([[end, *stream[:-1]]]))[0][0].log_softmax(-1)
    expected = log_p.gather(1, torch.tensor(stream)[:, None])[:, 0].numpy()
    cut = windows(len(stream), size, 0)
    for _ in range(2):  # it begins anew each time
        np.testing.assert_allclose(scorer.static(cut, 100), expected, rtol=1e-9)
    apart = scorer_of(model, dictionary, stream).static(cut, 100)
    assert np.abs(apart - expected).max() > 1e-3
    np.testing.assert_allclose(scorer.dynamic(cut, rate=0.0, decay=0.5), expected, rtol=1e-9)
    assert np.abs(scorer.dynamic(cut, rate=0.05, decay=0.0) - expected)[size:].max() > 1e-3


def test_a_carried_state_by_the_command(checkpoints, data, lm):
    arguments = ["--model", checkpoints["our-lstm"], "--data-bin", data]
    rows = [
        lm(*arguments, "--carry-state", "--tokens-per-sample", size)["results"][0]
        for size in (5, 32)
    ]
    assert rows[0]["bits"] == pytest.approx(rows[1]["bits"], rel=1e-5)
    apart = lm(*arguments, "--tokens-per-sample", 2)["results"][0]
    assert rows[0]["bits"] != pytest.approx(apart["bits"], rel=1e-3)


def test_a_rate_that_destroys_the_model(ours):
    model, dictionary = ours
    stream = toy.stream_of(dictionary, toy.make_lines(20, 9))
    before = [weight.clone() for weight in model.decoder.parameters()]
    with pytest.raises(ValueError, match="--dynamic-rate 1e.300: the model fell apart after 14 of"):
        scorer_of(model, dictionary, stream).dynamic(windows(len(stream), 24, 10), 1e300, 0.0)
    for weight, start in zip(model.decoder.parameters(), before, strict=True):
        assert torch.equal(weight, start)


def test_windows_cover_the_stream_once():
    for length in (1, 7, 30):
        for size, context in ((1, 0), (5, 0), (5, 4), (40, 3)):
            cut = windows(length, size, context)
            assert [t for w in cut for t in range(w.first, w.stop)] == list(range(length))
            assert all(w.stop - w.start <= size for w in cut)
            assert all(w.first - w.start == min(context, w.first) for w in cut)


def test_logits_in_chunks_are_the_same(ours, monkeypatch):
    model, dictionary = ours
    stream = toy.stream_of(dictionary, toy.make_lines(20, 9))
    cut, scorer = windows(len(stream), 24, 10), scorer_of(model, dictionary, stream)
    whole = scorer.static(cut, 1000)
    monkeypatch.setattr(scoring, "CHUNK_ELEMENTS", 3 * len(dictionary))
    np.testing.assert_allclose(scorer.static(cut, 1000), whole, rtol=1e-12)


def test_report_of_everything(data, checkpoints, lm):
    test, train = data.parent / "test", data.parent / "train"
    report = lm(
        *("--valid-data", data.parent / "valid"),
        *("--model", checkpoints["ours"], "--data-bin", data, "--text", test, "--dynamic"),
        *("--dynamic-rate", 0.2, "--dynamic-decay", 0.01, "--baselines", "--train-data", train),
        *("--figure", 7, "bits-per-word"),
    )
    assert set(report) == {*("text", "windows", "dynamic", "dynamic_gain", "results", "warnings")}
    names = [(row["name"], row["coding"]) for row in report["results"]]
    assert names == [
        *((name, "words") for name in ORDERS),
        *(("model", "tokens"), ("model, dynamic", "tokens"), ("figure", "")),
    ]
    of_baselines = {"training_perplexity", "validation_perplexity"}
    assert all(set(row) == ROW_KEYS | of_baselines for row in report["results"][:3])
    assert all(set(row) == ROW_KEYS for row in report["results"][3:])
    trigram = report["results"][2]
    assert trigram["training_perplexity"] < 0.8 * trigram["validation_perplexity"]
    assert trigram["validation_perplexity"] == pytest.approx(
        lm("--text", data.parent / "valid", "--baselines", "--train-data", train)["results"][2][
            "perplexity"
        ]
    )
    text = test.read_text()
    assert report["text"] == {
        "lines": text.count("\n"),
        "words": len(text.split()),
        "characters": len(text) - text.count("\n"),
        "bytes": len(text) - text.count("\n"),
    }
    rows = {row["name"]: row for row in report["results"][:3]}
    assert rows["uniform"]["perplexity"] == pytest.approx(len(toy.WORDS) + 2)
    assert rows["trigram"]["bits"] < rows["unigram"]["bits"] < rows["uniform"]["bits"]
    static, dynamic, figure = report["results"][-3:]
    gain = static["perplexity"] - dynamic["perplexity"]
    assert report["dynamic_gain"]["perplexity"] == pytest.approx(gain)
    assert report["dynamic"] == {"rate": 0.2, "decay": 0.01} and gain != 0
    assert figure["perplexity_per_word"] == pytest.approx(128)


def test_text_report(data, checkpoints, capsys):
    arguments = ["--model", checkpoints["ours"], "--data-bin", data, "--baselines", "--dynamic"]
    arguments += ["--train-data", data.parent / "train", "--text", data.parent / "test"]
    assert main(["lm", "--cpu", *map(str, arguments)]) == 0
    shown = capsys.readouterr()
    assert "Windows: 32 tokens, of which up to 0 are context" in shown.out
    heading = "training text    validation text    this text"
    assert shown.out.count(heading) == 1 and "n-grams overfit" in shown.out
    assert "Dynamic evaluation gains" in shown.out and "ppl/word *" in shown.out
    assert "(the convention of published figures)" in shown.out
    assert not any(line.startswith("Warning") for line in shown.out.splitlines())
    assert shown.err == "", "no progress bar where nobody watches"


def test_the_notes_example(lm):
    row = lm("--figure", 1.175, "bits-per-character", "--counts", 74000, 390000)["results"][0]
    assert row["perplexity_per_word"] == pytest.approx(2 ** (1.175 * 390000 / 74000))
    back = lm(
        "--figure", row["perplexity_per_word"], "perplexity-per-word", "--counts", 74000, 390000
    )
    assert back["results"][0]["bits_per_character"] == pytest.approx(1.175)
    certain = lm("--figure", 0, "bits-per-character", "--counts", 74000, 390000)["results"][0]
    assert certain["perplexity_per_word"] == 1


def test_unknown_tokens_are_said(letters, data, tmp_path, lm):
    text = toy.write_lines(tmp_path / "text", ["ba be", "bu zxé"])
    report = lm("--model", letters, "--text", text)
    assert report["results"][0]["unknown"] == 3
    assert any("3 of 13 tokens (23.08%) are unknown" in warning for warning in report["warnings"])
    words = lm("--baselines", "--train-data", data.parent / "train", "--text", text)
    assert [row["unknown"] for row in words["results"]] == [1, 1, 1]
    assert any("1 of 6 tokens" in warning for warning in words["warnings"])


def test_lines_that_a_coding_loses_are_said(tmp_path, lm):
    """The coding of words keeps <s> for itself, and of blanks only that there are some."""
    bundle = toy.write_bundle(tmp_path / "words", TextSettings("words"), toy.WORDS)
    text = toy.write_lines(tmp_path / "text", ["ba <s> be", " ba   be "])
    report = lm("--model", bundle, "--text", text)
    assert any("1 of 2 lines don't come back" in warning for warning in report["warnings"])
    assert report["text"]["characters"] == len("ba <s> be") + len("ba be")


SPECIAL = ["</s>", "<s>", "<pad>"]


@pytest.mark.parametrize("symbol", SPECIAL)
def test_special_symbols_in_a_text_are_words(tmp_path, lm, symbol):
    """Of the baselines: as many types, and the same figures, as with any other word."""
    reports = []
    for word in (symbol, "other"):
        lines = [f"a b {word} c d", f"{word} e", f"f {word} {word} a"]
        train = toy.write_lines(tmp_path / "train", lines * 3)
        text = toy.write_lines(tmp_path / "text", lines)
        reports.append(lm("--baselines", "--train-data", train, "--text", text)["results"])
    assert reports[0][0]["perplexity"] == pytest.approx(9)  # a-f, the word, <unk>, the line's end
    for found, expected in zip(*reports, strict=True):
        for key in ("tokens", "bits", "perplexity", "training_perplexity", "unknown"):
            assert found[key] == pytest.approx(expected[key])


@pytest.mark.parametrize("symbol", SPECIAL)
def test_special_symbols_in_a_text_are_unknown_to_a_model(data, checkpoints, lm, tmp_path, symbol):
    bundle = toy.write_bundle(tmp_path / "words", TextSettings("words"), toy.WORDS)
    found = []
    for word in (symbol, "neverseen"):
        text = toy.write_lines(tmp_path / "text", [f"ba {word} be", "ba"])
        found.append(lm("--model", bundle, "--text", text)["results"][0])
    assert found[0]["tokens"] == found[1]["tokens"] == 6
    assert found[0]["bits"] == pytest.approx(found[1]["bits"])


def test_a_text_that_says_unk_itself(data, tmp_path, lm):
    """As wikitext-2 does: <unk> is a word of the text, and nothing is lost."""
    train = toy.write_lines(tmp_path / "train", ["ba <unk> be", "<unk> ba"])
    text = toy.write_lines(tmp_path / "text", ["be <unk> ba"])
    report = lm("--baselines", "--train-data", train, "--text", text)
    assert report["results"][0]["perplexity"] == pytest.approx(4)  # ba, be, <unk>, the line's end
    assert report["results"][0]["unknown"] == 0 and report["warnings"] == []


@pytest.mark.shared_data
def test_wikitext_2_counts_as_published(lm):
    """Merity et al. (2016): 245,569 tokens of test, 33,278 types, with one <eos> a line."""
    folder = DATA / "wikitext-2"
    if not folder.is_dir():
        pytest.skip(
            f"NOT CHECKED: no {folder} (set VASWANI_DATA to a folder with wikitext-2 in it)"
        )
    report = lm(
        *("--text", folder / "test.txt.gz", "--baselines"),
        *("--train-data", folder / "train.txt.gz"),
    )
    uniform, unigram, trigram = report["results"]
    assert uniform["tokens"] == 245_569 and uniform["unknown"] == 0
    assert uniform["perplexity_per_word"] == pytest.approx(33_278)
    # The lecture notes: 20 on the text that is counted, far more on any other.
    assert trigram["training_perplexity"] == pytest.approx(20, abs=1)
    assert trigram["validation_perplexity"] is None
    assert unigram["perplexity"] < 1200 and trigram["perplexity"] < unigram["perplexity"] / 3
    assert report["text"]["bytes"] + report["text"]["lines"] == 1_256_449  # of the file


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"add_bos_token": True}, "--add-bos-token"),
        ({"loss_after": "ba", "sample_break_mode": "eos"}, "learned only what follows ba"),
    ],
)
def test_models_that_read_text_otherwise(task, message, data, checkpoints, tmp_path, capsys):
    state = torch.load(checkpoints["ours"], weights_only=True)
    state["cfg"]["task"] |= task
    torch.save(state, tmp_path / "other.pt")
    arguments = ["--model", tmp_path / "other.pt", "--data-bin", data]
    assert main(["lm", "--cpu", *map(str, arguments)]) == 1
    assert message in capsys.readouterr().err


def test_a_model_trained_on_lines_apart_is_warned_of(data, checkpoints, tmp_path, lm):
    state = torch.load(checkpoints["ours"], weights_only=True)
    state["cfg"]["task"]["sample_break_mode"] = "eos"
    torch.save(state, tmp_path / "lines.pt")
    report = lm("--model", tmp_path / "lines.pt", "--data-bin", data)
    assert any("trained on lines apart" in warning for warning in report["warnings"])


def test_scores_of_infinite_perplexity_are_json(letters, tmp_path, lm):
    text = toy.write_lines(tmp_path / "text", ["ba" * 2000])
    row = lm("--model", letters, "--text", text)["results"][0]
    assert row["bits_per_word"] > 1024 and row["perplexity_per_word"] is None


FIGURE = ("--figure", "7", "bits-per-word")
BAD = {
    "no state": (["--model", "OURS", "--data-bin", "DATA", "--carry-state"], "only vaswani_lm_l"),
    "state and context": (
        "--model OURS --data-bin DATA --carry-state --context-window 3".split(),
        "leave --context-window out",
    ),
    "state of nothing": (["--carry-state", "--text", "TEXT", *FIGURE], "--carry-state needs --mod"),
    "valid data alone": (
        ["--valid-data", "TEXT", "--text", "TEXT", *FIGURE],
        "--train-data and --valid-data go with --base",
    ),
    "nothing to do": (["--text", "TEXT"], "nothing to do: give --model"),
    "no text": (["--model", "OURS"], "no text: give --text FILE or --data-bin DIR"),
    "empty": (["--model", "LETTERS", "--text", "EMPTY"], "the text is empty"),
    "blank": (["--model", "LETTERS", "--text", "BLANK"], "the text is empty"),
    "no file": (["--model", "LETTERS", "--text", "NONE"], "No such file"),
    "no UTF-8": (["--model", "LETTERS", "--text", "LATIN"], "latin:2: invalid UTF-8"),
    "bare": (["--model", "OURS", "--text", "TEXT"], "is not a bundle: --data-bin DIR has to say"),
    "split": (["--model", "OURS", "--data-bin", "DATA", "--split", "x"], "no split 'x'; there is:"),
    "dictionary": (["--model", "LETTERS", "--data-bin", "DATA"], "another dictionary than that of"),
    "shuffled": (["--model", "OURS", "--data-bin", "SHUFFLED"], "is not the one that the checkp"),
    "short": (["--model", "OURS", "--data-bin", "SHORT"], "dictionary"),
    "foreign": (["--model", "STOCK", "--data-bin", "DATA"], "fairseq-eval-lm scores by it"),
    "no dictionary": (["--model", "OURS", "--data-bin", "FOLDER"], "has no dict.txt"),
    "translation": (["--model", "PAIRS", "--data-bin", "DATA"], "trained by --task vaswani_trans"),
    "its bundle": (
        ["--model", "TRANSLATES", "--text", "TEXT"],
        "give the bundle of a language mod",
    ),
    "no model": (["--model", "NONE", "--text", "TEXT"], "none does not exist"),
    "no bundle": (["--model", "FOLDER", "--text", "TEXT"], "is not a bundle of a language model"),
    "no checkpoint": (["--model", "TEXT", "--data-bin", "DATA"], "no checkpoint"),
    "too long": (
        ["--tokens-per-sample", "33", *"--model OURS --data-bin DATA".split()],
        "32 posit",
    ),
    "context": (
        ["--context-window", "32", *"--model OURS --data-bin DATA".split()],
        "which includ",
    ),
    "other text": (
        [*"--model OURS --data-bin DATA --text TWO".split()],
        "they must be the same te",
    ),
    "train data": (["--baselines", "--text", "TEXT", "--train-data", "NONE"], "No such file"),
    "no train data": (["--baselines", "--text", "TEXT"], "--baselines needs --train-data"),
    "split of nothing": (
        ["--text", "TEXT", "--split", "x", *FIGURE],
        "--split needs --data-bin DIR",
    ),
    "windows of nothing": (
        ["--text", "TEXT", "--tokens-per-sample", "9", *FIGURE],
        "--tokens-per-sample needs --model PATH",
    ),
    "context of nothing": (
        ["--text", "TEXT", "--context-window", "9", *FIGURE],
        "--context-window needs --model PATH",
    ),
    "batches of nothing": (
        ["--text", "TEXT", "--batch-tokens", "9", *FIGURE],
        "--batch-tokens needs --model PATH",
    ),
    "threads of nothing": (
        ["--text", "TEXT", "--threads", "2", *FIGURE],
        "--threads needs --model PATH",
    ),
    "no words": ([*"--baselines --data-bin DATA --train-data TEXT".split()], "give --text FILE as"),
    "rate": ([*"--model OURS --data-bin DATA --dynamic-rate 1".split()], "need --dynamic"),
    "decay": ([*"--model OURS --data-bin DATA --dynamic --dynamic-decay 2".split()], "all the way"),
    "unit": ([*"--figure 1 bits --counts 1 2".split()], "the unit must be one of bits-per-word"),
    "number": ([*"--figure x bits-per-word --counts 1 2".split()], "'x' is no number"),
    "no ppl": ([*"--figure 0 perplexity-per-word --counts 1 2".split()], "at least 1"),
    "no bits": ([*"--figure inf bits-per-word --counts 1 2".split()], "are a number from 0 on"),
    "negative bits": ([*"--figure -0.5 bits-per-word --counts 1 2".split()], "a number from 0 on"),
    "no bytes": ([*"--figure 1 bits-per-byte --counts 1 2".split()], "isn't known"),
}


@pytest.fixture(scope="module")
def places(data, checkpoints, letters, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty").write_text("")
    (folder / "latin").write_bytes(b"ba\n\xe9\n")
    (folder / "pairs").mkdir()
    toy_bundle.write_toy_bundle(folder / "pairs")
    rows = (data / "dict.txt").read_text().splitlines()
    for name, lines in (("shuffled", rows[::-1]), ("short", rows[:-3])):
        (folder / name).mkdir()
        for path in data.glob("test.*"):
            (folder / name / path.name).write_bytes(path.read_bytes())
        toy.write_lines(folder / name / "dict.txt", lines)
    (folder / "folder").mkdir()
    return {
        "TEXT": data.parent / "test",
        "TWO": toy.write_lines(folder / "two", ["ba", "be"]),
        "BLANK": toy.write_lines(folder / "blank", ["", " "]),
        "EMPTY": folder / "empty",
        "LATIN": folder / "latin",
        "NONE": folder / "none",
        "FOLDER": folder / "folder",
        "SHUFFLED": folder / "shuffled",
        "SHORT": folder / "short",
        "PAIRS": folder / "pairs" / "averaged.pt",
        "TRANSLATES": folder / "pairs" / "model",
        "DATA": data,
        "OURS": checkpoints["ours"],
        "STOCK": toy.write_checkpoint(data, folder / "stock.pt", *toy.STOCK, updates=1),
        "LETTERS": letters,
    }


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, places, capsys):
    arguments, message = BAD[case]
    assert main(["lm", "--cpu", *(str(places.get(a, a)) for a in arguments)]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("vaswani lm: error: ")
    assert message in shown.err and shown.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--dynamic-rate", "-1"], ["--tokens-per-sample", "0"]])
def test_numbers_out_of_range(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["lm", "--model", "x", "--text", "y", *arguments])
    assert stop.value.code == 2 and arguments[0] in capsys.readouterr().err


def test_flags_stay():
    flags = {action.option_strings[-1] for action in command_parser("lm")._actions}
    assert flags == {
        *("--help", "--model", "--text", "--data-bin", "--split", "--format"),
        *("--tokens-per-sample", "--context-window", "--batch-tokens", "--dynamic"),
        *("--dynamic-rate", "--dynamic-decay", "--baselines", "--train-data", "--figure"),
        *("--counts", "--cpu", "--threads", "--carry-state", "--valid-data"),
    }
