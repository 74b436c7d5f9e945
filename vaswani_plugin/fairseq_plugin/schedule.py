"""Eq. 3 (section 5.3) as a fairseq learning-rate scheduler."""

import logging
from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from vaswani_plugin.errors import UserError, value_errors_as_user_errors
from vaswani_plugin.modules.schedule import learning_rate

logger = logging.getLogger(__name__)

UNKNOWN_WIDTH = 0
BASE_WIDTH = 512


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
class VaswaniSchedule(FairseqLRScheduler):
    """Eq. 3: linear growth over the warm-up, then decay with the inverse square root of the update.

    The rate depends on the update number only, so a resumed run has the same rates. `--lr` is not
    used.

    Raises:
        UserError: when warm-up or factor are out of range.
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
        with value_errors_as_user_errors():
            self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of the update after `num_updates` finished ones."""
        rate = learning_rate(
            num_updates + 1, self.d_model, self.cfg.warmup_updates, self.cfg.lr_factor
        )
        self.optimizer.set_lr(rate)
        return rate

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """Note the validation loss; an epoch's end does not change the rate."""
        super().step(epoch, val_loss)
        return self.optimizer.get_lr()

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue from a checkpoint's state.

        Raises:
            UserError: see `refuse_state_of_another`.
        """
        refuse_state_of_another(self, state_dict)
        super().load_state_dict(state_dict)


def refuse_state_of_another(schedule: FairseqLRScheduler, state_dict: dict) -> None:
    """Refuse the state of another scheduler, if it has other entries.

    Raises:
        UserError: names the flag with which the state is not loaded.
    """
    if state_dict.keys() != schedule.state_dict().keys():
        raise UserError(
            "the checkpoint was trained with another --lr-scheduler: give the same one, or"
            " --reset-lr-scheduler"
        )
