"""The architectures as data: the rows of Table 3, and our own.

A row lists only the values that differ from its family's base. For the Transformer that is the base
model (section 3; Table 3, first line): the defaults of `configuration.py`.
"""

from dataclasses import dataclass, field
from typing import Any

PAPER_VOCABULARY = 40_960
"""Rows of the shared embedding matrix in the authors' code. They explain the printed counts."""


@dataclass(frozen=True)
class Architecture:
    """One named architecture."""

    name: str  # value of `--arch`
    source: str  # where the row comes from
    changes: dict[str, Any] = field(default_factory=dict)  # from base, by configuration key
    printed_parameters: int | None = None  # the paper's count, in millions, where it prints one
    printed_rows: tuple[int, int] = (PAPER_VOCABULARY, PAPER_VOCABULARY)  # source, target
    remark: str = ""  # on the count


TINY = {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "d_ff": 256, "heads": 4}
DEBUG = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "d_ff": 64, "heads": 4}
BIG = {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3}
OWN = {"initial_weights": "own"}

ARCHITECTURES = (
    Architecture("vaswani_base", "Table 3, base", {}, 65),
    Architecture(
        "vaswani_big",
        "Table 3, big",
        BIG,
        213,
        remark="Unexplained: no vocabulary of the authors' code gives 213M.",
    ),
    Architecture("vaswani_big_en_fr", "section 6.1", {**BIG, "dropout": 0.1}),
    Architecture("vaswani_a_h1", "Table 3 (A)", {"heads": 1, "d_k": 512, "d_v": 512}),
    Architecture("vaswani_a_h4", "Table 3 (A)", {"heads": 4, "d_k": 128, "d_v": 128}),
    Architecture("vaswani_a_h16", "Table 3 (A)", {"heads": 16, "d_k": 32, "d_v": 32}),
    Architecture("vaswani_a_h32", "Table 3 (A)", {"heads": 32, "d_k": 16, "d_v": 16}),
    Architecture("vaswani_b_dk16", "Table 3 (B)", {"d_k": 16, "d_v": 64}, 58),
    Architecture("vaswani_b_dk32", "Table 3 (B)", {"d_k": 32, "d_v": 64}, 60),
    Architecture("vaswani_c_n2", "Table 3 (C)", {"encoder_layers": 2, "decoder_layers": 2}, 36),
    Architecture("vaswani_c_n4", "Table 3 (C)", {"encoder_layers": 4, "decoder_layers": 4}, 50),
    Architecture("vaswani_c_n8", "Table 3 (C)", {"encoder_layers": 8, "decoder_layers": 8}, 80),
    Architecture("vaswani_c_d256", "Table 3 (C)", {"d_model": 256, "d_k": 32, "d_v": 32}, 28),
    Architecture("vaswani_c_d1024", "Table 3 (C)", {"d_model": 1024, "d_k": 128, "d_v": 128}, 168),
    Architecture("vaswani_c_ff1024", "Table 3 (C)", {"d_ff": 1024}, 53),
    Architecture("vaswani_c_ff4096", "Table 3 (C)", {"d_ff": 4096}, 90),
    Architecture("vaswani_d_drop00", "Table 3 (D)", {"dropout": 0.0}),
    Architecture("vaswani_d_drop02", "Table 3 (D)", {"dropout": 0.2}),
    Architecture("vaswani_e_learned", "Table 3 (E)", {"positions": "learned"}),
    Architecture("vaswani_tiny", "ours, after Wu et al. 2021", TINY),
    Architecture("vaswani_base_prenorm", "tensor2tensor's later default", {"norm": "pre"}),
    Architecture("vaswani_tiny_prenorm", "ours, with the same", {**TINY, "norm": "pre"}),
    Architecture("vaswani_debug", "ours, for tests", DEBUG | OWN),
)

OF_PARSERS = {"share_embeddings": "decoder", **OWN}
PARSER_TINY = {**TINY, "d_model": 192, "d_ff": 512, "dropout": 0.2, **OF_PARSERS}
DEEP = {"encoder_layers": 4, "decoder_layers": 4, "d_model": 1024}
PARSERS = (
    Architecture(
        "vaswani_parser",
        "section 6.3; dropout: the authors' code",
        {**DEEP, "dropout": 0.2, "attention_dropout": 0.2, **OF_PARSERS},
    ),
    Architecture("vaswani_parser_tiny", "ours", PARSER_TINY),
    Architecture(
        "vaswani_parser_guided",
        "ours, for small treebanks: the decoder is handed the next word",
        {**PARSER_TINY, "next_word": True},
    ),
    Architecture("vaswani_parser_debug", "ours, for tests", DEBUG | OF_PARSERS),
)

LM_TINY, LM_DEBUG = (
    {key: value for key, value in row.items() if key != "encoder_layers"} for row in (TINY, DEBUG)
)
LANGUAGE_MODELS = (
    Architecture("vaswani_lm_base", "Table 3, base, without its encoder"),
    Architecture("vaswani_lm_tiny", "ours, as wide as vaswani_tiny", LM_TINY),
    Architecture("vaswani_lm_debug", "ours, for tests", LM_DEBUG | OWN),
)
