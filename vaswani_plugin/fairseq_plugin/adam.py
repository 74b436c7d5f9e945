"""Adam with the paper's constants (section 5.3) over PyTorch's fused kernel."""

import ast
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor
from torch.optim.adamw import adamw

from vaswani_plugin.errors import UserError

HALF = (torch.float16, torch.bfloat16)
MASTER = "master"
"""Key of a parameter's float32 copy in the optimizer's state."""
GIVEN_NOW = ("betas", "eps", "weight_decay")
"""Settings that a resumed run takes from its own flags; a schedule sets the learning rate."""


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


class MixedPrecisionAdam(torch.optim.Optimizer):
    """Fused Adam with moments in float32, whatever the type of the parameters.

    Parameters in half precision, as of --memory-efficient-bf16, get a float32 copy in the state,
    which is updated: a step of 1e-3 is lost in a bfloat16 weight of 1.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decay rates of the two moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled from the gradient, times the learning rate.
    """

    def __init__(
        self,
        params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @property
    def supports_memory_efficient_fp16(self) -> bool:
        """Parameters may be in half precision."""
        return True

    @property
    def supports_flat_params(self) -> bool:
        """One flat tensor may hold all parameters."""
        return True

    @property
    def disable_mem_eff_fp16_loading_hack(self) -> bool:
        """fairseq need not restore saved moments itself: `load_state_dict` keeps float32."""
        return True

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict) -> None:
        """Load a state in float32, onto the devices of the parameters; keep the settings.

        PyTorch's own method would cast the moments to the type of the parameters, and leave the
        step counts on the device that they were saved from. It would also load the saved settings.
        This method loads the learning rate only. The settings are kept here, not in `VaswaniAdam`,
        because fairseq's AMPOptimizer calls this method directly.

        Args:
            state_dict: the result of `state_dict`.
        """
        given = [{name: group[name] for name in GIVEN_NOW} for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, settings in zip(self.param_groups, given, strict=True):
            group.update(settings)
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(saved, params, strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                self.state[p][name] = _full_precision(value).to(p.device)
            master = self.state[p].get(MASTER)
            if master is not None and not (p.dtype in HALF and torch.equal(master.to(p.dtype), p)):
                del self.state[p][MASTER]  # of other weights, such as those of an average

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; returns what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group: dict) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        if not params:
            return
        states = [self._state_of(p) for p in params]
        masters = [state.get(MASTER, p) for state, p in zip(states, params, strict=True)]
        adamw(
            masters,
            [_full_precision(p.grad) for p in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
        for p, master in zip(params, masters, strict=True):
            if master is not p:
                p.copy_(master)

    def _state_of(self, p: Tensor) -> dict[str, Tensor]:
        state = self.state[p]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=p.device)
            state["exp_avg"] = torch.zeros_like(_full_precision(p))
            state["exp_avg_sq"] = torch.zeros_like(_full_precision(p))
        if p.dtype in HALF and MASTER not in state:
            state[MASTER] = p.float()
        return state


def _full_precision(x: Tensor) -> Tensor:
    return x.float() if x.dtype in HALF else x


@register_optimizer("vaswani_adam", dataclass=VaswaniAdamConfig)
class VaswaniAdam(FairseqOptimizer):
    """Section 5.3: Adam with beta_1 0.9, beta_2 0.98, epsilon 1e-9.

    Raises:
        UserError: when --adam-betas is no pair of numbers, or a setting is out of range.
    """

    def __init__(self, cfg: VaswaniAdamConfig, params) -> None:
        super().__init__(cfg)
        self._optimizer = MixedPrecisionAdam(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        """The settings of the flags, as arguments of `MixedPrecisionAdam`."""
        lr = self.cfg.lr
        return {
            "lr": lr[0] if isinstance(lr, Collection) else lr,
            "betas": _betas(self.cfg.adam_betas),
            "eps": _at_least_0("adam-eps", self.cfg.adam_eps),
            "weight_decay": _at_least_0("weight-decay", self.cfg.weight_decay),
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
            The norm before scaling, in float32 or better.
        """
        grads = [p.grad for p in self.params if p.grad is not None]
        norm = _total_norm(grads) if grads else next(iter(self.params)).new_zeros(())
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.params, max_norm, norm)
        return norm


def _total_norm(grads: list[Tensor]) -> Tensor:
    full = [grad for grad in grads if grad.dtype not in HALF]
    norms = [torch.linalg.vector_norm(g, dtype=torch.float32) for g in grads if g.dtype in HALF]
    if full:
        norms.append(torch.nn.utils.get_total_norm(full))
    return torch.linalg.vector_norm(torch.stack(norms))


def _betas(text: str) -> tuple[float, float]:
    try:
        beta_1, beta_2 = (float(beta) for beta in ast.literal_eval(str(text)))
    except (ValueError, SyntaxError, TypeError):
        raise UserError(f'--adam-betas {text!r} is no pair of numbers like "(0.9, 0.98)"') from None
    if not (0 <= beta_1 < 1 and 0 <= beta_2 < 1):
        raise UserError(f"--adam-betas {text!r}: each beta must be in [0, 1)")
    return beta_1, beta_2


def _at_least_0(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise UserError(f"--{name} is {value}; it must be a number from 0")
    return value
