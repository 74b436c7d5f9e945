"""Figure 1 as one module, without fairseq, equals the NumPy reference; it trains and decodes."""

import numpy as np
import paper_reference
import pytest
import torch
from reference_weights import default_dtype, layer_weights_of, numbers, shake

from vaswani_plugin.modules.attention import padding_mask
from vaswani_plugin.modules.transformer import Cache, DecoderOnly, Transformer

PAD, D, V = 1, 12, 20
EPS = 1e-6  # in LayerNorm, of the authors' code
TIGHT = {"atol": 1e-10, "rtol": 0}
pytestmark = pytest.mark.usefixtures("float64")


def make_transformer(source=V, **sizes) -> Transformer:
    sizes.setdefault("share_embeddings", source == V)
    numbers_of = {"layers": 2, "d_model": D, "d_ff": 20, "heads": 3, "max_positions": 32} | sizes
    return shake(Transformer(source, V, PAD, **numbers_of)).eval()


def reference_logits(model: Transformer, source: list[int], target: list[int]) -> np.ndarray:
    """Figure 1 in NumPy: (T, V)."""
    halves = (model.encoder, model.decoder)
    layers = [[layer_weights_of(layer) for layer in half.layers] for half in halves]
    matrix = numbers(model.decoder.projection.weight)
    return paper_reference.transformer(source, target, *layers, matrix, EPS)


def test_figure_1():
    model = make_transformer()
    source, target = [4, 9, 7, 2], [2, 8, 5]
    logits = model(torch.tensor([source]), torch.tensor([target]))
    np.testing.assert_allclose(numbers(logits[0]), reference_logits(model, source, target), **TIGHT)


@pytest.mark.parametrize("right", [False, True])
def test_padding_on_either_side_changes_nothing(right):
    model = make_transformer()
    source, target = [4, 9, 7, 2], [2, 8, 5]

    def pad(row, width):
        padding = [PAD] * (width - len(row))
        return row + padding if right else padding + row

    sources = torch.tensor([pad(source, 7), [5, 6, 7, 8, 9, 10, 2]])
    targets = torch.tensor([pad(target, 5), [2, 5, 6, 7, 8]])
    logits = model(sources, targets)
    real = slice(0, 3) if right else slice(2, 5)
    expected = reference_logits(model, source, target)
    np.testing.assert_allclose(numbers(logits[0, real]), expected, **TIGHT)
    if right:
        mask = padding_mask(sources, PAD)
        memory = model.encoder(sources).features
        promised = model.decoder(targets, memory, mask, right_padded=True).features
        found = numbers(model.decoder.project(promised[0, real]))
        np.testing.assert_allclose(found, expected, **TIGHT)


@pytest.mark.parametrize("right", [False, True])
def test_a_language_model_is_the_reference_with_padding_on_either_side(right):
    parts = make_transformer().encoder
    model = DecoderOnly(parts.embedding, parts.positions, parts.layers, 0.0).eval()
    text = [2, 8, 5]
    expected = paper_reference.embed(text, numbers(model.embedding.weight))
    for layer in model.layers:
        weights, past_only = layer_weights_of(layer), paper_reference.past_only(len(text))
        expected = paper_reference.encoder_layer(expected, weights, EPS, past_only)
    expected = expected @ numbers(model.embedding.weight).T
    row, real = (text + [PAD] * 2, slice(0, 3)) if right else ([PAD] * 2 + text, slice(2, 5))
    tokens = torch.tensor([row, [2, 5, 6, 7, 8]])
    for promise in ({}, {"right_padded": True}) if right else ({},):
        logits = model.project(model(tokens, **promise).features)
        np.testing.assert_allclose(numbers(logits[0, real]), expected, **TIGHT)


def test_incremental_steps_are_the_full_pass():
    model = make_transformer()
    source, target = torch.tensor([[4, 9, 7, 2]]), torch.tensor([[2, 8, 5, 6, 7]])
    memory = model.encoder(source).features
    full = model.decoder(target, memory).features
    cache, steps = Cache(), []
    for end in (1, 2, 4, 5):  # one position at a time, and two at once
        assert cache.length == sum(step.size(1) for step in steps)
        steps.append(model.decoder(target[:, :end], memory, cache=cache).features)
        memory = torch.full_like(memory, torch.nan)  # its keys and values are cached, too
    torch.testing.assert_close(torch.cat(steps, dim=1), full, atol=1e-12, rtol=0)


def test_a_memory_of_chosen_rows_is_that_of_their_sources():
    model, sources = make_transformer(), torch.tensor([[4, 9, 7, 2], [PAD, 5, 6, 2]])
    found = model.encode(sources).select(torch.tensor([1, 0, 1]))
    expected = model.encode(sources[[1, 0, 1]])
    torch.testing.assert_close(found.features, expected.features, **TIGHT)
    assert found.mask.equal(expected.mask)


def test_one_matrix_where_the_vocabularies_are_one():
    """Vocabularies of one size may be two."""
    model = make_transformer()
    assert model.encoder.embedding.weight is model.decoder.projection.weight
    assert sum(p.numel() for n, p in model.named_parameters() if "embedding" in n) == V * D
    other = make_transformer(source=V + 3)
    assert other.encoder.embedding.weight.shape == (V + 3, D)
    assert other.decoder.projection.weight is other.decoder.embedding.weight
    two = make_transformer(share_embeddings=False)
    assert two.encoder.embedding.weight is not two.decoder.embedding.weight
    with pytest.raises(ValueError, match="23 and 20 tokens: no one vocabulary"):
        make_transformer(source=V + 3, share_embeddings=True)


def test_base_has_the_papers_size():
    """Table 3, first line, with the authors' 40,960 rows: 65 million."""
    with default_dtype(torch.float32), torch.device("meta"):
        model = Transformer(40_960, 40_960, PAD)
    assert sum(parameter.numel() for parameter in model.parameters()) == 65_110_016


def test_weights_on_request():
    model = make_transformer(layers=3)
    source, target = torch.tensor([[4, 9, 7, 2]]), torch.tensor([[2, 8, 5]])
    encoded = model.encoder(source, need_weights=True)
    decoded = model.decoder(target, encoded.features, need_weights=True)
    assert [w.shape for w in encoded.self_weights] == [(1, 3, 4, 4)] * 3
    assert [w.shape for w in decoded.self_weights] == [(1, 3, 3, 3)] * 3
    assert [w.shape for w in decoded.cross_weights] == [(1, 3, 3, 4)] * 3
    one = model.decoder(target, encoded.features, alignment_layer=1)
    torch.testing.assert_close(one.cross_weights[0], decoded.cross_weights[1], **TIGHT)
    assert len(one.cross_weights) == 1 and not one.self_weights
    torch.testing.assert_close(one.features, decoded.features, **TIGHT)


def test_a_longer_sequence_than_the_positions_is_refused_padding_is_not():
    model = make_transformer(max_positions=4)
    fits, long = torch.tensor([[4, 9, 7, 2]]), torch.tensor([[4, 9, 7, 5, 2]])
    padded = torch.cat((fits, torch.full((1, 3), PAD)), dim=1)
    torch.testing.assert_close(model(padded, fits), model(fits, fits), **TIGHT)
    for source, target in ((long, fits), (fits, long)):
        with pytest.raises(ValueError, match="a sequence of 5 tokens; the model has 4 positions"):
            model(source, target)
    memory, cache = model.encoder(fits).features, Cache()
    for length in range(1, 5):
        model.decoder(long[:, :length], memory, cache=cache)
    with pytest.raises(ValueError, match="a sequence of 5 tokens"):
        model.decoder(long, memory, cache=cache)
