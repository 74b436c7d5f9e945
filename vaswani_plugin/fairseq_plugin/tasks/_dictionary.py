"""The dictionaries of a task: text from numbers quickly, and a checkpoint that remembers them."""

from collections import defaultdict, deque
from typing import Any

import torch
from fairseq.data import Dictionary

from vaswani_plugin.checkpoint_errors import DIGESTS, refuse_other_dictionaries
from vaswani_plugin.text.dictionary import digest_of


class TextDictionary(Dictionary):
    """fairseq's dictionary with a faster `string`.

    fairseq compares each token of a sentence as a tensor, which takes twelve times as long as
    numbers. `fairseq-generate` calls `string` three times for each sentence that it translates.

    Attributes:
        originals: by the numbers of a sentence, the texts of those that were read and not yet
            printed. `string` gives each once, with words that the dictionary doesn't have.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.originals: dict[tuple[int, ...], deque[str]] = defaultdict(deque)

    def string(self, tensor: Any, *args: Any, **kwargs: Any) -> str:
        """The words of a sentence (T,), or of a batch (B, T) as lines; see fairseq's method."""
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
            if self.originals and self.originals.get(tuple(tensor)):
                return self.originals[tuple(tensor)].popleft()
        return super().string(tensor, *args, **kwargs)


class DictionaryDigests:
    """Keeps digests of a task's dictionaries in its checkpoints; comes before fairseq's class."""

    def own_dictionaries(self) -> dict[str, Dictionary]:
        """The dictionaries that a checkpoint depends on, by side: "source" or "target"."""
        raise NotImplementedError

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
        return {side: digest_of(words.symbols) for side, words in self.own_dictionaries().items()}
