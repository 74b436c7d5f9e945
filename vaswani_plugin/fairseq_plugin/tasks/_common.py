"""What our tasks have in common: dictionaries that a checkpoint remembers, and --amp on a CPU."""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.optim.amp_optimizer import AMPOptimizer

from vaswani_plugin.inference.models import DIGESTS, refuse_other_dictionaries
from vaswani_plugin.processor import runs_on_host
from vaswani_plugin.text.dictionary import digest_of


class TextDictionary(Dictionary):
    """fairseq's dictionary with a faster `string`.

    fairseq compares each token of a sentence as a tensor, which takes twelve times as long as
    numbers. `fairseq-generate` calls `string` three times for each sentence that it translates.
    """

    def string(self, tensor: Any, *args: Any, **kwargs: Any) -> str:
        """The words of a sentence (T,), or of a batch (B, T) as lines; see fairseq's method."""
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
        return super().string(tensor, *args, **kwargs)


class DictionaryDigests:
    """Keeps digests of a task's dictionaries in its checkpoints; comes before fairseq's class.

    Attributes:
        sides: those whose dictionaries a checkpoint depends on.
    """

    sides: tuple[str, ...] = ("source", "target")

    def state_dict(self) -> dict[str, Any]:
        """The task's part of a checkpoint: digests of its dictionaries."""
        return {**super().state_dict(), DIGESTS: self._digests()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint's state and compare the dictionaries.

        Raises:
            UserError: when the checkpoint's dictionaries have other words, or the same words in
                another order. Their sizes may agree by chance; then every output would be wrong.
        """
        flags = self.args if self.cfg is None else self.cfg  # fairseq's older tasks have no cfg
        refuse_other_dictionaries(flags.data, state_dict, self._digests())
        super().load_state_dict(state_dict)

    def _digests(self) -> dict[str, str]:
        words = {side: getattr(self, f"{side}_dictionary") for side in self.sides}
        return {side: digest_of(dictionary.symbols) for side, dictionary in words.items()}


class AutocastOnCPU:
    """Gives a task --amp in bfloat16 on a CPU, where fairseq has none; comes before its class.

    Parameters, moments, normalization, softmax and loss stay in float32. bfloat16 needs no loss
    scaling.
    """

    def train_step(
        self, sample: dict, model: Any, criterion: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> tuple:
        """fairseq's `train_step`: forward, loss and backward of one batch."""
        device = next(model.parameters()).device
        if isinstance(optimizer, AMPOptimizer) and runs_on_host(device):
            plain = criterion

            def criterion(*arguments: Any) -> tuple:
                with torch.autocast("cpu", torch.bfloat16):
                    return plain(*arguments)

        return super().train_step(sample, model, criterion, optimizer, *args, **kwargs)
