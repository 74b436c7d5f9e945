"""Training FLOPs: the paper's two figures, from their inputs."""

import math

import pytest

from vaswani_plugin.metrics.cost import DEVICES, PAPER_TRAININGS, flops_by_time
from vaswani_plugin.metrics.published import TABLE_2


def test_the_papers_figures_from_their_inputs() -> None:
    base, big = PAPER_TRAININGS
    assert base.flops == pytest.approx(12 * 3600 * 8 * 9.5e12)
    assert big.flops == pytest.approx(3.5 * 86400 * 8 * 9.5e12)
    # As printed: two digits.
    assert [f"{training.flops:.1e}" for training in PAPER_TRAININGS] == ["3.3e+18", "2.3e+19"]
    assert [training.printed_flops for training in PAPER_TRAININGS] == [3.3e18, 2.3e19]
    rows = {row.model: row for row in TABLE_2}
    for training in PAPER_TRAININGS:
        assert rows[training.model].flops_en_de == training.printed_flops


def test_devices_name_what_their_rate_is() -> None:
    sustained = {d.name: d.teraflops for d in DEVICES.values() if d.kind == "sustained"}
    assert sustained == {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
    others = [d for d in DEVICES.values() if d.kind != "sustained"]
    assert others and all(d.kind == "peak" and d.source for d in others)


@pytest.mark.parametrize("inputs", [(0, 1, 1.0), (1.0, 0, 1.0), (1.0, 1, -2.0), (math.nan, 1, 1)])
def test_numbers_that_make_no_cost(inputs: tuple) -> None:
    with pytest.raises(ValueError, match="must be a number above 0"):
        flops_by_time(*inputs)


def test_table_2_has_the_published_rows() -> None:
    assert len(TABLE_2) == 10
    gnmt = next(row for row in TABLE_2 if row.model == "GNMT + RL, ensemble")
    assert (gnmt.bleu_en_de, gnmt.bleu_en_fr) == (26.30, 41.16)
    assert (gnmt.flops_en_de, gnmt.flops_en_fr) == (1.8e20, 1.1e21)
    best = max(TABLE_2, key=lambda row: row.bleu_en_de or 0)
    assert best.model == "Transformer (big)" and best.bleu_en_de == 28.4
