"""The onnxruntime engine finds what our own engine finds, with every option of the search."""

import random
import shutil
import sys
from importlib.util import find_spec

import pytest
import torch
from toy_bundle import SENTENCES, write_toy_bundle

from vaswani_plugin.export.onnx_export import export_to_onnx
from vaswani_plugin.inference.translator import Translator

if find_spec("onnx") is None or find_spec("onnxruntime") is None:
    pytest.skip("NOT TESTED: no onnx or onnxruntime here", allow_module_level=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A bundle and its export."""
    folder = write_toy_bundle(tmp_path_factory.mktemp("bundle"))
    exported = tmp_path_factory.mktemp("onnx") / "model"
    export_to_onnx(folder, exported)
    return folder, exported


def sentences(count, seed=1):
    rng = random.Random(seed)
    words = sorted({word for line in SENTENCES for word in line.split()})
    return [" ".join(rng.choices(words, k=rng.randint(1, 4))) for _ in range(count)]


@pytest.fixture(scope="module")
def engines(folders):
    """Our own engine and onnxruntime's, as translators."""
    return [Translator.from_pretrained(folder, threads=1) for folder in folders]


def same(ours, theirs):
    """Whether all hypotheses are the same, with their scores."""
    assert len(ours.hypotheses) == len(theirs.hypotheses)
    equal = True
    for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
        equal &= one.tokens == other.tokens and one.alignment == other.alignment
        if one.tokens == other.tokens:
            assert other.score == pytest.approx(one.score, abs=1e-4)
            assert other.token_scores == pytest.approx(one.token_scores, abs=1e-4)
    return equal


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 4, "nbest": 4, "align": True},
        {"beam": 3, "no_repeat_ngram": 2, "batch_tokens": 200},
        {"sampling": True, "nbest": 3, "seed": 7, "top_k": 10},
    ],
    ids=str,
)
def test_the_search_finds_the_same(engines, options):
    lines = ["", *sentences(60)]
    ours, theirs = (engine.translate(lines, **options) for engine in engines)
    assert len({len(found.tokens) for found in ours}) > 4
    results = [same(one, other) for one, other in zip(ours, theirs, strict=True)]
    assert sum(results) >= len(results) - 1, "but for a tie"


def test_scores_and_limits(engines):
    ours, theirs = engines
    assert theirs.longest_source == ours.longest_source
    assert theirs.longest_target == ours.longest_target
    lines = [line for line in sentences(30, seed=3) if ours.count_tokens(line) < 20]
    pairs = list(zip(lines, [*lines[1:], ""], strict=True))
    expected, found = ours.score(pairs), theirs.score(pairs)
    for one, other in zip(expected, found, strict=True):
        assert other.token_scores == pytest.approx(one.token_scores, abs=1e-4)


def test_attention_and_other_devices_need_the_bundle(folders, engines):
    with pytest.raises(ValueError, match="use the bundle it was made of"):
        engines[1].attention("the cat")
    for given in ({"device": "cuda"}, {"dtype": torch.bfloat16}):
        with pytest.raises(ValueError, match="onnxruntime computes on the CPU"):
            Translator.from_pretrained(folders[1], **given)


def test_the_package_is_missing(folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="onnxruntime is not installed"):
        Translator.from_pretrained(folders[1])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("decoder_with_past_model.onnx", None, "holds no decoder_with_past_model.onnx: make"),
        ("config.json", None, "holds no model for onnx: make one"),
        ("config.json", b'{"vaswani": null}', "no export for onnx"),
        ("decoder_model.onnx", b"\x08", "decoder_model.onnx: onnxruntime can't load it"),
        ("decoder_model.onnx", ..., "decoder_model.onnx has no cross_attentions.1: make one"),
        ("dict.de.txt", b"one 1\n", "tokens and the target dictionary"),
    ],
)
def test_a_bad_folder_is_named(folders, tmp_path, name, content, message):
    folder = shutil.copytree(folders[1], tmp_path / "onnx")
    if content is None:
        (folder / name).unlink()
    else:
        other = (folder / "encoder_model.onnx").read_bytes() if content is ... else content
        (folder / name).write_bytes(other)
    with pytest.raises(ValueError, match=message) as caught:
        Translator.from_pretrained(folder).translate("a")
    assert "\n" not in str(caught.value)
