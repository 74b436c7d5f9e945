"""CTranslate2 computes what our model computes: its score of each token against a forward pass."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from model_factory import SIZES, make_dictionary, make_model, make_task, random_batch
from reference_weights import shake

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.ctranslate2_export import (
    import_ctranslate2,
    transformer_spec,
    write_spec,
)
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.inference import ctranslate2_engine
from vaswani_plugin.inference.ctranslate2_engine import CTranslate2Engine

LENGTHS = [(9, 7), (4, 11), (12, 2), (2, 5)]
EOS = 2


def config(**changes) -> VaswaniTransformer.Config:
    return VaswaniTransformer.Config(**{**SIZES, **changes})


def spec_of(model, symbols: list[str], **changes):
    return transformer_spec(model.state_dict(), config(**changes), symbols, symbols)


def write(spec, folder: Path, quantization: str | None = None) -> None:
    folder.mkdir()
    write_spec(spec, folder, quantization)


def sentences(batch: dict, name: str, symbols: list[str]) -> list[list[str]]:
    """The words of a batch's rows without padding and ends of sentence."""
    return [[symbols[i] for i in row if i > EOS] for row in batch[name].tolist()]


def greatest_difference(folder: Path, model, task) -> float:
    """Between the log P of each target token by CTranslate2 and by our model."""
    translator = import_ctranslate2().Translator(str(folder), device="cpu", intra_threads=1)
    symbols = task.source_dictionary.symbols
    batch = random_batch(task, LENGTHS)
    sources = sentences(batch, "src_tokens", symbols)
    targets = sentences(batch, "prev_output_tokens", symbols)
    scored = translator.score_batch(sources, targets)
    with torch.no_grad():
        log_probabilities = model(**batch)[0].log_softmax(-1)  # (B, T, V)
    worst = 0.0
    for row, (target, score) in enumerate(zip(targets, scored, strict=True)):
        tokens = [*(symbols.index(word) for word in target), EOS]
        ours = log_probabilities[row, range(len(tokens)), tokens]
        assert ours.std() > 0.1
        worst = max(worst, float((ours - torch.tensor(score.log_probs)).abs().max()))
    return worst


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layer_norm_eps": 0.1},  # were it ignored, it would show
        {"positions": "learned", "share_embeddings": "none"},
        {"positions": "sinusoidal-fairseq", "share_embeddings": "decoder"},
        {"heads": 1},
        {"norm": "pre"},
    ],
    ids=str,
)
def test_every_model_of_ours_is_computed_alike(tmp_path, changes):
    task = make_task()
    model = shake(make_model(task, **changes))
    write(spec_of(model, task.source_dictionary.symbols, **changes), tmp_path / "m")
    assert greatest_difference(tmp_path / "m", model, task) < 1e-4


@pytest.mark.parametrize(("quantization", "bytes_a_weight"), [("int8", 1), ("float16", 2)])
def test_quantization_makes_it_smaller_and_hardly_worse(tmp_path, quantization, bytes_a_weight):
    task = make_task()
    model = make_model(task, d_ff=2048)  # nearly all of it matrices
    write(spec_of(model, task.source_dictionary.symbols, d_ff=2048), tmp_path / "m", quantization)
    size = (tmp_path / "m" / "model.bin").stat().st_size
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert bytes_a_weight * weights < size < 1.3 * bytes_a_weight * weights
    assert 0 < greatest_difference(tmp_path / "m", model, task) < 0.1


def test_an_int8_model_that_may_overflow_is_computed_in_float32(tmp_path, monkeypatch):
    """As CTranslate2's own rule writes it; ours does not overflow."""
    task = make_task()
    spec = spec_of(make_model(task), task.source_dictionary.symbols)
    spec.validate()
    spec.optimize(quantization="int8")
    (tmp_path / "m").mkdir()
    spec.save(str(tmp_path / "m"))
    monkeypatch.setattr(ctranslate2_engine, "has_vnni", lambda: False)
    write(spec_of(make_model(task), task.source_dictionary.symbols), tmp_path / "ours", "int8")
    engine = CTranslate2Engine(tmp_path / "ours", "cpu", "default", 1)
    assert engine.translator.compute_type.startswith("int8")
    with pytest.warns(UserWarning, match="no VNNI: export it again with --quantization int8"):
        engine = CTranslate2Engine(tmp_path / "m", "cpu", "default", 1)
    assert engine.translator.compute_type == "float32"
    with pytest.raises(UserError, match="without VNNI, as here, int8 of .* overflows"):
        CTranslate2Engine(tmp_path / "m", "cpu", "int8", 1)
    monkeypatch.setattr(ctranslate2_engine, "has_vnni", lambda: True)
    engine = CTranslate2Engine(tmp_path / "m", "cpu", "default", 1)
    assert engine.translator.compute_type.startswith("int8")


def test_int8_weights_fit_sums_of_two_products_in_16_bits(tmp_path):
    """The products of two neighbouring weights with any inputs from 0 to 255, by enumeration."""
    task = make_task()
    spec = spec_of(shake(make_model(task)), task.source_dictionary.symbols)
    write(spec, tmp_path / "m", "int8")
    matrices = [v.numpy() for v in spec.variables().values() if not isinstance(v, str)]
    matrices = [m.astype(int) for m in matrices if m.ndim == 2 and m.dtype == "int8"]
    assert len(matrices) > 10
    for weights in matrices:
        left, right = weights[:, :-1], weights[:, 1:]
        for a, b in itertools.product((0, 255), repeat=2):
            assert np.abs(a * left + b * right + 0.5).max() <= 2**15
        assert weights.max() > 60


def test_different_dictionaries_keep_their_sides(tmp_path):
    source, target = make_dictionary(5, "s"), make_dictionary(7, "t")
    task = type("Task", (), {"source_dictionary": source, "target_dictionary": target})
    weights = make_model(task, share_embeddings="decoder").state_dict()
    shared = config(share_embeddings="decoder")
    write(transformer_spec(weights, shared, source.symbols, target.symbols), tmp_path / "m")
    for side, dictionary in (("source", source), ("target", target)):
        vocabulary = json.loads((tmp_path / "m" / f"{side}_vocabulary.json").read_text())
        assert vocabulary == ["<blank>" if s == "<pad>" else s for s in dictionary.symbols]


def test_mkl_is_taken_where_there_is_avx2_without_vnni_unless_the_user_says_so(monkeypatch):
    monkeypatch.setenv("CT2_USE_MKL", "0")
    import_ctranslate2()
    assert os.environ["CT2_USE_MKL"] == "0"
    monkeypatch.delenv("CT2_USE_MKL")
    for name, has_vnni, expected in (
        ("avx2", True, None),
        ("sse4", False, None),
        ("avx2", False, "1"),
    ):
        monkeypatch.setattr(ctranslate2_engine, "instructions", lambda name=name: {name})
        monkeypatch.setattr(ctranslate2_engine, "has_vnni", lambda has_vnni=has_vnni: has_vnni)
        import_ctranslate2()
        assert os.environ.get("CT2_USE_MKL") == expected
