"""Table 2 as published: BLEU on newstest2014 and training FLOPs; Table 4: F1 on WSJ section 23.

Also Tables 1 and 2 of Sutskever et al. (2014), the sequence-to-sequence model.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedRow:
    """A row; None is an empty cell. BLEU is of tokens, for EN-DE with compounds split."""

    model: str
    bleu_en_de: float | None
    bleu_en_fr: float | None
    flops_en_de: float | None
    flops_en_fr: float | None
    remark: str = ""


TABLE_2 = (
    PublishedRow("ByteNet", 23.75, None, None, None),
    PublishedRow("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    PublishedRow("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    PublishedRow("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    PublishedRow("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    PublishedRow("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    PublishedRow("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    PublishedRow("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    PublishedRow("Transformer (base)", 27.3, 38.1, 3.3e18, None),
    PublishedRow(
        "Transformer (big)",
        28.4,
        41.8,
        2.3e19,
        None,
        "For EN-FR 41.0 is in print as well as 41.8.",
    ),
)
"""Vaswani et al. 2017, Table 2."""

TABLE_4 = (
    ("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    ("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    ("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    ("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    ("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    ("Zhu et al. (2013)", "semi-supervised", 91.3),
    ("Huang & Harper (2009)", "semi-supervised", 91.3),
    ("McClosky et al. (2006)", "semi-supervised", 92.1),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    ("Transformer (4 layers)", "semi-supervised", 92.7),
    ("Luong et al. (2015)", "multi-task", 93.0),
    ("Dyer et al. (2016)", "generative", 93.3),
)
"""Vaswani et al. 2017, Table 4: parser, training, F1 on section 23 of the Wall Street Journal."""

SEQ2SEQ = (
    ("Bahdanau et al.", 28.45),
    ("baseline, phrase-based", 33.30),
    ("one LSTM, source forwards, beam 12", 26.17),
    ("one LSTM, source reversed, beam 12", 30.59),
    ("five LSTMs, reversed, beam 1", 33.00),
    ("two LSTMs, reversed, beam 12", 33.27),
    ("five LSTMs, reversed, beam 2", 34.50),
    ("five LSTMs, reversed, beam 12", 34.81),
    ("Cho et al., rescoring", 34.54),
    ("best result of WMT'14", 37.0),
    ("baseline's lists rescored by one LSTM, forwards", 35.61),
    ("baseline's lists rescored by one LSTM, reversed", 35.85),
    ("baseline's lists rescored by five LSTMs, reversed", 36.5),
    ("best of each list (oracle)", 45.0),
)
"""Sutskever et al. 2014, Tables 1 and 2: tokenized BLEU on newstest2014, English-French. The lists
hold 1,000 hypotheses; the oracle's score is printed as "about 45"."""
