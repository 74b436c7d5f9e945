"""A step that fairseq repeats inside itself, as --amp on a GPU does after an overflow."""

from types import SimpleNamespace

from vaswani_plugin.fairseq_plugin.training.nonfinite import NonfiniteUpdates
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer


def make_trainer(metered: list[int]) -> VaswaniTrainer:
    """What a step asks of a trainer, without a model; notes the updates that are metered."""
    trainer = VaswaniTrainer.__new__(VaswaniTrainer)
    trainer.cfg = SimpleNamespace(distributed_training=SimpleNamespace(distributed_world_size=1))
    trainer.preemption = SimpleNamespace(
        exit_if_saved=lambda trainer: None, save_if_requested=lambda trainer: None
    )
    trainer.nonfinite = NonfiniteUpdates()
    trainer.metering = SimpleNamespace(
        log=lambda samples, trainer: metered.append(trainer.get_num_updates())
    )
    trainer.metered_update = None
    trainer._num_updates = 0
    return trainer


def test_an_update_after_overflows_is_metered_once(monkeypatch):
    overflows = iter([False, True, True, False, False, True, False])

    def train_step(self, samples, raise_oom=False):
        if next(overflows):
            return self.train_step(samples, raise_oom)
        self._num_updates += 1
        return {}

    monkeypatch.setattr(VaswaniTrainer.__base__, "train_step", train_step)
    metered = []
    trainer = make_trainer(metered)
    for _ in range(4):
        trainer.train_step([])
    assert metered == [1, 2, 3, 4]
