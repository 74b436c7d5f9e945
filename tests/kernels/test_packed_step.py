"""Packed beams are the full forward pass, and follow every change of a model, or step aside."""

import copy

import numpy as np
import pytest
import search_setup
import torch
from beams import EXACT, exact_model, packed, walk
from language_models import make_language_model, padded, random_texts
from model_factory import make_model, make_task, random_batch
from reference_weights import shake
from torch import nn

from vaswani_plugin.kernels import packed_layers, slots
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS, has_onednn
from vaswani_plugin.kernels.packed import Packing
from vaswani_plugin.kernels.packed_layers import FoldedMemory, PackedLinear, SourceMemory
from vaswani_plugin.modules import attention, transformer
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, FeedForward

LENGTHS = [(9, 10), (4, 10), (12, 10)]
SYMBOLS = 30
SOURCES = [[7, 9, 12, 5], [8, 11], [20, 21, 22, 23, 24, 25]]


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.mark.parametrize("sizes", [{}, {"d_k": 5, "d_v": 9}], ids=str)
@pytest.mark.parametrize(("length", "memory"), [(9, FoldedMemory), (30, SourceMemory)])
def test_one_sentence_alone(task, sizes, length, memory):
    """It is folded into the weights, unless it is so long that this would cost more."""
    model = exact_model(task, **sizes)
    batch = random_batch(task, [(length, 1)])
    beams = packed(model, model.encoder(batch["src_tokens"], known_lengths=np.array([length])))
    beams.step(torch.full((1, 1), 2), None)
    assert all(isinstance(entry.read, memory) for _, entry in beams.cache.layers)
    for actual, expected in walk(model, batch, 12, [4], {5: [0]}, start=packed):
        torch.testing.assert_close(actual, expected, **EXACT)


@torch.no_grad()
def test_texts_are_the_full_model(task, monkeypatch):
    """Prompts of several lengths, beams that multiply, change places, die; texts that leave."""
    model = make_language_model(task)
    monkeypatch.setattr(slots, "ROOM", 1)
    dictionary = task.source_dictionary
    generator = torch.Generator().manual_seed(5)
    texts = random_texts(dictionary, [5, 1, 8, 3])
    prompts = padded(texts, dictionary.pad())
    lengths = torch.tensor([len(text) for text in texts])
    beams = Packing().of(model.decoder, final=True).go_on(prompts, lengths, 3)
    histories = [[text] for text in texts]
    beams.step(torch.zeros(4, 1, dtype=torch.long), None)
    for step in range(9):
        logits = beams.logits(slice(0, len(histories)))
        for text, of_text in zip(histories, logits, strict=True):
            for history, found in zip(text, of_text, strict=True):
                torch.testing.assert_close(found, model(torch.tensor([history]))[0][0, -1], **EXACT)
        if step == 4:
            stay = [3, 1]
            beams.keep(torch.tensor(stay))
            histories = [histories[row] for row in stay]
        parents = torch.randint(0, len(histories[0]), (len(histories), 3), generator=generator)
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


@torch.no_grad()
def test_slots_that_no_beam_sees_are_dropped(task):
    """However long the outputs, beams with a common past keep little more than one copy of it."""
    model = exact_model(task)
    beams = packed(model, model.encoder(random_batch(task, LENGTHS)["src_tokens"]))
    tokens = torch.full((3, 4), 5)
    first = torch.zeros(3, 4, dtype=torch.long)
    for step in range(60):
        beams.step(tokens if step else tokens[:, :1], first if step else None)
    assert beams.cache.layers[0][0].stored.size(2) < 60 + 2 * 8 * 4


