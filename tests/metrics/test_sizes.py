"""The sizes that decide on a model's cost are those of its configuration."""

from types import SimpleNamespace

import pytest
from fairseq_flags import model_config

from vaswani_plugin.metrics.ancestor_multiply_adds import RecurrentSizes
from vaswani_plugin.metrics.multiply_adds import OneLayerSizes, TransformerSizes
from vaswani_plugin.metrics.sizes import sizes_of, sizes_of_row
from vaswani_plugin.model.architectures import FAMILIES


def test_our_sizes_are_those_of_every_configuration() -> None:
    cfg = model_config("--task", "vaswani_translation", "--arch", "vaswani_b_dk16")
    assert sizes_of(cfg, 77) == TransformerSizes(512, 2048, 6, 6, 8, 16, 64, 77)
    cfg = model_config("--task", "vaswani_language_modeling", "--arch", "vaswani_lm_tiny")
    assert sizes_of(cfg, 77) == TransformerSizes(128, 256, 0, 4, 4, 32, 32, 77)
    lstm = ("--task", "vaswani_translation", "--d-model", "6", "--layers", "3", "--arch")
    cfg = model_config(*lstm, "vaswani_seq2seq_lstm")
    assert sizes_of(cfg, 77) == RecurrentSizes(6, 3, 77)
    cfg = model_config(*lstm, "vaswani_attention_lstm")
    assert sizes_of(cfg, 77) == RecurrentSizes(6, 3, 77, True, "dot")
    for given, counted in (("scaled-dot", "dot"), ("additive", "additive"), ("none", "none")):
        cfg = model_config(*lstm, "vaswani_attention_lstm", "--attention", given)
        assert sizes_of(cfg, 77) == RecurrentSizes(6, 3, 77, True, counted)
    cfg = model_config(*lstm, "vaswani_attention_lstm", "--input-feeding")
    assert sizes_of(cfg, 77) == RecurrentSizes(6, 3, 77, True, "dot", input_feeding=True)
    one_layer = ("--task", "vaswani_language_modeling", "--arch", "vaswani_lm_one_layer_tiny")
    for flags, projections in (([], True), (["--no-projections"], False)):
        cfg = model_config(*one_layer, *flags)
        assert sizes_of(cfg, 77) == OneLayerSizes(128, 128, 256, 77, projections)


def test_another_model_has_none() -> None:
    assert sizes_of(SimpleNamespace(encoder_embed_dim=512), 77) is None


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_a_row_has_the_sizes_of_its_configuration(family) -> None:
    for row in family.rows:
        cfg = model_config("--task", family.task, "--arch", row.name)
        assert sizes_of_row(family, row, 77) == sizes_of(cfg, 77), row.name
