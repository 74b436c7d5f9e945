"""The model card says what the bundle and the recipe's result say; an edited one is kept."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from toy_bundle import write_toy_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_safetensors
from vaswani_plugin.inference.model_card import find_result, model_card, write_card
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
    **{"recipe": "toy", "arch": "vaswani_tiny", "parameters": 1_234_567, "updates": 4_321},
    **{"tokens_per_second": 77_777, "wall_seconds": 88_888},
    "data": [{"file": "raw/train.en", "lines": 29_000}, {"file": "raw/a|b", "lines": 14}],
    "paths": {"bundle": "model"},
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


def sections(card: str) -> dict[str, str]:
    parts = card.split("\n## ")[1:]
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in parts}


def test_every_section_has_its_facts(work):
    card = card_of(work)
    assert card.startswith("---\nlanguage:\n- en\n- de\n")
    assert "license" not in card.split("---")[1]
    assert "translates from `en` to `de`" in card and "recipe `toy`" in card
    found = sections(card)
    assert list(found) == [
        *("Model", "Text", "Data", "Training", "Scores", "Use", "Limits", "Versions", "Licence"),
    ]
    assert "`vaswani_tiny` (ours, after Wu et al. 2021)" in found["Model"]
    assert "| parameters | 1,234,567 |" in found["Model"]
    assert "| d_model | 32 |" in found["Model"] and "| heads | 4 |" in found["Model"]
    symbols = len((work / "model" / "dict.en.txt").read_text().split("\n")) - 1 + 4
    assert f"| symbols of `dict.en.txt` | {symbols} |" in found["Model"]
    assert "| tokenizer | moses |" in found["Text"] and "| lowercase | True |" in found["Text"]
    assert "| raw/train.en | 29,000 |" in found["Data"] and "raw/a\\|b" in found["Data"]
    assert found["Training"].startswith("\n4,321 updates")
    assert "- 31.26 tokenized BLEU\n- 30.50 sacreBLEU\n" in found["Scores"]
    assert "`nrefs:1|case:mixed`" in found["Scores"]
    assert "vaswani translate --model MODEL < input.en > output.de" in found["Use"]
    assert 'Translator.from_pretrained("MODEL").translate("...")' in found["Use"]
    assert "at most 23 subwords" in found["Limits"]
    assert "| torch | 2.13.0+cpu |" in found["Versions"]
    assert "owner" in found["Licence"]
    without_times = card.replace(",", "")
    assert "77777" not in without_times and "88888" not in without_times


def test_the_yaml_is_read_as_it_was_meant(work):
    """`no` is Norwegian, not false."""
    settings = Settings("no", "on", False, False, "none", "none")
    text = model_card(settings, CONFIGURATION, {}, None)
    metadata = yaml.safe_load(text.split("---")[1])
    assert metadata == {
        "language": ["no", "on"],
        "pipeline_tag": "translation",
        "library_name": "vaswani_plugin",
        "tags": ["fairseq"],
    }


def test_without_a_result_it_says_so(work):
    assert write_card(work / "model")
    found = sections((work / "model" / CARD).read_text(encoding="utf-8"))
    for name in ("Data", "Scores", "Versions"):
        assert found[name].strip() == "Not recorded.", name
    assert "`vaswani_debug`" in found["Model"] and found["Training"].startswith("\n1 updates")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (TextSettings("words"), ("continues text", "vaswani complete", "LanguageModel")),
        (
            TextSettings("words", article_tokens=90, summary_tokens=30),
            ("summarizes articles", "vaswani summarize", "LanguageModel"),
        ),
        (TreeSettings("words", True, False), ("constituency trees", "vaswani parse", "Parser")),
    ],
)
def test_other_kinds_of_models(settings, words):
    card = model_card(settings, CONFIGURATION, {"dict.txt": 100}, None)
    assert all(word in card for word in words)
    assert "language:" not in card
    assert "| d_model | 128 |" in card and "next_word" not in card
    expected = "7 updates, batches of at most 2,048 tokens, padding included, of 8 batches together"
    assert f"{expected}, of 2 workers together, seed 3." in card
    alone = {"max_tokens": 2048, "update_freq": [1], "workers": 1, "seed": None}
    card = model_card(settings, CONFIGURATION | {"training": alone}, {"dict.txt": 100}, None)
    assert "7 updates, batches of at most 2,048 tokens, padding included.\n" in card


def test_scores_of_the_other_kinds():
    ppl = {"results": [{"name": "model", "perplexity_per_word": 61.24, "bits_per_character": 1.5}]}
    card = model_card(TextSettings("words"), CONFIGURATION, {}, {"ppl": ppl})
    assert "- perplexity 61.24 a word\n- 1.500 bits a character" in card
    f1 = {"all": {"bracketing_fmeasure": 80.0}, "malformed_percent": 1.25}
    card = model_card(TreeSettings("words", True, False), CONFIGURATION, {}, {"f1": f1})
    assert "- 80.00 F1" in card


def test_a_card_that_was_edited_stays(work):
    path = work / "model" / CARD
    first = card_of(work)
    assert card_of(work) == first
    edited = first.replace("Not stated", "MIT")
    path.write_text(edited, encoding="utf-8")
    assert not write_card(work / "model", work / "result.json")
    assert path.read_text(encoding="utf-8") == edited
    path.write_bytes(b"\xffmine")
    assert not write_card(work / "model")
    assert path.read_bytes() == b"\xffmine"


def test_the_command_completes_a_bundle(work, capsys):
    model = work / "model"
    for name in (SAFETENSORS, CONFIG):
        (model / name).unlink()
    assert main(["card", "--model", str(model), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"model": str(model), "written": [SAFETENSORS, CONFIG, CARD]}
    assert "| raw/train.en | 29,000 |" in (model / CARD).read_text(encoding="utf-8")
    (model / MODEL).unlink()
    (model / CARD).write_text("mine", encoding="utf-8")
    assert main(["card", "--model", str(model)]) == 0
    captured = capsys.readouterr()
    assert "README.md was edited" in captured.err and "wrote nothing" in captured.out


def test_a_result_of_another_bundle_is_not_taken(work):
    shutil.copytree(work / "model", work / "other")
    assert find_result(work / "model") == work / "result.json"
    assert find_result(work / "other") is None
