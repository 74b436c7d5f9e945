"""What exports refuse, and folders that are complete or not there."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from toy_bundle import write_toy_bundle
from toy_language_model import WORDS, write_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.errors import UserError
from vaswani_plugin.export import onnx_export
from vaswani_plugin.export.exported_model import EXPRESSED, new_folder, refuse_departures
from vaswani_plugin.model import build
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.embedding import SinusoidalPositions
from vaswani_plugin.modules.layers import FeedForward
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


def test_a_folder_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the current one the shell would remain in a folder that is gone."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("../here", ".."):
        with pytest.raises(ValueError, match="give the name of a new one"), new_folder(Path(name)):
            pass
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]


def test_options_that_exports_do_not_know_are_refused() -> None:
    """How a model was trained is no part of it."""

    @dataclass(frozen=True)
    class Newer(Configuration):
        activation: str = "relu"

    training = {"initial_weights": "normal", "checkpoint_activations": True, "compile": True}
    for program in EXPRESSED:
        refuse_departures(program, Newer(**training, d_k=64, d_v=64, layer_norm_eps=1e-3))
        with pytest.raises(UserError, match=f"{program} has no counterpart of --activation gelu"):
            refuse_departures(program, Newer(activation="gelu"))
        if "ONNX" not in program:
            with pytest.raises(UserError, match="--d-k 4, --d-v 6"):
                refuse_departures(program, Newer(d_k=4, d_v=6))
        with pytest.raises(UserError, match="--attention-window 3.*--next-word True"):
            options = {"attention_window": 3, "attention_scale": "none", "next_word": True}
            refuse_departures(program, Newer(**options))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("made"), share="all")


def test_weights_that_are_no_numbers_are_refused_and_nothing_is_written(made, tmp_path, capsys):
    bundle = shutil.copytree(made, tmp_path / "bundle")
    state = torch.load(bundle / "model.pt")
    state["model"]["encoder.layers.0.feed_forward.w_1.bias"][3] = float("nan")
    torch.save(state, bundle / "model.pt")
    before = sorted(tmp_path.rglob("*"))
    flags = ["--model", str(bundle), "--output", str(tmp_path / "out")]
    assert main(["export", "--to", "ctranslate2", *flags]) == 1
    assert "model.pt: encoder.layers.0.feed_forward.w_1.bias holds NaN" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


class Squared(FeedForward):
    """Another activation, of which no option tells."""

    def forward(self, x):
        return self.w_2(self.w_1(x).relu().square())


def hooked(*sizes):
    layer = FeedForward(*sizes)
    layer.register_forward_hook(lambda module, given, out: 2 * out)
    return layer


class Later(SinusoidalPositions):
    """Other positions."""

    def forward(self, positions):
        return super().forward(positions.clamp(max=3))


@pytest.mark.parametrize(
    ("to", "name", "kind", "message"),
    [
        ("huggingface", "FeedForward", Squared, "Hugging Face would compute another model: log P"),
        ("ctranslate2", "FeedForward", hooked, "CTranslate2 would compute another model: log P"),
        ("ctranslate2", "SinusoidalPositions", Later, "CTranslate2 would compute another model"),
        ("onnx", "FeedForward", Squared, ""),
        ("onnx", "write_graphs", None, "onnxruntime would compute another model: log P"),
        ("fairseq", "SinusoidalPositions", Later, "fairseq's transformer would compute another"),
        ("fairseq", "FeedForward", Squared, "fairseq's transformer would compute another model"),
        ("language model", "FeedForward", Squared, "Hugging Face would compute another model"),
        ("language model", "SinusoidalPositions", Later, ""),
    ],
)
def test_what_computes_something_else_is_refused(
    made, tmp_path, capsys, monkeypatch, to, name, kind, message
):
    """By its name, and nothing is left. ONNX follows the modules, as GPT's positions do."""
    bundle = made
    if to == "language model":
        to, bundle = "huggingface", write_bundle(tmp_path / "lm", TextSettings("words"), WORDS)
    if kind:
        monkeypatch.setattr(build, name, kind)
    else:

        def write_another(model, folder, write=onnx_export.write_graphs):
            model.decoder.layers[1].feed_forward.register_forward_hook(lambda *given: 2 * given[2])
            write(model, folder)

        monkeypatch.setattr(onnx_export, name, write_another)
    before = sorted(tmp_path.rglob("*"))
    flags = ["--model", str(bundle), "--output", str(tmp_path / "a" / "new" / "out")]
    flags += ["--allow-layer-norm-eps"] if to == "fairseq" else []
    assert main(["export", "--to", to, *flags]) == (1 if message else 0)
    error = capsys.readouterr().err
    assert message in error, error
    assert not message or sorted(tmp_path.rglob("*")) == before


def test_the_type_of_a_checkpoint_is_kept_and_compared_in_float32(made, tmp_path):
    """The table of the paper's sinusoids is not rounded."""
    state = torch.load(made / "model.pt")
    state["model"] = {name: tensor.bfloat16() for name, tensor in state["model"].items()}
    torch.save(state, tmp_path / "half.pt")
    flags = ["--model", str(tmp_path / "half.pt"), "--output", str(tmp_path / "stock.pt")]
    assert main(["export", "--to", "fairseq", "--allow-layer-norm-eps", *flags]) == 0
    weights = torch.load(tmp_path / "stock.pt")["model"]
    assert weights["decoder.embed_positions.weight"].dtype == torch.float32
    assert weights["decoder.embed_tokens.weight"].dtype == torch.bfloat16
