"""Adam with the paper's constants (section 5.3): PyTorch's fused AdamW as fairseq's optimizer."""

import ast
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor

from vaswani_plugin.errors import UserError


@dataclass
class VaswaniAdamConfig(FairseqDataclass):
    """The defaults are the paper's."""

    adam_betas: str = field(default="(0.9, 0.98)", metadata={"help": "beta_1 and beta_2"})
    adam_eps: float = field(default=1e-9, metadata={"help": "epsilon"})
    weight_decay: float = field(
        default=0.0, metadata={"help": "decoupled weight decay (not in the paper)"}
    )
    max_nonfinite_updates: int = field(
        default=10,
        metadata={"help": "stop after so many skipped updates in a row (NaN, infinite gradients)"},
    )
    lr: list[float] = II("optimization.lr")


class ResumedAdamW(torch.optim.AdamW):
    """AdamW that goes on with this run's settings; of a checkpoint's only the rate is loaded."""

    supports_flat_params = True  # one tensor may hold all parameters, as with --fp16

    def load_state_dict(self, state_dict: dict) -> None:
        """Load moments, step counts and learning rates.

        The settings are kept here, not in `VaswaniAdam`, because fairseq's AMPOptimizer calls this
        method directly. With `fused` among them, PyTorch moves step counts to the parameters.

        Args:
            state_dict: the result of `state_dict`.
        """
        groups = [
            {**now, "params": saved["params"], "lr": saved["lr"]}
            for now, saved in zip(self.param_groups, state_dict["param_groups"], strict=True)
        ]
        super().load_state_dict({**state_dict, "param_groups": groups})


@register_optimizer("vaswani_adam", dataclass=VaswaniAdamConfig)
class VaswaniAdam(FairseqOptimizer):
    """Section 5.3: Adam with beta_1 0.9, beta_2 0.98, epsilon 1e-9.

    Raises:
        UserError: when --adam-betas is no pair of numbers, or a setting is out of range.
    """

    def __init__(self, cfg: VaswaniAdamConfig, params) -> None:
        super().__init__(cfg)
        settings = self.optimizer_config
        if not math.isfinite(settings["eps"]):
            raise UserError(f"--adam-eps is {settings['eps']}; it must be a number from 0")
        try:
            self._optimizer = ResumedAdamW(params, fused=True, **settings)
        except ValueError as error:
            raise UserError(f"--adam-betas, --adam-eps, --weight-decay: {error}") from error

    @property
    def optimizer_config(self) -> dict:
        """The settings of the flags, as arguments of `torch.optim.AdamW`."""
        lr = self.cfg.lr
        return {
            "lr": lr[0] if isinstance(lr, Collection) else lr,
            "betas": _betas(self.cfg.adam_betas),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
        }

    @torch.no_grad()
    def clip_grad_norm(
        self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Scale the gradients so that their total norm is at most `max_norm`.

        fairseq's method launches one or two kernels per parameter; this one a few for all.

        Args:
            max_norm: 0 leaves the gradients as they are.
            aggregate_norm_fn: combines the norm with those of other workers, or checks it.

        Returns:
            The norm before scaling.
        """
        grads = [p.grad for p in self.params if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.params, max_norm, norm)
        return norm


def _betas(text: str) -> tuple[float, float]:
    try:
        beta_1, beta_2 = (float(beta) for beta in ast.literal_eval(str(text)))
    except (ValueError, SyntaxError, TypeError):
        raise UserError(f'--adam-betas {text!r} is no pair of numbers like "(0.9, 0.98)"') from None
    return beta_1, beta_2
