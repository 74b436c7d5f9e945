"""The warning of a translation model that has learned nothing; none of one that has."""

from statistics import fmean

import learned
import pytest
import torch
from toy_bundle import SENTENCES, write_toy_bundle

from vaswani_plugin import Translator
from vaswani_plugin.text.binary import binarize
from vaswani_plugin.text.training_log import TrainingRun

GERMAN = [f"Das {word} ist hier." for word in ("Haus", "Boot", "Kind", "Tier", "Wasser")]


@pytest.fixture
def work(tmp_path):
    """A recipe's folder: a small model of random weights, and five pairs as each of its texts."""
    write_toy_bundle(tmp_path, positions=200)
    (tmp_path / "raw").mkdir()
    for split in ("train", "valid", "test"):
        for language, lines in (("en", SENTENCES), ("de", GERMAN)):
            (tmp_path / "raw" / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "losses", "warning"),
    [
        (GERMAN, [1.0, 3.0], None),
        (GERMAN, [], None),
        (GERMAN, [2.0, 2.01], "hardly depend on their sources: the loss is 2.00 nats a subword"),
        (GERMAN[:1] * 5, [1.0, 3.0], "no better than one sentence for all"),
        ([""] * 5, [1.0, 3.0], "no better than copied sources or one sentence for all"),
    ],
)
def test_the_warning(work, monkeypatch, output, losses, warning):
    (work / "test.out").write_text("\n".join(output) + "\n")
    monkeypatch.setattr(learned, "losses", lambda *_: losses)
    result = learned.learned(work)
    assert result["losses"] == losses
    assert warning in result["warning"] if warning else result["warning"] is None


def test_a_model_that_ignores_its_sources_has_one_loss(work):
    """Whatever the encoder says; each target stands beside another pair's source."""
    pairs = list(zip(SENTENCES, GERMAN, strict=True))
    long = ("word " * 200, GERMAN[0])
    own, others = learned.losses(Translator.from_pretrained(work / "model"), [long, *pairs])
    assert own != pytest.approx(others, rel=1e-3)
    state = torch.load(work / "model" / "model.pt", weights_only=False)
    for name, weight in state["model"].items():
        if name.startswith("encoder.layers"):
            weight.zero_()
    torch.save(state, work / "model" / "model.pt")
    translator = Translator.from_pretrained(work / "model")
    own, others = learned.losses(translator, pairs)
    token_scores = [value for score in translator.score(pairs) for value in score.token_scores]
    assert own == pytest.approx(others, rel=1e-6) == pytest.approx(-fmean(token_scores))
    assert learned.losses(translator, [long, *pairs[:1]]) == []


@pytest.mark.parametrize(
    ("train", "valid", "test", "said"),
    [
        (1.0, (2.0, 2.5), "a b", ["The loss is 1.00 bits on the training text and at best 2.00"]),
        (1.9, (4.0, 3.0, 2.0, 2.1), "a b", ["Validation was still getting better: "]),
        (2.2, (2.0, 2.5), "a b a b", ["The loss is 2.20", "100% of the test sources are longer"]),
        (2.2, (2.0, 2.5), "a c", ["The loss is 2.20", "33.3% of the test sources' pieces"]),
        (2.2, (2.0, 2.5), "a <0xCE>", ["The loss is 2.20", "33.3% of the test sources' pieces"]),
    ],
)
def test_what_would_help_next(tmp_path, train, valid, test, said):
    """By the curves, by unknown pieces, and by sentences that are longer than in training."""
    curves = [{"loss": train}], [{"loss": loss} for loss in valid]
    training = TrainingRun("vaswani_tiny", 9, 40, 1.0, 1.0, 1.0, *curves)
    (tmp_path / "data-bin").mkdir()
    rows = [("a", 1), ("b", 1), ("<0xCE>", 1)]
    (tmp_path / "data-bin" / "dict.en.txt").write_text("".join(f"{w} {n}\n" for w, n in rows))
    for name, text in (("train", "a b\n" * 9), ("test", f"{test}\n")):
        (tmp_path / name).write_text(text)
        binarize(str(tmp_path / name), tmp_path / "data-bin" / f"{name}.en-pt-BR.en", rows, 1)
    found = learned.advice(tmp_path, training)
    assert [line[: len(start)] for line, start in zip(found, said, strict=True)] == said
