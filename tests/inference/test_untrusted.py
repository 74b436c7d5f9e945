"""What a foreign file leads to is the file's fault, and named."""

import contextlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from toy_bundle import write_toy_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_safetensors, untrusted
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.modules.positions import SinusoidalPositions
from vaswani_plugin.text.settings import CONFIG, MODEL, SAFETENSORS, SETTINGS

PATH = Path("folder/model.pt")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("cfg"), "folder/model.pt: can't be used (KeyError: 'cfg')"),
        (RuntimeError("a\n  b"), "folder/model.pt: can't be used (RuntimeError: a b)"),
        (ValueError("another dictionary"), "folder/model.pt: another dictionary"),
        (ValueError("folder/model.pt is bad"), "folder/model.pt is bad"),
    ],
)
def test_any_error_names_the_file_once(error, words):
    with pytest.raises(ValueError) as caught, untrusted(PATH):
        raise error
    assert str(caught.value).startswith(words)
    assert str(caught.value).count("folder/model.pt") == 1


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone", "x"), MemoryError()])
def test_the_machines_errors_stay_what_they_are(error):
    with pytest.raises(type(error)), untrusted(PATH):
        raise error


def test_a_traceback_is_there_for_whoever_asks(monkeypatch):
    monkeypatch.setenv("VASWANI_TRACEBACK", "1")
    with pytest.raises(KeyError), untrusted(PATH):
        raise KeyError("cfg")


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    folder = write_toy_bundle(tmp_path_factory.mktemp("toy"))
    save_safetensors(load_checkpoint(folder / MODEL), folder / SAFETENSORS)
    return folder


@pytest.mark.parametrize("name", [MODEL, SAFETENSORS, SETTINGS, "dict.en.txt", "codes"])
def test_a_link_in_a_bundle_is_refused_by_every_command(toy, tmp_path, name, capsys):
    """It would read, copy or overwrite a file outside of the folder."""
    folder, outside = tmp_path / "model", tmp_path / "outside"
    shutil.copytree(toy, folder)
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    before = outside.read_bytes()
    at, out = ["--model", str(folder)], ["--output", str(tmp_path / "out")]
    commands = [["card", *at], ["translate", *at]]
    for to in ("fairseq", "ctranslate2", "huggingface", "onnx", "safetensors"):
        commands.append(["export", *at, *out, "--to", to])
    for command in commands:
        assert main(command) == 1
        assert f"{folder / name} is a link" in capsys.readouterr().err
    assert outside.read_bytes() == before and not (tmp_path / "out").exists()


def peak_bytes(run) -> int:
    """The most memory that PyTorch asks for at once while `run` runs, roughly: by its profiler."""
    with torch.profiler.profile(profile_memory=True) as profile, contextlib.suppress(ValueError):
        run()
    return max((event.cpu_memory_usage for event in profile.events()), default=0)


@pytest.mark.parametrize(
    "change",
    [
        {"max_source_positions": 2_000_000_000, "max_target_positions": 2_000_000_000},
        {"d_ff": 2_000_000_000},
        {"encoder_layers": 2_000_000_000},
        {"d_model": 2_000_000_000},
        {"d_k": 2_000_000_000},
    ],
    ids=str,
)
def test_sizes_that_no_bytes_back_take_no_memory(toy, tmp_path, change):
    folder = tmp_path / "model"
    shutil.copytree(toy, folder)
    (folder / MODEL).unlink()
    config = json.loads((folder / CONFIG).read_text())
    config["model"] |= change
    (folder / CONFIG).write_text(json.dumps(config))
    assert peak_bytes(lambda: Translator.from_pretrained(folder).translate("The cat .")) < 1e8


def test_positions_beyond_the_table_are_those_of_the_formula():
    many, few = SinusoidalPositions(2_000_000_000, 8), SinusoidalPositions(100, 8)
    numbers = torch.tensor([[0, 7, 99]])
    torch.testing.assert_close(many(numbers), few(numbers))
    assert torch.isfinite(many(torch.tensor([[1_999_999_999]]))).all()


def test_a_compressed_checkpoint_is_refused_before_it_is_read(tmp_path):
    torch.save({"model": {"w": torch.zeros(10_000_000)}}, tmp_path / "stored.pt")
    with (
        zipfile.ZipFile(tmp_path / "stored.pt") as stored,
        zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for name in stored.namelist():
            small.writestr(name, stored.read(name))
    load_checkpoint(tmp_path / "stored.pt")
    with pytest.raises(ValueError, match="its parts are larger than the file"):
        load_checkpoint(tmp_path / "small.pt")
