"""Eq. 3 (section 5.3) and the rate of Sutskever et al. (2014) as fairseq's schedulers."""

import logging
import math
from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from vaswani_plugin.errors import UserError
from vaswani_plugin.modules.schedule import learning_rate

logger = logging.getLogger(__name__)

UNKNOWN_WIDTH = 0
BASE_WIDTH = 512


class ScheduleOfUpdates(FairseqLRScheduler):
    """What our schedulers share: the rate depends on the number of updates alone."""

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue from a checkpoint's state.

        Raises:
            UserError: it has other entries than this scheduler's; names the flag not to load it.
        """
        if state_dict.keys() != self.state_dict().keys():
            raise UserError(
                "the checkpoint was trained with another --lr-scheduler: give the same one, or"
                " --reset-lr-scheduler"
            )
        super().load_state_dict(state_dict)


@dataclass
class VaswaniScheduleConfig(FairseqDataclass):
    """The defaults are the paper's. `d_model` is the model's own."""

    warmup_updates: int = field(
        default=4000, metadata={"help": "updates of linear growth of the learning rate"}
    )
    lr_factor: float = field(
        default=1.0, metadata={"help": "multiplies Eq. 3's learning rate; --lr is not used"}
    )
    d_model: int = II(f"oc.select:model.d_model,{UNKNOWN_WIDTH}")


@register_lr_scheduler("vaswani", dataclass=VaswaniScheduleConfig)
class VaswaniSchedule(ScheduleOfUpdates):
    """Eq. 3: linear growth over the warm-up, then decay with the inverse square root of the update.

    The rate depends on the update number only, so a resumed run has the same rates. `--lr` is not
    used.
    """

    def __init__(self, cfg: VaswaniScheduleConfig, optimizer) -> None:
        super().__init__(cfg, optimizer)
        self.d_model = cfg.d_model
        if self.d_model == UNKNOWN_WIDTH:
            self.d_model = BASE_WIDTH
            logger.warning(
                "the model has no d_model; the vaswani schedule takes %d (scale it with "
                "--lr-factor, or choose another --lr-scheduler)",
                BASE_WIDTH,
            )
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of the update after `num_updates` finished ones."""
        rate = learning_rate(
            num_updates + 1, self.d_model, self.cfg.warmup_updates, self.cfg.lr_factor
        )
        self.optimizer.set_lr(rate)
        return rate


ROUNDING = 1e-9
"""Epochs; a boundary that floating point puts slightly too late counts as reached."""


@dataclass
class HalvingScheduleConfig(FairseqDataclass):
    """The defaults are those of Sutskever et al.; their `--lr` is 0.7."""

    lr: list[float] = II("optimization.lr")
    constant_epochs: float = field(
        default=5.0, metadata={"help": "epochs with the rate --lr; the first halving follows them"}
    )
    halving_epochs: float = field(
        default=0.5, metadata={"help": "epochs from one halving of the rate to the next"}
    )


@register_lr_scheduler("vaswani_halving", dataclass=HalvingScheduleConfig)
class HalvingSchedule(ScheduleOfUpdates):
    """`--lr`, halved after `--constant-epochs` and then every `--halving-epochs`.

    fairseq's `step` scheduler counts updates, of which an epoch has another number on every corpus.
    This is Sutskever et al. (2014), section 3.4.

    The number of updates in an epoch is the average of the epochs that are finished, so the first
    halving can't be within the first epoch.

    Raises:
        UserError: a number of epochs is out of range.
    """

    def __init__(self, cfg: HalvingScheduleConfig, optimizer) -> None:
        super().__init__(cfg, optimizer)
        if not cfg.constant_epochs >= 1:  # NaN, too
            raise UserError(
                f"--constant-epochs is {cfg.constant_epochs}; it must be at least 1: the first "
                "epoch tells how many updates an epoch has"
            )
        if not cfg.halving_epochs > 0:
            raise UserError(f"--halving-epochs is {cfg.halving_epochs}; it must be above 0")
        self.epoch, self.updates_before_epoch, self.num_updates = 1, 0, 0
        self.step_update(0)

    def step_begin_epoch(self, epoch: int) -> None:
        """Note the update at which an epoch begins; an epoch that is resumed began earlier."""
        if epoch != self.epoch:
            self.epoch, self.updates_before_epoch = epoch, self.num_updates

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of the update after `num_updates` finished ones."""
        self.num_updates = num_updates
        passed = self.epochs_passed() - self.cfg.constant_epochs + ROUNDING
        halvings = 0 if passed < 0 else 1 + math.floor(passed / self.cfg.halving_epochs)
        rate = self.cfg.lr[0] * 0.5**halvings
        self.optimizer.set_lr(rate)
        return rate

    def epochs_passed(self) -> float:
        """Return the finished epochs and the finished part of this one; 0 in the first epoch."""
        if not self.updates_before_epoch:
            return 0.0
        updates_per_epoch = self.updates_before_epoch / (self.epoch - 1)
        of_this_epoch = (self.num_updates - self.updates_before_epoch) / updates_per_epoch
        return self.epoch - 1 + min(of_this_epoch, 1.0)

    def state_dict(self) -> dict:
        """Return what a checkpoint keeps: also where the epoch began."""
        began = {"epoch": self.epoch, "updates_before_epoch": self.updates_before_epoch}
        return {**super().state_dict(), **began}

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue from a checkpoint's state.

        Raises:
            UserError: see `ScheduleOfUpdates`.
        """
        super().load_state_dict(state_dict)
        self.epoch = state_dict["epoch"]
        self.updates_before_epoch = state_dict["updates_before_epoch"]
