"""Training FLOPs: the paper's two figures, from their inputs; Table 2."""

import pytest

from vaswani_plugin.metrics.cost import TABLE_2, paper_trainings

# Table 2, transcribed a second time: BLEU EN-DE, BLEU EN-FR, FLOPs EN-DE, FLOPs EN-FR
IN_TABLE_2 = """
ByteNet                     | 23.75 |       |         |
Deep-Att + PosUnk           |       | 39.2  |         | 1.0e+20
GNMT + RL                   | 24.6  | 39.92 | 2.3e+19 | 1.4e+20
ConvS2S                     | 25.16 | 40.46 | 9.6e+18 | 1.5e+20
MoE                         | 26.03 | 40.56 | 2.0e+19 | 1.2e+20
Deep-Att + PosUnk, ensemble |       | 40.4  |         | 8.0e+20
GNMT + RL, ensemble         | 26.30 | 41.16 | 1.8e+20 | 1.1e+21
ConvS2S, ensemble           | 26.36 | 41.29 | 7.7e+19 | 1.2e+21
Transformer (base)          | 27.3  | 38.1  | 3.3e+18 |
Transformer (big)           | 28.4  | 41.8  | 2.3e+19 |
"""


def test_the_papers_figures_from_their_inputs() -> None:
    base, big = paper_trainings()
    assert base["flops"] == pytest.approx(12 * 3600 * 8 * 9.5e12)
    assert big["flops"] == pytest.approx(3.5 * 86400 * 8 * 9.5e12)
    # As printed: two digits.
    assert [f"{row['flops']:.1e}" for row in (base, big)] == ["3.3e+18", "2.3e+19"]
    rows = {row.model: row for row in TABLE_2}
    for row in (base, big):
        assert rows[row["model"]].flops_en_de == row["printed_flops"]


def test_table_2():
    for line, row in zip(IN_TABLE_2.strip().split("\n"), TABLE_2, strict=True):
        model, *cells = (cell.strip() for cell in line.split("|"))
        assert row.model == model
        expected = [float(cell) if cell else None for cell in cells]
        assert [row.bleu_en_de, row.bleu_en_fr, row.flops_en_de, row.flops_en_fr] == expected