@pytest.mark.parametrize("rows", [1, 24])
@pytest.mark.parametrize("sizes", [(16, 40), (600, 500)], ids=str)
@pytest.mark.parametrize(("bias", "relu"), [(True, True), (False, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("library", ["pytorch", "onednn"])
def test_packed_is_plain(rows, sizes, bias, relu, dtype, library, monkeypatch):
    calls, product = [], packed_layers.onednn_product
    monkeypatch.setattr(packed_layers, "chosen_library", lambda: library)
    monkeypatch.setattr(packed_layers, "onednn_product", lambda *x: calls.append(1) or product(*x))
    torch.manual_seed(1)
    linear = torch.nn.Linear(*sizes, bias=bias, dtype=dtype)
    x = torch.randn(rows, sizes[0], dtype=dtype)
    with torch.no_grad():
        ours = PackedLinear(linear.weight, linear.bias, relu)
        expected = x.double() @ linear.weight.double().T
        expected += linear.bias.double() if bias else 0
        expected = expected.clamp(min=0) if relu else expected
        torch.testing.assert_close(ours(x).double(), expected, atol=1e-5, rtol=1e-5)
    has, is_large = dtype == torch.float32 and has_onednn(), sizes == (600, 500)
    assert (ours.least == 0) == (has and is_large)
    assert bool(calls) == (has and (is_large or (rows >= LEAST_ROWS and library == "onednn")))


@pytest.fixture
def model():
    return search_setup.make_peaked_model(SYMBOLS)


@pytest.fixture
def generator(model):
    task = search_setup.make_translation_task(SYMBOLS)
    return search_setup.make_generator(task, [model], max_len_b=6)


def translate(generator):
    found = generator.generate(generator.models, search_setup.make_sample(SOURCES))
    return [search_setup.outputs_of(hypotheses) for hypotheses in found]


def fresh_translation(model):
    """By a generator that has seen no other weights."""
    task = search_setup.make_translation_task(SYMBOLS)
    return translate(search_setup.make_generator(task, [model], max_len_b=6))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [tokens for tokens, _ in one] == [tokens for tokens, _ in other]
        for (_, score), (_, same) in zip(one, other, strict=True):
            assert score == pytest.approx(same, abs=1e-4)


def packed_of(generator):
    return generator.models[0]._packing._kept[2]


def test_final_weights_that_stay_are_packed_once(generator, model):
    translate(generator)
    before = packed_of(generator)
    translate(generator)
    assert packed_of(generator) is not before is not None
    assert type(before.decoder.projection.project) is PackedLinear  # one module with the embedding
    model.make_generation_fast_()
    translate(generator)
    kept = packed_of(generator)
    translate(generator)
    assert packed_of(generator) is kept


def load_other_weights(model):
    model.load_state_dict(search_setup.make_peaked_model(SYMBOLS, seed=9).state_dict())


def write_through_data(model):
    """As fairseq's own Adam does, which no version counts."""
    model.decoder.layers[0].self_attention.value.weight.data.mul_(3)


def replace_a_parameter(model):
    layer = model.decoder.layers[1].feed_forward.w_2
    layer.weight = nn.Parameter(-layer.weight.detach())


def load_final_weights_anew(model):
    model.make_generation_fast_()
    load_other_weights(model)


@pytest.mark.parametrize(
    "change",
    [
        *(load_other_weights, write_through_data, replace_a_parameter),
        *(load_final_weights_anew, torch.nn.Module.bfloat16),
    ],
)
def test_changed_weights_are_packed_anew(generator, model, change):
    before = translate(generator)
    change(model)
    after = translate(generator)
    assert_same(after, fresh_translation(copy.deepcopy(model)))
    assert after != before


def test_forward_hooks_are_called(generator, model):
    plain = translate(generator)
    calls = []
    hook = model.decoder.layers[1].register_forward_hook(lambda *_: calls.append(1))
    assert_same(translate(generator), plain)
    assert calls
    hook.remove()
    model.decoder.layers[1].feed_forward.register_forward_hook(lambda module, x, y: -y)
    assert translate(generator) != plain


def assert_is_the_forward_pass(model, found):
    """The search's scores are those of the model's own `forward`."""
    for source, outputs in zip(SOURCES, found, strict=True):
        log_p = search_setup.as_function([model], source)
        (tokens, score) = outputs[0]
        own = sum(log_p(tokens[:n])[token] for n, token in enumerate(tokens))
        assert score == pytest.approx(own / ((5 + len(tokens)) / 6) ** 0.6, abs=1e-4)


class Gelu(FeedForward):
    def forward(self, x):
        return self.w_2(nn.functional.gelu(self.w_1(x)))


def test_what_computes_anything_else_stays_as_it_is_written(generator, model, caplog):
    """An attribute that changes nothing keeps the kernel; another function does not."""
    plain = translate(generator)
    layer = model.decoder.layers[0]
    layer.feed_forward.activation = "relu"
    assert_same(translate(generator), plain)
    assert not caplog.records
    other = Gelu(*layer.feed_forward.w_1.weight.shape[::-1])
    other.load_state_dict(layer.feed_forward.state_dict())
    layer.feed_forward = other
    changed = translate(generator)
    assert changed != plain
    assert "FeedForward, Gelu does not compute what" in caplog.text
    assert_is_the_forward_pass(model, changed)
    methods = {"output_layer": lambda own, x: 0.25 * own.project(x)}
    model.decoder.__class__ = type("Colder", (type(model.decoder),), methods)
    assert_is_the_forward_pass(model, translate(generator))


def only_the_latest_five(queries, keys, window=0, device=None):
    return attention_causal_mask(queries, keys, 5, device)


def two_residuals(layer, x, memory, self_mask, memory_mask, is_causal, caches, **needed):
    y, _ = layer.self_attention(x, mask=self_mask, is_causal=is_causal, cache=caches[0])
    need_weights = needed["need_cross_weights"]
    options = {"mask": memory_mask, "cache": caches[1], "need_weights": need_weights}
    z, weights = layer.cross_attention(x, memory, **options)
    x = layer.cross_attention_norm(layer.self_attention_norm(x, y), z)
    return layer.feed_forward_norm(x, layer.feed_forward(x)), None, weights


attention_causal_mask = attention.causal_mask
EDITS = {
    "no LayerNorm": (AddNorm, "forward", lambda norm, x, y: x + y),
    "pre-norm's input": (AddNorm, "before", lambda norm, x: norm.norm(x)),
    "a window": (attention, "causal_mask", only_the_latest_five),
    "positions from 1": (transformer, "position_ids", lambda *given: POSITION_IDS(*given) + 1),
    "no sqrt(d)": (Embedding, "forward", lambda own, y: nn.functional.embedding(y, own.weight)),
    "relu6": (FeedForward, "forward", lambda own, x: own.w_2(nn.functional.relu6(own.w_1(x)))),
    "a clamped sum": (AddNorm, "forward", lambda norm, x, y: norm.norm((x + y).clamp(-8, 8))),
    "clamped logits": (Embedding, "project", lambda own, x: (x @ own.weight.T).clamp(max=8)),
    "capped scores": (attention, "masked_softmax", lambda s, *m: SOFTMAX(s.clamp(max=5), *m)),
    "another composition": (DecoderLayer, "forward", two_residuals),
}
SOFTMAX, POSITION_IDS = attention.masked_softmax, transformer.position_ids


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_of_the_modules_reaches_the_search(model, edit, monkeypatch):
    state = model.state_dict()
    state["decoder.layers.0.feed_forward.w_1.weight"] *= 9
    plain = fresh_translation(model)
    monkeypatch.setattr(*edit)
    model = search_setup.make_peaked_model(SYMBOLS)
    model.load_state_dict(state)
    found = fresh_translation(model)
    assert found != plain
    assert_is_the_forward_pass(model, found)
