"""The published tables, against a second transcription in the papers' own layout."""

from vaswani_plugin.metrics.published import SEQ2SEQ, TABLE_2, TABLE_4

# BLEU EN-DE, BLEU EN-FR, FLOPs EN-DE, FLOPs EN-FR
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
# Discriminative, on the Journal alone; semi-supervised; multi-task; generative.
IN_TABLE_4 = "88.3 90.4 90.4 91.7 91.3", "91.3 91.3 92.1 92.1 92.7", "93.0", "93.3"
# Sutskever et al.: the systems of their own; rescoring of the baseline's lists.
IN_TABLE_1 = "28.45 33.30 26.17 30.59 33.00 33.27 34.50 34.81"
IN_REST = "34.54 37.0 35.61 35.85 36.5 45.0"


def test_table_2():
    for line, row in zip(IN_TABLE_2.strip().split("\n"), TABLE_2, strict=True):
        model, *cells = (cell.strip() for cell in line.split("|"))
        assert row.model == model
        expected = [float(cell) if cell else None for cell in cells]
        assert [row.bleu_en_de, row.bleu_en_fr, row.flops_en_de, row.flops_en_fr] == expected


def test_table_4():
    kinds = ("WSJ only, discriminative", "semi-supervised", "multi-task", "generative")
    for kind, scores in zip(kinds, IN_TABLE_4, strict=True):
        expected = [float(score) for score in scores.split()]
        assert [score for _, training, score in TABLE_4 if training == kind] == expected
    ours = [row[1:] for row in TABLE_4 if row[0].startswith("Transformer")]
    assert ours == [("WSJ only, discriminative", 91.3), ("semi-supervised", 92.7)]


def test_the_tables_of_sequence_to_sequence_learning():
    expected = [float(score) for score in f"{IN_TABLE_1} {IN_REST}".split()]
    assert [score for _, score in SEQ2SEQ] == expected
