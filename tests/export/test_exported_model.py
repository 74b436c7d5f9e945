"""What exports refuse, and folders that are complete or not there."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from toy_bundle import write_toy_bundle
from toy_language_model import WORDS, write_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.export.exported_model import departures, new_folder
from vaswani_plugin.model import build
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.positions import SinusoidalPositions
from vaswani_plugin.text.settings import TextSettings


def test_a_link_to_an_empty_folder(tmp_path: Path) -> None:
    """The files come into the link's target, and the link stays."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    with new_folder(link) as folder:
        (folder / "file").touch()
    assert link.is_symlink() and (target / "file").is_file()
    assert sorted(tmp_path.iterdir()) == [link, target]


@pytest.mark.parametrize("name", [".", "../here"])
def test_the_current_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The shell would remain in a folder that is gone."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match="is the current folder"), new_folder(Path(name)):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    output = tmp_path / "new"
    with pytest.raises(RuntimeError), new_folder(output) as folder:
        (folder / "file").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_exports_do_not_know_is_refused():
    @dataclass(frozen=True)
    class Newer(Configuration):
        activation: str = "relu"

    assert departures(Newer()) == []
    assert departures(Newer(activation="gelu")) == ["--activation gelu"]


@pytest.mark.parametrize("name", ["max_source_positions", "max_target_positions"])
def test_more_positions_than_a_table_holds_are_refused(name):
    """2,000,000,000 in a config.json would be 23 GB in another program's file."""
    flag = "--" + name.replace("_", "-")
    assert departures(Configuration(**{name: 2_000_000_000})) == [f"{flag} 2000000000"]
    assert departures(Configuration(**{name: 2_000_000_000}, positions="learned")) == []


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("made"), share="all")


def another_model(bundle):
    state = torch.load(bundle / "model.pt")
    state["cfg"]["model"]["_name"] = "fconv"
    torch.save(state, bundle / "model.pt")


def not_a_number(bundle):
    state = torch.load(bundle / "model.pt")
    state["model"]["encoder.layers.0.feed_forward.w_1.bias"][3] = float("nan")
    torch.save(state, bundle / "model.pt")


def language_model(bundle):
    shutil.copy(bundle / "dict.en.txt", bundle / "dict.txt")
    (bundle / "preprocessing.json").write_text('{"version": 1, "coding": "words"}')


BROKEN = {
    "absent is not a bundle; make one": lambda bundle: bundle.rename(bundle.with_name("gone")),
    "holds 'fconv', which only fairseq builds": another_model,
    "model.pt: encoder.layers.0.feed_forward.w_1.bias holds NaN": not_a_number,
    "holds a language model, and a translation model is needed": language_model,
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_can_not_be_read_is_one_line_and_nothing_is_written(made, tmp_path, capsys, message):
    bundle = shutil.copytree(made, tmp_path / "absent")
    BROKEN[message](bundle)
    before = sorted(tmp_path.rglob("*"))
    flags = ["--model", str(bundle), "--output", str(tmp_path / "out")]
    assert main(["export", "--to", "ctranslate2", *flags]) == 1
    error = capsys.readouterr().err
    assert error.startswith("vaswani export: error: ") and error.count("\n") == 1, error
    assert message in error and sorted(tmp_path.rglob("*")) == before


class Squared(FeedForward):
    """Another activation, of which no option tells."""


def hooked(*sizes):
    layer = FeedForward(*sizes)
    layer.register_forward_hook(lambda module, given, out: 2 * out)
    return layer


class Later(SinusoidalPositions):
    """Other positions."""


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2", "onnx", "fairseq", "language model"])
@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("FeedForward", Squared, "feed_forward of the model is a Squared"),
        ("FeedForward", hooked, "feed_forward of the model has a hook"),
        ("SinusoidalPositions", Later, "positions of the model is a Later"),
    ],
)
def test_a_part_that_no_export_knows(made, tmp_path, capsys, monkeypatch, to, name, kind, message):
    bundle = made
    if to == "language model":
        to, bundle = "huggingface", write_bundle(tmp_path / "lm", TextSettings("words"), WORDS)
    monkeypatch.setattr(build, name, kind)
    flags = ["--model", str(bundle), "--output", str(tmp_path / "out")]
    assert main(["export", "--to", to, *flags]) == 1
    error = capsys.readouterr().err
    assert message in error, error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2", "onnx"])
def test_a_folder_that_holds_something_stays(made, tmp_path, capsys, to):
    (tmp_path / "kept").write_text("kept")
    assert main(["export", "--to", to, "--model", str(made), "--output", str(tmp_path)]) == 1
    assert "is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("to", ["fairseq", "huggingface", "ctranslate2", "onnx"])
def test_how_a_model_was_trained_is_no_part_of_it(tmp_path, to):
    training = ("--initial-weights", "normal", "--checkpoint-activations", "--compile")
    bundle = write_toy_bundle(tmp_path, model=("--arch", "vaswani_debug", *training))
    more = {"huggingface": ["--without-tokenizer"], "fairseq": ["--allow-layer-norm-eps"]}
    flags = [*more.get(to, []), "--model", str(bundle), "--output", str(tmp_path / "out")]
    assert main(["export", "--to", to, *flags]) == 0
    assert (tmp_path / "out").exists()
