"""bundle.py for language models: the settings of the data folder go with the model."""

import shutil
from pathlib import Path

import bundle
import pytest
import torch
from toy_bundle import write_checkpoint as write_translation_checkpoint
from toy_bundle import write_data as write_translation_data
from toy_language_model import OURS, STOCK, build, write_lines

from vaswani_plugin.errors import UserError
from vaswani_plugin.text import bpe
from vaswani_plugin.text.coding import bpe_units, to_letters
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import TextSettings, read_settings

LINES = ["the old bird sat in the garden", "the garden", "an old garden"] * 3


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A data folder as code_text.py makes it, and models of random weights; not to be changed."""
    folder = tmp_path_factory.mktemp("parts")
    bpe.learn([str(write_lines(folder / "text", list(map(to_letters, LINES))))], 20, 2,
              str(folder / "codes"))  # fmt: skip
    units = bpe_units(str(folder / "codes"))
    write_lines(folder / "dict.txt", [f"{unit} 1" for unit in units])
    (folder / "preprocessing.json").write_text(TextSettings("bpe", "codes").to_json())
    for name, flags in (("ours", OURS), ("stock", STOCK)):
        state, model = build(folder, *flags)
        torch.save({**state, "model": model.state_dict()}, folder / f"{name}.pt")
    return folder


@pytest.fixture
def parts(made, tmp_path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "parts"))


@pytest.fixture
def run(parts, monkeypatch, tmp_path):
    """Runs the script; returns the error's message, None where all is well."""

    def run(*settings: str, model: str = "ours.pt", data_bin: Path = parts) -> str | None:
        where = ["--model", parts / model, "--data-bin", data_bin, "--output", tmp_path / "model"]
        monkeypatch.setattr("sys.argv", ["bundle.py", *map(str, where), *settings])
        try:
            bundle.main()
        except (UserError, OSError) as error:
            return str(error)
        return None

    return run


@pytest.mark.parametrize("model", ["ours.pt", "stock.pt"])
def test_the_folder_holds_all(parts, run, tmp_path, model):
    assert run("beam=3", model=model) is None
    output = tmp_path / "model"
    assert {path.name for path in output.iterdir()} == {
        "model.pt", "dict.txt", "codes", "preprocessing.json",
    }  # fmt: skip
    for name, source in {"model.pt": model, "dict.txt": "dict.txt", "codes": "codes"}.items():
        assert (output / name).read_bytes() == (parts / source).read_bytes()
    assert read_settings(output) == TextSettings("bpe", "codes", beam=3)
    shutil.rmtree(parts)
    pipeline = Pipeline.load(output)
    assert pipeline.decode(pipeline.encode(" na\u00efve  <sep>")) == " na\u00efve  <sep>"


def test_bad_settings_are_named_and_nothing_written(run, tmp_path):
    assert "unknown key tokenizer" in run("tokenizer=moses")
    assert "coding is words, codes " in run("coding=words")
    assert not (tmp_path / "model").exists()


def test_a_folder_without_settings(parts, run):
    (parts / "preprocessing.json").unlink()
    assert "give --pair, or a folder of code_text.py" in run()


def test_translation_and_language_models_are_told_apart(parts, run, tmp_path):
    write_translation_data(tmp_path)
    write_translation_checkpoint(tmp_path, parts / "translation.pt")
    assert "translation.pt is a translation model" in run(model="translation.pt")
    settings = {"source_language": "en", "target_language": "de", "lowercase": False}
    settings |= {"normalize_punctuation": False, "tokenizer": "none", "subwords": "none"}
    text = bundle.settings_from(settings).to_json()
    (parts / "preprocessing.json").write_text(text)
    assert "these are the settings of a translation" in run()
