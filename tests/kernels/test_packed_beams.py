"""Packed beams beyond tests/search/test_beams.py: one sentence, texts, float32, room, one map."""

import numpy as np
import pytest
import torch
from beams import EXACT, exact_model, packed, walk
from language_models import make_language_model, padded, random_texts
from model_factory import make_model, make_task, random_batch
from reference_weights import shake

from vaswani_plugin.kernels import packed_layers, packed_step
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS, has_onednn
from vaswani_plugin.kernels.packed_layers import FoldedMemory, PackedLinear, SourceMemory
from vaswani_plugin.kernels.packed_step import Packed

LENGTHS = [(9, 10), (4, 10), (12, 10)]


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.mark.parametrize("sizes", [{}, {"d_k": 5, "d_v": 9}], ids=str)
@pytest.mark.parametrize(("length", "memory"), [(9, FoldedMemory), (30, SourceMemory)])
def test_one_sentence_alone(task, sizes, length, memory):
    """It is folded into the weights, unless it is so long that this would cost more."""
    model = exact_model(task, **sizes)
    batch = random_batch(task, [(length, 1)])
    encoded = model.encoder(batch["src_tokens"], known_lengths=np.array([length]))
    beams = packed(model, encoded)
    assert all(isinstance(m, memory) for m in beams.memories)
    for actual, expected in walk(model, batch, 12, [4], {5: [0]}, start=packed):
        torch.testing.assert_close(actual, expected, **EXACT)


@torch.no_grad()
def test_texts_are_the_full_model(task, monkeypatch):
    """Prompts of several lengths, beams that multiply, change places, die; texts that leave."""
    model = make_language_model(task)
    monkeypatch.setattr(packed_step, "ROOM", 1)
    dictionary = task.source_dictionary
    generator = torch.Generator().manual_seed(5)
    texts = random_texts(dictionary, [5, 1, 8, 3])
    prompts = padded(texts, dictionary.pad())
    lengths = torch.tensor([len(text) for text in texts])
    beams = Packed(model.decoder).go_on(prompts, lengths, 3)
    histories = [[text] for text in texts]
    beams.step(torch.zeros(4, 1, dtype=torch.long), None)
    for step in range(9):
        logits = beams.logits(slice(0, len(histories)))
        for text, of_text in zip(histories, logits, strict=True):
            for history, found in zip(text, of_text, strict=True):
                expected = model(torch.tensor([history]))[0][0, -1]
                torch.testing.assert_close(found, expected, **EXACT)
        if step == 4:
            stay = [3, 1]
            beams.keep(torch.tensor(stay))
            histories = [histories[row] for row in stay]
        width = len(histories[0])
        parents = torch.randint(0, width, (len(histories), 3), generator=generator)
        words = torch.randint(4, len(dictionary), (len(histories), 3), generator=generator)
        beams.step(words, parents)
        histories = [
            [[*text[p], w] for p, w in zip(ps, ws, strict=True)]
            for text, ps, ws in zip(histories, parents.tolist(), words.tolist(), strict=True)
        ]


def test_beams_in_single_precision(task):
    """Other kernels than those of float64; 40 beams reach the ones for many rows."""
    model = shake(make_model(task), size=0.1).eval()
    batch = random_batch(task, LENGTHS)
    for actual, expected in walk(model, batch, 12, [40], {5: [2, 0]}, start=packed):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_slots_that_no_beam_sees_are_dropped(task):
    """However long the outputs, beams with a common past keep little more than one copy of it."""
    model = exact_model(task)
    batch = random_batch(task, LENGTHS)
    beams = packed(model, model.encoder(batch["src_tokens"]))
    tokens = torch.full((3, 4), 5)
    first = torch.zeros(3, 4, dtype=torch.long)
    for step in range(60):
        beams.step(tokens if step else tokens[:, :1], first if step else None)
    assert beams.past.caches[0].size(2) < 60 + 2 * 8 * 4


@pytest.mark.parametrize("rows", [1, 24])
@pytest.mark.parametrize("sizes", [(16, 40), (600, 500)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("library", ["pytorch", "onednn"])
def test_packed_is_plain(rows, sizes, bias, relu, dtype, library, monkeypatch):
    calls, product = [], packed_layers.onednn_product
    monkeypatch.setattr(packed_layers, "chosen_library", lambda: library)
    monkeypatch.setattr(
        packed_layers, "onednn_product", lambda *given: calls.append(1) or product(*given)
    )
    torch.manual_seed(1)
    linear = torch.nn.Linear(*sizes, bias=bias, dtype=dtype)
    x = torch.randn(rows, sizes[0], dtype=dtype)
    with torch.no_grad():
        packed = PackedLinear(linear.weight, linear.bias, relu)
        expected = x.double() @ linear.weight.double().T
        expected += linear.bias.double() if bias else 0
        expected = expected.clamp(min=0) if relu else expected
        torch.testing.assert_close(packed(x).double(), expected, atol=1e-5, rtol=1e-5)
    has, is_large = dtype == torch.float32 and has_onednn(), sizes == (600, 500)
    assert packed.packed == (has and is_large)
    assert bool(calls) == (has and (is_large or (rows >= LEAST_ROWS and library == "onednn")))
