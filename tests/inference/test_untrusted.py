"""What a foreign file leads to is the file's fault, and named."""

import shutil
from pathlib import Path

import pytest
from toy_bundle import write_toy_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.safetensors_file import save_safetensors
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.text.settings import MODEL, SAFETENSORS, SETTINGS

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
