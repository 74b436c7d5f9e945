"""The model card says what the bundle and the recipe's result say; an edited one is kept."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from toy_bundle import write_toy_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import save_safetensors
from vaswani_plugin.export.model_card import model_card, write_card
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.text.settings import (
    CARD,
    CONFIG,
    MODEL,
    SAFETENSORS,
    Settings,
    TextSettings,
    TreeSettings,
)

RESULT = {
    **{"recipe": "toy", "arch": "vaswani_debug", "parameters": 1_234_567, "updates": 4_321},
    **{"tokens_per_second": 77_777, "wall_seconds": 88_888},
    "data": [{"file": "raw/train.en", "lines": 29_000}, {"file": "raw/a|b", "lines": 14}],
    "bleu": {
        **{"tokenized": 31.256, "compound_split": None, "sacrebleu": 30.5},
        "signature": "nrefs:1|case:mixed",
    },
    "versions": {"torch": "2.13.0+cpu", "fairseq": None},
}
CONFIGURATION = {
    "model": {"_name": "vaswani_lm_tiny", "d_model": 128, "next_word": False},
    "updates": 7,
    "training": {"max_tokens": 2048, "update_freq": [8], "workers": 2, "seed": 3},
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    folder = write_toy_bundle(tmp_path_factory.mktemp("bundle"))
    save_safetensors(load_checkpoint(folder / MODEL), folder / SAFETENSORS)
    return folder


@pytest.fixture
def work(toy, tmp_path) -> Path:
    """A work folder with a bundle and its result."""
    shutil.copytree(toy, tmp_path / "model")
    (tmp_path / "result.json").write_text(json.dumps(RESULT), encoding="utf-8")
    return tmp_path


def card_of(work: Path) -> str:
    assert write_card(work / "model", work / "result.json")
    return (work / "model" / CARD).read_text(encoding="utf-8")


def test_every_section_has_its_facts(work):
    card = card_of(work)
    assert card.startswith("---\nlanguage:\n- en\n- de\n")
    symbols = len((work / "model" / "dict.en.txt").read_text().split("\n")) - 1 + 4
    for section, facts in {
        "Model": (
            *("`vaswani_debug`", "| parameters | 1,234,567 |", "| d_model | 32 |", "| heads | 4 |"),
            f"| symbols of `dict.en.txt` | {symbols} |",
        ),
        "Text": ("| tokenizer | moses |", "| lowercase | True |"),
        "Data": ("| raw/train.en | 29,000 |", "raw/a\\|b"),
        "Training": ("4,321 updates",),
        "Scores": ("31.26 tokenized BLEU", "30.50 sacreBLEU", "`nrefs:1|case:mixed`"),
        "Use": ("vaswani translate --model MODEL < input.en > output.de",),
        "Limits": ("at most 23 subwords",),
        "Versions": ("| torch | 2.13.0+cpu |",),
    }.items():
        text = card.split(f"\n## {section}\n")[1].split("\n## ")[0]
        assert all(fact in text for fact in facts), text
    without_times = card.replace(",", "")
    assert "77777" not in without_times and "88888" not in without_times


def test_the_yaml_is_read_as_it_was_meant(work):
    """`no` is Norwegian, not false."""
    text = model_card(Settings("no", "on", False, False, "none", "none"), CONFIGURATION, {}, None)
    assert text.count("Not recorded.") == 3  # without a result
    metadata = yaml.safe_load(text.split("---")[1])
    expected = {"language": ["no", "on"], "pipeline_tag": "translation", "tags": ["fairseq"]}
    assert metadata == expected | {"library_name": "vaswani_plugin"}


PPL = {"results": [{"name": "model", "perplexity_per_word": 61.24, "bits_per_character": 1.5}]}
F1 = {"all": {"bracketing_fmeasure": 80.0}, "malformed_percent": 1.25}


@pytest.mark.parametrize(
    ("settings", "result", "words"),
    [
        (TextSettings("words"), {"ppl": PPL}, ("vaswani complete", "61.24 a word")),
        (
            TextSettings("words", article_tokens=9, summary_tokens=3),
            None,
            ("vaswani summarize", ".summarize("),
        ),
        (TreeSettings("words", True, False), {"f1": F1}, ("vaswani parse", "Parser", "80.00 F1")),
    ],
)
def test_other_kinds_of_models(settings, result, words):
    card = model_card(settings, CONFIGURATION, {"dict.txt": 100}, result)
    assert all(word in card for word in (*words, "| d_model | 128 |"))
    assert "language:" not in card and "next_word" not in card
    expected = "7 updates, batches of at most 2,048 tokens, padding included, of 8 batches together"
    assert f"{expected}, of 2 workers together, seed 3." in card


def test_the_command_completes_a_bundle_but_keeps_an_edited_card(work, capsys):
    model = work / "model"
    for name in (SAFETENSORS, CONFIG):
        (model / name).unlink(missing_ok=True)
    result = ["--result", str(work / "result.json"), "--format", "json"]
    command = ["card", "--model", str(model), *result]
    assert main(command) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"model": str(model), "written": [SAFETENSORS, CONFIG, CARD]}
    card = (model / CARD).read_bytes()
    assert b"| raw/train.en | 29,000 |" in card
    assert main(command) == 0
    assert (model / CARD).read_bytes() == card
    for edited in (card.replace(b"Not stated", b"MIT"), b"\xffmine"):
        (model / CARD).write_bytes(edited)
        assert main(command) == 0
        assert "README.md was edited" in capsys.readouterr().err
        assert (model / CARD).read_bytes() == edited


OTHER = {"recipe": "lm", "arch": "vaswani_lm_debug"}
ANEW = RESULT | {"binarized": [{"file": "data-bin/dict.en.txt", "sha256": "0" * 64}]}
REFUSED = [*((x, "not a recipe's result") for x in ({}, [], {"model": {}}))]
REFUSED += [(OTHER, "of vaswani_lm_debug; the bundle's"), (ANEW, "of another .*dict.en.txt isn")]


@pytest.mark.parametrize(("content", "said"), REFUSED)
def test_json_of_another_kind_or_training_makes_no_card(work, content, said):
    (work / "result.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=rf"result\.json: {said}"):
        write_card(work / "model", work / "result.json")
    (work / "model" / CONFIG).write_text("{}")  # of an export
    with pytest.raises(UserError, match="of another program"):
        write_card(work / "model")
    assert not (work / "model" / CARD).exists()
