"""Small recurrent models for tests, and their weights in the NumPy reference's layout."""

from types import SimpleNamespace

import numpy as np
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from model_factory import make_task
from omegaconf import OmegaConf
from reference_weights import default_dtype, numbers, shake
from torch import nn

from vaswani_plugin.model.families import ELSEWHERE

SIZES = {"d_model": 12, "layers": 2, "share_embeddings": "all"}
SIZES |= dict.fromkeys(("max_source_positions", "max_target_positions"), 64)
SEQ2SEQ, ATTENTION = "vaswani_seq2seq_lstm", "vaswani_attention_lstm"
KINDS = {"seq2seq": (SEQ2SEQ, {}), "forwards": (SEQ2SEQ, {"no_reverse_source": True})}
KINDS |= {"attention": (ATTENTION, {}), "input feeding": (ATTENTION, {"input_feeding": True})}
KINDS |= {kind: (ATTENTION, {"attention": kind}) for kind in ("scaled-dot", "additive", "mean")}
KINDS |= {"both ways": (ATTENTION, {"attention": "none"})}
KINDS = KINDS if ELSEWHERE else {}  # without the folder ancestors/ there are none


def make_recurrent(
    kind: str, task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> nn.Module:
    """A small model in evaluation mode; `kind` is a key of `KINDS`."""
    name, own = KINDS[kind]
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(MODEL_DATACLASS_REGISTRY[name](**{**SIZES, **own, **changes}))
    return MODEL_REGISTRY[name].build_model(cfg, task or make_task()).eval()


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
