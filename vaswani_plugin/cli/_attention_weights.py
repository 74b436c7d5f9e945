"""The weights behind `vaswani attention`: those of every layer and head, by token or by word.

Axes: N layers, H heads, T queries, S keys.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

from vaswani_plugin.cli._fairseq_engine import FairseqEngine
from vaswani_plugin.cli._sentences import WORD_BORDERS
from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.interchange.bundle import FairseqBundle, load_with_data
from vaswani_plugin.text.coding import join_bpe
from vaswani_plugin.text.corpus_io import InputError
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import MODEL

EOS = "</s>"
JOINERS: dict[str, Callable[[list[str]], str]] = {
    "subword-nmt": lambda tokens: join_bpe(" ".join(tokens)),
    "sentencepiece": lambda tokens: "".join(tokens).removeprefix("▁"),
    "none": "".join,
}


@dataclass(frozen=True)
class Attention:
    """One of the three attentions for one sentence.

    Args:
        queries: T labels.
        keys: S labels.
        weights: (N, H, T, S), each row summing to 1.
    """

    queries: list[str]
    keys: list[str]
    weights: np.ndarray

    def merged(self, subwords: str) -> "Attention":
        """The same by words: weights summed over keys, averaged over queries.

        Args:
            subwords: kind of the labels, a key of `WORD_BORDERS`.
        """
        rows, columns = _word_starts(self.queries, subwords), _word_starts(self.keys, subwords)
        sizes = np.diff([*rows, len(self.queries)])
        summed = np.add.reduceat(self.weights.astype(np.float64), columns, axis=-1)
        means = np.add.reduceat(summed, rows, axis=-2) / sizes[:, None]
        return Attention(
            _words(self.queries, rows, subwords), _words(self.keys, columns, subwords), means
        )


@dataclass(frozen=True)
class Attended:
    """A sentence, its translation and the model's attentions, by the keys of `KINDS`.

    The queries of `cross` are the tokens predicted; those of `decoder` are the tokens read, which
    are one behind.
    """

    source: str
    target: str
    attentions: dict[str, Attention]

    def merged(self, subwords: str) -> "Attended":
        """See `Attention.merged`."""
        return replace(self, attentions={k: a.merged(subwords) for k, a in self.attentions.items()})


def _word_starts(tokens: list[str], subwords: str) -> list[int]:
    is_border = WORD_BORDERS[subwords]
    return [
        i
        for i, token in enumerate(tokens)
        if i == 0 or EOS in (tokens[i - 1], token) or is_border(tokens[i - 1], token)
    ]


def _words(tokens: list[str], starts: list[int], subwords: str) -> list[str]:
    groups = [tokens[a:b] for a, b in zip(starts, [*starts[1:], len(tokens)], strict=True)]
    return [JOINERS[subwords](group) or " ".join(group) for group in groups]


class Attender:
    """A translation model with the way from text to its subwords.

    Args:
        model: on the CPU.
        task: knows the dictionaries and searches.
        splits: from a source and from a target line to subwords joined by spaces.
        join: from a line of target subwords to text.
        subwords: their kind, a key of `WORD_BORDERS`.
        beam: of the search for translations.
        name: of the model, for errors.

    Raises:
        ValueError: the model is none of ours, or has no attention.
    """

    def __init__(
        self,
        model: BaseFairseqModel,
        task: TranslationTask,
        splits: tuple[Callable[[str], str], Callable[[str], str]],
        join: Callable[[str], str],
        subwords: str,
        beam: int,
        name: Path,
    ) -> None:
        if not hasattr(model, "attention_weights"):
            raise ValueError(
                f"{name}: a {type(model).__name__} has no per-head weights to show; give a "
                "translation model of this plugin that has attention (vaswani import takes "
                "fairseq's Transformer)"
            )
        self.model, self.task = model.eval(), task
        self.split_source, self.split_target = splits
        self.join, self.subwords = join, subwords
        self.engine = FairseqEngine(
            model,
            task,
            device=torch.device("cpu"),
            dtype=torch.float32,
            batch_tokens=4096,
            align=False,
            beam=beam,
            lenpen=PAPER_DECODING["lenpen"],
        )

    @classmethod
    def from_bundle(cls, folder: Path) -> "Attender":
        """Of a folder that the recipes make; takes raw text.

        Raises:
            ValueError: the folder can't be used, or holds no translation model of ours.
            OSError: a file can't be read.
        """
        bundle = FairseqBundle.load(folder)
        if not (folder / MODEL).is_file():
            raise ValueError(
                f"{folder}: CTranslate2 gives no per-head weights; give the bundle it was made of"
            )
        settings = bundle.pipeline.settings
        # The vocabulary that limits subword-nmt is the source's.
        of_target = replace(
            settings,
            source_language=settings.target_language,
            vocabulary=None,
            vocabulary_threshold=None,
        )
        try:
            splits = (bundle.pipeline.encode, Pipeline(of_target, folder).encode)
        except InputError as error:
            raise ValueError(str(error)) from error
        beam = settings.beam or PAPER_DECODING["beam"]
        decode = bundle.pipeline.decode
        return cls(*bundle.load_model(), splits, decode, settings.subwords, beam, folder)

    @classmethod
    def from_checkpoint(cls, path: Path, data: Path, codes: Path | None) -> "Attender":
        """Of a checkpoint and its binarized data; takes tokenized text.

        Args:
            path: the checkpoint.
            data: the folder of the dictionaries.
            codes: subword-nmt's, to split the text with; None leaves it as it is.

        Raises:
            ValueError: the checkpoint holds no translation model of ours.
            FileNotFoundError: a file is missing.
        """
        split: Callable[[str], str] = str
        if codes is not None:
            if not codes.exists():
                raise FileNotFoundError(f"{codes} does not exist")
            from vaswani_plugin.text import bpe

            split = bpe.make_encoder(str(codes))
        model, task = load_with_data(path, data)
        beam = PAPER_DECODING["beam"]
        return cls(model, task, (split, split), join_bpe, "subword-nmt", beam, path)

    def attend(self, source: str, target: str | None = None) -> Attended:
        """Run the model over a sentence.

        Args:
            source: text.
            target: its translation as text; None lets the model search one.

        Raises:
            ValueError: a sentence is empty or too long.
        """
        source_tokens = _split(source, self.split_source, "source")
        target_tokens = None if target is None else _split(target, self.split_target, "target")
        positions = self.model.max_positions()  # the end of sentence takes one
        _check_length("source", source_tokens, positions[0] - 1)
        if target_tokens is None:
            target_tokens = self.engine.translate([" ".join(source_tokens)])[0][0].tokens
        _check_length("target", target_tokens, positions[1] - 1)
        read = [EOS, *target_tokens]  # shifted by one, as in training
        source_ids = _ids([*source_tokens, EOS], self.task.source_dictionary)
        read_ids = _ids(read, self.task.target_dictionary)
        found = self.model.attention_weights(source_ids, read_ids)
        source_labels, predicted = [*source_tokens, EOS], [*target_tokens, EOS]
        labels = {
            "encoder": (source_labels, source_labels),
            "decoder": (read, read),
            "cross": (predicted, source_labels),
        }
        attentions = {
            kind: Attention(*labels[kind], torch.cat(layers).numpy())
            for kind, layers in found.items()
        }
        return Attended(source, self.join(" ".join(target_tokens)), attentions)

    def unknown(self, attended: Attended) -> dict[str, int]:
        """Tokens of the source and of the target that the dictionaries lack."""
        cross = attended.attentions["cross"]  # every model that has attention has this one
        sides = {
            "source": (cross.keys, self.task.source_dictionary),
            "target": (cross.queries, self.task.target_dictionary),
        }
        return {
            side: sum(dictionary.index(token) == dictionary.unk() for token in tokens)
            for side, (tokens, dictionary) in sides.items()
        }


def _split(text: str, split: Callable[[str], str], side: str) -> list[str]:
    # `str.split` is also what fairseq's dictionaries part a line with.
    tokens = split(text).split()
    if not tokens:
        raise ValueError(f"--{side} is an empty sentence")
    return tokens


def _check_length(side: str, tokens: list[str], longest: int) -> None:
    if len(tokens) > longest:
        raise ValueError(
            f"the {side} has {len(tokens)} subwords, the model takes {longest}: divide it"
        )


def _ids(tokens: list[str], dictionary) -> torch.Tensor:
    return torch.tensor([[dictionary.index(token) for token in tokens]])  # (1, S)
