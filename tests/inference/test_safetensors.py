"""model.safetensors is model.pt without the pickle: the same weights, ties and translations."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from toy_bundle import write_toy_bundle

from tests.inference.test_native_bundle import MODELS, require_same, search
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_safetensors
from vaswani_plugin.text.settings import CONFIG, MODEL, SAFETENSORS


def without_pickle(folder: Path) -> Path:
    """The bundle, its model.pt replaced."""
    save_safetensors(load_checkpoint(folder / MODEL), folder / SAFETENSORS)
    (folder / MODEL).unlink()
    return folder


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """A bundle with both files, all embeddings shared."""
    folder = write_toy_bundle(tmp_path_factory.mktemp("bundle"), share="all")
    save_safetensors(load_checkpoint(folder / MODEL), folder / SAFETENSORS)
    return folder


@pytest.fixture
def alone(toy, tmp_path) -> Path:
    """A copy of it without model.pt."""
    folder = shutil.copytree(toy, tmp_path / "model")
    (folder / MODEL).unlink()
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_same_model(name, tmp_path):
    flags, share = MODELS[name]
    folder = write_toy_bundle(tmp_path, model=flags, share=share)
    expected = Bundle.load(folder).load_transformer()
    found = Bundle.load(without_pickle(folder)).load_transformer()
    theirs, ours = expected.model.state_dict(), found.model.state_dict()
    assert list(ours) == list(theirs) and found.sizes == expected.sizes
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    require_same(search([found.model], found.target), search([expected.model], expected.target))


def test_tied_weights_are_stored_once_and_stay_tied(toy, alone):
    stored = safetensors.numpy.load_file(alone / SAFETENSORS)
    weights = torch.load(toy / MODEL)["model"]
    left_out = weights.keys() - stored.keys()
    assert left_out == {"decoder.embedding.weight", "decoder.projection.weight"}
    assert all(np.array_equal(stored[name], weights[name].numpy()) for name in stored)
    loaded = load_checkpoint(alone / SAFETENSORS)["model"]
    matrix = loaded["encoder.embedding.weight"]
    assert all(loaded[name] is matrix for name in left_out)
    model = Bundle.load(alone).load_transformer().model
    assert model.decoder.projection.weight is model.encoder.embedding.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_every_type_and_every_view_keeps_its_numbers(dtype, tmp_path):
    base = (torch.randn(6, 8) * 100).to(dtype)
    weights = {
        **{"whole": base, "again": base, "rows": base[2:4], "turned": base.t()},
        **{"empty": base[:0], "other": base.clone(), "scalar": base[0, 0]},
    }
    save_safetensors({"model": weights}, tmp_path / "x.safetensors")
    found = load_checkpoint(tmp_path / "x.safetensors")["model"]
    assert found.keys() == weights.keys() and found["again"] is found["whole"]
    for name, tensor in weights.items():
        assert found[name].dtype == dtype and torch.equal(found[name], tensor), name


def test_the_same_weights_make_the_same_file(toy, tmp_path):
    state = load_checkpoint(toy / MODEL)
    save_safetensors(state, tmp_path / SAFETENSORS)
    for name in (SAFETENSORS, CONFIG):
        assert (tmp_path / name).read_bytes() == (toy / name).read_bytes()
    assert (tmp_path / SAFETENSORS).stat().st_mode == (tmp_path / CONFIG).stat().st_mode


def test_the_configuration_names_no_place_of_the_training(toy):
    state = load_checkpoint(toy / MODEL)
    config = json.loads((toy / CONFIG).read_text(encoding="utf-8"))
    assert state["cfg"]["task"]["data"] not in (toy / CONFIG).read_text(encoding="utf-8")
    assert config["model"] == state["cfg"]["model"] and config["updates"] == 1


def test_model_pt_goes_first(toy, tmp_path):
    folder = shutil.copytree(toy, tmp_path / "model")
    (folder / SAFETENSORS).write_bytes(b"")
    Bundle.load(folder).load_transformer()
    (folder / MODEL).unlink()
    with pytest.raises(ValueError, match=re.escape(f"{folder / SAFETENSORS}: damaged")):
        Bundle.load(folder).load_transformer()


def test_a_flipped_bit_anywhere_is_seen(alone):
    path = alone / SAFETENSORS
    whole = path.read_bytes()
    for place in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=re.escape(f"{path}: damaged")):
            Bundle.load(alone).load_transformer()
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=re.escape(f"{path}: damaged")):
        Bundle.load(alone).load_transformer()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda config: config.pop("task"), "config.json: no 'task' in it"),
        (lambda config: config.update(model=[]), "config.json: no 'model' in it"),
        (lambda config: config.update(version=2), "config.json: its version is 2"),
        (lambda config: config["shared"].update(a="nowhere"), "no weights of a model"),
        (lambda config: config["shared"].update(a=[1]), "no weights of a model"),
        (lambda config: config.update(shared={}), "does not fit this model (missing key"),
        (lambda config: config["model"].update(d_model="x"), "--d-model is 'x'"),
        (
            lambda config: config["task_state"].update(dictionary_sha256={"source": "0"}),
            "the source",
        ),
        (lambda config: config["task"].update(_name="language_modeling"), "was trained by --task"),
    ],
)
def test_another_configuration_is_one_line_with_a_name(alone, change, part):
    config = json.loads((alone / CONFIG).read_text(encoding="utf-8"))
    change(config)
    (alone / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError) as caught:
        Bundle.load(alone).load_transformer()
    text = str(caught.value)
    assert part in text and str(alone) in text and "\n" not in text


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff"])
def test_broken_or_missing_configurations(alone, content):
    (alone / CONFIG).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(alone / CONFIG))):
        Bundle.load(alone).load_transformer()
    (alone / CONFIG).unlink()
    with pytest.raises(ValueError, match="config.json does not exist: the weights need it"):
        Bundle.load(alone).load_transformer()


def test_a_foreign_model_is_left_to_fairseq(alone):
    config = json.loads((alone / CONFIG).read_text(encoding="utf-8"))
    config["model"]["_name"] = "fconv"
    (alone / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ForeignModel, match="model.safetensors holds 'fconv'"):
        Bundle.load(alone).load_transformer()


def test_a_file_with_the_right_sum_that_holds_no_tensors(alone):
    (alone / SAFETENSORS).write_bytes(b"no header")
    config = json.loads((alone / CONFIG).read_text(encoding="utf-8"))
    config["sha256"] = hashlib.sha256(b"no header").hexdigest()
    (alone / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(
        ValueError, match=re.escape(f"{alone / SAFETENSORS}: no weights of a model")
    ):
        Bundle.load(alone).load_transformer()
