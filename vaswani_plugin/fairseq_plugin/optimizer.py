"""Adam and the learning rate of section 5.3, and Sutskever et al.'s (2014), for fairseq."""

import ast
import logging
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import Tensor

# which devices have fused kernels, no public function of torch tells
from torch.utils._foreach_utils import (
    _get_fused_kernels_supported_devices as devices_of_fused_kernels,
)

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.configuration import Configuration, option
from vaswani_plugin.modules.schedule import learning_rate

logger = logging.getLogger(__name__)


@dataclass
class VaswaniAdamConfig(FairseqDataclass):
    """The defaults are the paper's."""

    adam_betas: Any = option("(0.9, 0.98)", "beta_1 and beta_2")
    adam_eps: float = option(1e-9, "epsilon")
    weight_decay: float = option(0.0, "decoupled weight decay (not in the paper)")
    max_nonfinite_updates: int = option(
        10, "stop after so many skipped updates in a row (NaN, infinite gradients)"
    )
    lr: list[float] = II("optimization.lr")


class ResumedAdamW(torch.optim.AdamW):
    """AdamW that goes on with this run's settings; of a checkpoint's only the rate is loaded."""

    supports_flat_params = True  # one tensor may hold all parameters, as with --fp16

    def load_state_dict(self, state_dict: dict) -> None:
        """Load moments, step counts and learning rates; fairseq's AMPOptimizer calls this, too."""
        groups = [
            {**now, "params": saved["params"], "lr": saved["lr"]}
            for now, saved in zip(self.param_groups, state_dict["param_groups"], strict=True)
        ]
        super().load_state_dict({**state_dict, "param_groups": groups})


@register_optimizer("vaswani_adam", dataclass=VaswaniAdamConfig)
class VaswaniAdam(FairseqOptimizer):
    """Section 5.3: Adam with beta_1 0.9, beta_2 0.98, epsilon 1e-9."""

    def __init__(self, cfg: VaswaniAdamConfig, params) -> None:
        super().__init__(cfg)
        params = list(params)
        try:
            first, second = map(float, ast.literal_eval(str(cfg.adam_betas)))
            if not (0 <= first < 1 and 0 <= second < 1):
                raise ValueError
        except (SyntaxError, TypeError, ValueError):
            raise UserError(
                f"--adam-betas {cfg.adam_betas}: must be two numbers from 0 to below 1, as in "
                "'(0.9, 0.98)'"
            ) from None
        groups = [p["params"] if isinstance(p, dict) else [p] for p in params]
        fused = {t.device.type for g in groups for t in g} <= set(devices_of_fused_kernels())
        lr = cfg.lr[0] if isinstance(cfg.lr, Collection) else cfg.lr
        self._optimizer = ResumedAdamW(
            params,
            lr=lr,
            betas=(first, second),
            eps=cfg.adam_eps,
            weight_decay=cfg.weight_decay,
            fused=fused or None,
        )

    @torch.no_grad()
    def clip_grad_norm(
        self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Scale the gradients to a total norm of at most `max_norm`, unless it is 0; few kernels.

        `aggregate_norm_fn` combines it with other workers', or checks it. Returns it unscaled.
        """
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.params if p.grad is not None])
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.params, max_norm, norm)
        return norm


@dataclass
class VaswaniScheduleConfig(FairseqDataclass):
    """The defaults are the paper's. `d_model` is the model's own."""

    warmup_updates: int = option(4000, "updates of linear growth of the learning rate")
    lr_factor: float = option(1.0, "multiplies Eq. 3's learning rate; --lr is not used")
    d_model: Optional[int] = II("oc.select:model.d_model,null")  # noqa: UP045 -- as in fairseq


@register_lr_scheduler("vaswani", dataclass=VaswaniScheduleConfig)
class VaswaniSchedule(FairseqLRScheduler):
    """Eq. 3: linear growth over the warm-up, then decay with the update's inverse square root."""

    def __init__(self, cfg: VaswaniScheduleConfig, optimizer) -> None:
        super().__init__(cfg, optimizer)
        self.d_model = cfg.d_model or Configuration.d_model
        if not cfg.d_model:
            width = self.d_model
            logger.warning("the model has no d_model; Eq. 3 takes %d: see --lr-factor", width)
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of the update after `num_updates` finished ones."""
        warmup, factor = self.cfg.warmup_updates, self.cfg.lr_factor
        rate = learning_rate(num_updates + 1, self.d_model, warmup, factor)
        self.optimizer.set_lr(rate)
        return rate


@dataclass
class HalvingScheduleConfig(FairseqDataclass):
    """The defaults are those of Sutskever et al.; their `--lr` is 0.7."""

    lr: list[float] = II("optimization.lr")
    constant_epochs: float = option(
        5.0, "epochs with the rate --lr; the first halving follows them"
    )
    halving_epochs: float = option(0.5, "epochs from one halving of the rate to the next")


@register_lr_scheduler("vaswani_halving", dataclass=HalvingScheduleConfig)
class HalvingSchedule(FairseqLRScheduler):
    """`--lr`, halved after `--constant-epochs` and then every `--halving-epochs`.

    This is Sutskever et al. (2014), section 3.4. The updates of an epoch are the average of the
    finished epochs, so the first halving can't be within the first epoch.
    """

    def __init__(self, cfg: HalvingScheduleConfig, optimizer) -> None:
        super().__init__(cfg, optimizer)
        self.epoch, self.updates_before_epoch, self.num_updates = 1, 0, 0
        self.step_update(0)

    def step_begin_epoch(self, epoch: int) -> None:
        """Note the update at which an epoch begins; an epoch that is resumed began earlier."""
        if epoch != self.epoch:
            self.epoch, self.updates_before_epoch = epoch, self.num_updates

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of the update after `num_updates` finished ones."""
        self.num_updates = num_updates
        passed = -self.cfg.constant_epochs + 1e-9  # of rounding
        if self.updates_before_epoch and self.epoch > 1:  # finished epochs, and a part of this one
            updates_per_epoch = self.updates_before_epoch / (self.epoch - 1)
            of_this_epoch = (num_updates - self.updates_before_epoch) / updates_per_epoch
            passed += self.epoch - 1 + min(of_this_epoch, 1.0)
        halvings = 0 if passed < 0 else 1 + math.floor(passed / self.cfg.halving_epochs)
        rate = self.cfg.lr[0] * 0.5**halvings
        self.optimizer.set_lr(rate)
        return rate

    def state_dict(self) -> dict:
        """Return what a checkpoint keeps: also where the epoch began."""
        began = {"epoch": self.epoch, "updates_before_epoch": self.updates_before_epoch}
        return {**super().state_dict(), **began}

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue from a checkpoint's state."""
        super().load_state_dict(state_dict)
        self.epoch = state_dict["epoch"]
        self.updates_before_epoch = state_dict["updates_before_epoch"]
