"""`vaswani archs`: the table of architectures against the counts that the paper prints."""

import json
import re

import pytest

from tests.support.commands import vaswani

PRINTED = {  # Table 3, last column, in millions
    "vaswani_base": 65,
    "vaswani_b_dk16": 58,
    "vaswani_b_dk32": 60,
    "vaswani_c_n2": 36,
    "vaswani_c_n4": 50,
    "vaswani_c_n8": 80,
    "vaswani_c_d256": 28,
    "vaswani_c_d1024": 168,
    "vaswani_c_ff1024": 53,
    "vaswani_c_ff4096": 90,
    "vaswani_big": 213,
    "vaswani_seq2seq_lstm": 384,  # Sutskever et al. (2014), section 3.4
}


@pytest.fixture(scope="module")
def rows():
    return {row["arch"]: row for row in json.loads(vaswani("archs", "--format", "json").out)}


def test_every_printed_count_agrees_but_that_of_big(rows):
    printed = {n: r["printed_parameters"] for n, r in rows.items() if r["printed_parameters"]}
    assert printed == {name: count * 1_000_000 for name, count in PRINTED.items()}
    for name, millions in PRINTED.items():
        agrees = abs(rows[name]["difference"] / 1e6) <= 0.5
        assert rows[name]["agrees"] is agrees
        assert agrees is (name != "vaswani_big")
        if rows[name]["printed_rows"] == rows[name]["rows"]:
            assert rows[name]["parameters"] - millions * 1_000_000 == rows[name]["difference"]


def test_every_arch_that_fairseq_knows_from_the_plugin_is_listed(rows):
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY

    known = {arch for arch in ARCH_MODEL_NAME_REGISTRY if arch.startswith("vaswani")}
    assert known - set(rows) == {"vaswani_transformer", "vaswani_lm"}  # base, by another name


def test_one_architecture_has_its_values_and_flags():
    text = vaswani("archs", "vaswani_big").out
    assert "vaswani_big: +5.3M against the printed count. Unexplained" in text
    text = vaswani("archs", "vaswani_base", "--vocab", 1000).out
    assert f"{65_110_016 - 512 * (40_960 - 1000):,}" in text  # one shared matrix
    text = vaswani("archs", "vaswani_b_dk16").out
    for flag, value in (("d-k", "16"), ("d-v", "64"), ("d-model", "512"), ("dropout", "0.1")):
        assert re.search(rf"^--{flag} +{value} ", text, re.MULTILINE)
    row = json.loads(vaswani("archs", "vaswani_lm_tiny", "--format", "json").out)
    assert row["values"]["d_k"] == 32 and "encoder_layers" not in row["values"]
