"""log P of given translations under a model or an ensemble, for `vaswani rescore`.

Axes: R pairs of a batch, S source length, T target length, V vocabulary, with their ends.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from torch import Tensor
from tqdm import tqdm

from vaswani_plugin.interchange.bundle import load_with_data


class ForcedDecoder:
    """Encoder-decoders over the same dictionaries: the mean of their probabilities.

    Args:
        paths: checkpoints.
        data: the folder of the dictionaries.
        device: where to compute.

    Raises:
        ValueError: a checkpoint that holds no encoder-decoder, or other dictionaries.
        OSError: a file is missing or can't be read.
    """

    def __init__(self, paths: list[Path], data: Path, device: torch.device) -> None:
        self.models = []
        for path in paths:
            model, task = load_with_data(path, data)
            if not hasattr(model, "encoder"):
                raise ValueError(f"{path}: a {type(model).__name__} translates nothing")
            self.models.append(model.eval().to(device))
        self.source: Dictionary = task.source_dictionary
        self.target: Dictionary = task.target_dictionary
        self.device = device
        limits = [model.max_positions() for model in self.models]
        self.longest = tuple(int(min(limit[side] for limit in limits)) for side in (0, 1))

    def score(
        self, sources: list[str], lists: list[list[str]], max_tokens: int, title: str
    ) -> list[np.ndarray]:
        """log P of every hypothesis, its end of sentence included, in nats.

        Args:
            sources: N lines of tokens as the models know them.
            lists: of each source its hypotheses, likewise.
            max_tokens: target tokens of a batch, padding included.
            title: of the progress bar and in errors.

        Returns:
            An array for each list.

        Raises:
            ValueError: a sentence is empty or too long for a model.
        """
        encoded = [
            self._encode(self.source, line, 0, f"{title}: source {i}")
            for i, line in enumerate(sources)
        ]
        targets = [
            [
                self._encode(self.target, line, 1, f"{title}: hypothesis of sentence {i}")
                for line in lines
            ]
            for i, lines in enumerate(lists)
        ]
        self._warn_of_unknown(title, encoded, targets)
        found = [np.empty(len(lines)) for lines in lists]
        count = sum(map(len, lists))
        with tqdm(total=count, desc=title, unit=" hyp", disable=not sys.stderr.isatty()) as bar:
            for batch in _batches(encoded, targets, max_tokens):
                scores = self._score_batch(encoded, targets, batch).tolist()
                for (sentence, place), score in zip(batch, scores, strict=True):
                    found[sentence][place] = score
                bar.update(len(batch))
        return found

    def _encode(self, dictionary: Dictionary, line: str, side: int, name: str) -> Tensor:
        tokens = dictionary.encode_line(line, add_if_not_exist=False).long()
        if side == 0 and len(tokens) == 1:
            raise ValueError(f"{name} is empty")
        if len(tokens) > self.longest[side]:
            raise ValueError(
                f"{name} has {len(tokens)} tokens with its end, and the model takes "
                f"{self.longest[side]}: leave the sentence out of the list and its sources"
            )
        return tokens

    def _warn_of_unknown(
        self, title: str, sources: list[Tensor], targets: list[list[Tensor]]
    ) -> None:
        unknown = sum(int(t.eq(self.source.unk()).sum()) for t in sources)
        if unknown:
            print(f"{title}: {unknown} source tokens are unknown to the model", file=sys.stderr)
        unknown = sum(int(t.eq(self.target.unk()).sum()) for row in targets for t in row)
        if unknown:
            print(
                f"{title}: {unknown} tokens of the hypotheses are unknown to the model "
                "(--bpe-codes splits words)",
                file=sys.stderr,
            )

    @torch.no_grad()
    def _score_batch(
        self, sources: list[Tensor], targets: list[list[Tensor]], batch: list[tuple[int, int]]
    ) -> Tensor:
        numbers = list(dict.fromkeys(sentence for sentence, _ in batch))
        rows = torch.tensor([numbers.index(sentence) for sentence, _ in batch], device=self.device)
        pad, eos = self.target.pad(), self.target.eos()
        own = [sources[number] for number in numbers]
        net_input = {
            "src_tokens": collate_tokens(own, self.source.pad(), left_pad=True).to(self.device),
            "src_lengths": torch.tensor([len(tokens) for tokens in own]).to(self.device),
        }
        target = collate_tokens([targets[i][k] for i, k in batch], pad).to(self.device)  # (R, T)
        previous = target.roll(1, dims=1)
        previous[:, 0] = eos
        previous[target.eq(pad)] = pad
        log_p = []
        for model in self.models:
            encoder_out = model.encoder.forward_torchscript(net_input)  # once a source
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, rows)
            output = model.decoder(previous, encoder_out=encoder_out)
            probabilities = model.get_normalized_probs(output, log_probs=True)  # (R, T, V)
            log_p.append(probabilities.gather(2, target[:, :, None])[:, :, 0])
        mean = torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))
        return mean.masked_fill(target.eq(pad), 0.0).sum(dim=1, dtype=torch.float64)


def _batches(
    sources: list[Tensor], targets: list[list[Tensor]], max_tokens: int
) -> Iterator[list[tuple[int, int]]]:
    """(sentence, place in its list) of each batch: like lengths, a sentence's own together."""
    batch: list[tuple[int, int]] = []
    longest = 0
    for sentence in sorted(range(len(sources)), key=lambda i: len(sources[i])):
        lengths = [len(tokens) for tokens in targets[sentence]]
        for place in sorted(range(len(lengths)), key=lengths.__getitem__):
            widest = max(longest, lengths[place])
            if batch and widest * (len(batch) + 1) > max_tokens:
                yield batch
                batch, widest = [], lengths[place]
            batch.append((sentence, place))
            longest = widest
    if batch:
        yield batch
