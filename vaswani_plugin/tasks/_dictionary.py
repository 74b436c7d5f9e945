"""A dictionary that turns sentences into text quickly."""

from typing import Any

import torch
from fairseq.data import Dictionary


class TextDictionary(Dictionary):
    """fairseq's dictionary; a sentence is looked up as numbers.

    fairseq compares each token of a sentence as a tensor, which takes twelve times as long, and
    `fairseq-generate` asks for three sentences for each that it translates.
    """

    def string(self, tensor: Any, *args: Any, **kwargs: Any) -> str:
        """The words of a sentence (T,), or of a batch (B, T) as lines; see fairseq's method."""
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
        return super().string(tensor, *args, **kwargs)
