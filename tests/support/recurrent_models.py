"""Small recurrent models for tests, and their weights in the NumPy reference's layout."""

from types import SimpleNamespace

import numpy as np
import torch
from model_factory import make_task
from omegaconf import OmegaConf
from reference_weights import default_dtype, numbers, shake
from torch import nn

from vaswani_plugin.ancestors.fairseq_adapters import (
    AttentionLSTMConfig,
    Seq2SeqLSTMConfig,
    VaswaniAttentionLSTM,
    VaswaniSeq2SeqLSTM,
)

SIZES = {"d_model": 12, "layers": 2, "share_embeddings": "all"}
SIZES |= dict.fromkeys(("max_source_positions", "max_target_positions"), 64)
KINDS = {
    "seq2seq": (VaswaniSeq2SeqLSTM, Seq2SeqLSTMConfig, {}),
    "forwards": (VaswaniSeq2SeqLSTM, Seq2SeqLSTMConfig, {"no_reverse_source": True}),
    "attention": (VaswaniAttentionLSTM, AttentionLSTMConfig, {}),
    "input feeding": (VaswaniAttentionLSTM, AttentionLSTMConfig, {"input_feeding": True}),
    "scaled-dot": (VaswaniAttentionLSTM, AttentionLSTMConfig, {"attention": "scaled-dot"}),
    "additive": (VaswaniAttentionLSTM, AttentionLSTMConfig, {"attention": "additive"}),
    "mean": (VaswaniAttentionLSTM, AttentionLSTMConfig, {"attention": "mean"}),
    "both ways": (VaswaniAttentionLSTM, AttentionLSTMConfig, {"attention": "none"}),
}


def make_recurrent(
    kind: str, task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> nn.Module:
    """A small model in evaluation mode; `kind` is a key of `KINDS`."""
    model, config, own = KINDS[kind]
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(config(**{**SIZES, **own, **changes}))
    return model.build_model(cfg, task or make_task()).eval()


def exact_recurrent(kind: str, task: SimpleNamespace | None = None, **changes) -> nn.Module:
    """The same in float64, its weights so large that each one counts."""
    with default_dtype(torch.float64):
        return shake(make_recurrent(kind, task, **changes), size=0.5).eval()


def lstm_weights(module: nn.LSTM, suffix: str = "") -> list[dict[str, np.ndarray]]:
    """A layer after the other; with the suffix `_reverse` those of the other direction."""
    return [
        {
            "W": numbers(getattr(module, f"weight_ih_l{layer}{suffix}")),
            "U": numbers(getattr(module, f"weight_hh_l{layer}{suffix}")),
            "b": numbers(getattr(module, f"bias_ih_l{layer}{suffix}"))
            + numbers(getattr(module, f"bias_hh_l{layer}{suffix}")),
        }
        for layer in range(module.num_layers)
    ]
