"""Attention gets no mask where the host knows from the lengths that there is no padding."""

from collections import Counter

import meta
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from model_factory import make_model, make_task, random_batch
from search_setup import make_generator, make_peaked_model, make_sample, make_translation_task

from vaswani_plugin.kernels import attention, packed_layers

MASKED, CAUSAL, FREE = "masked", "causal", "free"


@pytest.fixture
def attentions(monkeypatch) -> Counter:
    """How often PyTorch's attention was called with a mask, as causal, and with neither."""
    calls: Counter = Counter()
    plain = F.scaled_dot_product_attention

    def counted(q, k, v, mask=None, dropout=0.0, is_causal=False, **options):
        calls[MASKED if mask is not None else CAUSAL if is_causal else FREE] += 1
        return plain(q, k, v, mask, dropout, is_causal, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(attention, "FEW_KEYS", 0)
    return calls


@pytest.mark.parametrize("name", ["vaswani_base", "vaswani_parser_guided", "vaswani_lm_tiny"])
@pytest.mark.parametrize("lengths", [[7, 7, 7], [7, 5, 2], None])
def test_only_padded_sources_are_masked_in_training(name, lengths, attentions):
    """The padding of targets follows their tokens, so a causal attention never sees it."""
    family, row = meta.ROWS[name]
    task = meta.make_meta_task(family)
    model = meta.make_meta_model(family, row, task, **meta.shallow(family))
    attentions.clear()  # of the kernels' proof
    meta.train_step(task, model, meta.make_meta_sample(model, known_lengths=lengths))
    decoder = len(model.decoder.layers)
    expected = {CAUSAL: decoder}
    if name != "vaswani_lm_tiny":  # a language model has no sources
        expected[FREE if lengths == [7, 7, 7] else MASKED] = len(model.encoder.layers) + decoder
    assert attentions == expected


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("lengths", [[(9, 7), (9, 3), (9, 9)], [(9, 7), (4, 3), (6, 9)]])
def test_known_lengths_change_no_loss_and_no_gradient(window, lengths):
    task = make_task()
    results = []
    for known in (False, True):
        model = make_model(task, attention_window=window).double().train()
        inputs = random_batch(task, lengths)
        sample = {"net_input": inputs, "target": inputs["prev_output_tokens"], "ntokens": 1}
        if known:
            sample["known_lengths"] = np.array([source for source, _ in lengths])
        family, _ = meta.ROWS["vaswani_debug"]
        loss, _, _ = meta.make_criterion(meta.make_meta_task(family))(model, sample)
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters())])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    assert results[0][0] > 1


@pytest.mark.parametrize("sources", [[[5, 6, 7], [8, 9, 4]], [[5, 6, 7], [8]]])
def test_the_search_masks_padded_sources_alone(sources, as_on_a_device, attentions, monkeypatch):
    """On a device, too, where a look at the padding would wait."""
    biases = []
    read = packed_layers.PackedAttention._read

    def noted(self, encoded, mask):
        biases.append(mask)
        return read(self, encoded, mask)

    model = make_peaked_model(31)
    generator = make_generator(make_translation_task(31), [model], beam=3)
    generator.generate([], make_sample(sources))  # the kernels are proven once
    attentions.clear()
    monkeypatch.setattr(packed_layers.PackedAttention, "_read", noted)
    generator.generate([], make_sample(sources))
    is_padded = len(sources[0]) != len(sources[1])
    assert len(biases) == len(model.decoder.layers)
    assert all((bias is not None) == is_padded for bias in biases)
    assert attentions == {MASKED if is_padded else FREE: len(model.encoder.layers)}
