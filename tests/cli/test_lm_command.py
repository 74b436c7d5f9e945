"""`vaswani lm`: beside fairseq-eval-lm and hand computations; dynamic evaluation; bad input."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_language_model as toy
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm
from fairseq_flags import PLUGIN

from tests.conftest import ancestors
from tests.support.commands import vaswani
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.language_model_scores import windows
from vaswani_plugin.model.families import ELSEWHERE
from vaswani_plugin.text.settings import TextSettings

KINDS = {"ours": toy.OURS, **({"our-lstm": toy.OUR_LSTM} if ELSEWHERE else {})}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return toy.write_data(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="module")
def checkpoints(data) -> dict[str, Path]:
    updates = {"ours": 60, "our-lstm": 250}
    return {
        name: toy.write_checkpoint(data, data / f"{name}.pt", *flags, updates=updates[name])
        for name, flags in KINDS.items()
    }


@pytest.fixture(scope="module")
def bundles(checkpoints, data) -> dict[str, Path]:
    return {name: toy.bundle_of(path, data) for name, path in checkpoints.items()}


@pytest.fixture(scope="module")
def letters(tmp_path_factory) -> Path:
    """A bundle that reads characters."""
    units = sorted({letter for word in toy.WORDS for letter in word})
    folder = tmp_path_factory.mktemp("letters") / "model"
    return toy.write_bundle(folder, TextSettings("characters"), ["\u2581", *units])


@pytest.fixture
def lm():
    """``lm("--model", …)`` gives the JSON object of the command."""

    def run(*args: object, stdin: bytes = b"") -> dict:
        return json.loads(vaswani("lm", "--cpu", "--format", "json", *args, stdin=stdin).out)

    return run


@pytest.mark.parametrize(
    ("kind", "size", "context"),
    [("ours", 32, 0), ("ours", 20, 19), pytest.param("our-lstm", 20, 12, marks=ancestors)],
)
def test_equals_fairseq_eval_lm(kind, size, context, data, checkpoints, bundles, lm):
    windows_flags = ["--tokens-per-sample", str(size), "--context-window", str(context)]
    arguments = [str(data), "--user-dir", str(PLUGIN), "--path", str(checkpoints[kind]), "--cpu"]
    arguments += ["--gen-subset", "test", "--max-tokens", "100", "--num-workers", "0"]
    args = options.parse_args_and_arch(
        options.get_eval_lm_parser(), [*arguments, "--no-progress-bar", *windows_flags]
    )
    theirs = eval_lm.main(convert_namespace_to_omegaconf(args))
    text = data.parent / "test"
    report = lm("--model", bundles[kind], "--text", text, "--batch-tokens", 77, *windows_flags)
    row = report["results"][0]
    assert row["perplexity"] == pytest.approx(float(theirs["perplexity"]), rel=1e-5)
    assert row["bits_per_token"] == pytest.approx(float(theirs["loss"]), rel=1e-5)
    assert row["perplexity"] < 25, "the model learned nothing: a uniform one would pass"
    assert report["windows"] == {"tokens_per_sample": size, "context_window": context}


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
def test_dynamic_equals_plain_sgd_with_decay(kind, checkpoints, bundles, data):
    model = LanguageModel.from_pretrained(bundles[kind], dtype=torch.float64)
    reference, dictionary = toy.load_by_fairseq(checkpoints[kind], data)
    stream, end = toy.stream_of(dictionary, toy.make_lines(30, 9, step=5)), dictionary.eos()
    cut = windows(len(stream), 24, 10)
    before = [weight.clone() for weight in model.model.decoder.parameters()]
    scorer = model.stream_scorer(np.array(stream))
    found = scorer.dynamic(cut, rate=0.05, decay=0.02)
    expected = learning_reference(reference.double(), stream, end, cut, 0.05, 0.02)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="dynamic_rate inf: the model fell apart after"):
        scorer.dynamic(cut, np.inf, 0.0)
    for weight, start in zip(model.model.decoder.parameters(), before, strict=True):
        assert torch.equal(weight, start)
    static = scorer.static(cut, 100)
    assert np.abs(found - static).max() > 0.1, "it learned nothing"
    assert found.mean() > static.mean(), "text of another kind: learning from it must help"


def test_report_of_everything(data, bundles, lm):
    test, train = data.parent / "test", data.parent / "train"
    report = lm(
        *("--valid-data", data.parent / "valid"),
        *("--model", bundles["ours"], "--text", test, "--dynamic"),
        *("--dynamic-rate", 0.2, "--dynamic-decay", 0.01, "--baselines", "--train-data", train),
        *("--figure", 7, "bits-per-word"),
    )
    names = [row["name"] for row in report["results"]]
    assert names == ["uniform", "unigram", "trigram", "model", "model, dynamic", "figure"]
    trigram = report["results"][2]
    assert trigram["training_perplexity"] < 0.8 * trigram["validation_perplexity"]
    assert report["text"]["words"] == len(test.read_text().split())
    assert report["results"][0]["perplexity"] == pytest.approx(len(toy.WORDS) + 2)
    static, dynamic, figure = report["results"][-3:]
    gain = static["perplexity"] - dynamic["perplexity"]
    assert report["dynamic_gain"]["perplexity"] == pytest.approx(gain)
    assert report["dynamic"] == {"rate": 0.2, "decay": 0.01} and gain != 0
    assert figure["perplexity_per_word"] == pytest.approx(128)


def test_unknown_tokens_are_said_and_an_infinite_perplexity_is_json(letters, data, tmp_path, lm):
    text = toy.write_lines(tmp_path / "text", ["ba be", "bu zxé"])
    report = lm("--model", letters, "--text", text)
    assert report["results"][0]["unknown"] == 3
    assert LanguageModel.from_pretrained(letters).perplexity(["ba be\n", "bu zx"])["tokens"] == 12
    assert any("3 of 13 tokens (23.08%) are unknown" in warning for warning in report["warnings"])
    flags = ("--train-data", *[data.parent / "train"] * 2, "--valid-data", "-", "--text", text)
    words = lm("--baselines", *flags, stdin=b"ba be\n")  # which can be read once
    assert [row["unknown"] for row in words["results"]] == [1] * 6
    text = toy.write_lines(tmp_path / "text", ["ba" * 2000])
    row = lm("--model", letters, "--text", text)["results"][0]
    assert row["bits_per_word"] > 1024 and row["perplexity_per_word"] is None


def test_special_symbols_in_a_text_are_words(tmp_path, lm):
    """Of the baselines: as many types, and the same figures, as with any other word."""
    reports = []
    for word in ("</s>", "other"):
        lines = [f"a b {word} c d", f"{word} e", f"f {word} {word} a"]
        train = toy.write_lines(tmp_path / "train", lines * 3)
        text = toy.write_lines(tmp_path / "text", lines)
        reports.append(lm("--baselines", "--train-data", train, "--text", text)["results"])
    assert reports[0][0]["perplexity"] == pytest.approx(9)  # a-f, the word, <unk>, the line's end
    for found, expected in zip(*reports, strict=True):
        for key in ("tokens", "bits", "perplexity", "training_perplexity", "unknown"):
            assert found[key] == pytest.approx(expected[key])
