"""Translation as the paper does it (section 6.1), over fairseq's translation task."""

import argparse
import hashlib
from dataclasses import dataclass, field
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from vaswani_plugin.search.generator import (
    PaperSequenceGenerator,
    PaperSequenceGeneratorWithAlignment,
)

PAPER_DECODING = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.0, "max_len_b": 50}
"""Section 6.1: beam of 4, alpha 0.6, output at most 50 tokens longer than the input."""

DIGESTS = "dictionary_sha256"


@dataclass
class VaswaniTranslationConfig(TranslationConfig):
    """fairseq's translation task and the choice of the length penalty."""

    length_penalty: ChoiceEnum(["paper", "fairseq"]) = field(
        default="paper",
        metadata={
            "help": "what --lenpen is the exponent of: ((5 + |Y|)/6) with the authors' stopping "
            "rule (paper), or |Y| with fairseq's own search (fairseq)"
        },
    )


@register_task("vaswani_translation", dataclass=VaswaniTranslationConfig)
class VaswaniTranslationTask(TranslationTask):
    """fairseq's translation task with the paper's decoding as its defaults."""

    cfg: VaswaniTranslationConfig

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the task's flags; in generation, make the paper's values the defaults."""
        super().add_args(parser)
        known = {action.dest for action in parser._actions}
        parser.set_defaults(**{k: v for k, v in PAPER_DECODING.items() if k in known})

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of the task: digests of its dictionaries."""
        return {**super().state_dict(), DIGESTS: self._dictionary_digests()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a checkpoint's state.

        Raises:
            ValueError: when the checkpoint's dictionaries hold other words, or the same in
                another order: sizes may agree by chance, and every output would be wrong.
        """
        trained_with = state_dict.get(DIGESTS, {})
        for side, digest in self._dictionary_digests().items():
            if trained_with.get(side, digest) != digest:
                raise ValueError(
                    f"the {side} dictionary of {self.cfg.data} is not the one that the checkpoint "
                    f"was trained with; give the data folder (its dict.*.txt) it was trained on"
                )
        super().load_state_dict(state_dict)

    def _dictionary_digests(self) -> dict[str, str]:
        return {"source": _digest(self.src_dict), "target": _digest(self.tgt_dict)}

    def build_generator(
        self,
        models,
        args,
        seq_gen_cls=None,
        extra_gen_cls_kwargs=None,
        prefix_allowed_tokens_fn=None,
    ):
        """fairseq's `build_generator`, with the paper's values where `args` is silent.

        Args:
            models: the ensemble.
            args: fairseq's generation options, complete or (from --eval-bleu-args) partial.
            seq_gen_cls: a generator class that overrides the task's.
            extra_gen_cls_kwargs: passed to the generator.
            prefix_allowed_tokens_fn: see fairseq.

        Returns:
            A generator, or a scorer under --score-reference.
        """
        if isinstance(args, argparse.Namespace):
            args = argparse.Namespace(**{**PAPER_DECODING, **vars(args)})
        print_alignment = getattr(args, "print_alignment", None)
        extra_gen_cls_kwargs = dict(extra_gen_cls_kwargs or {})
        if seq_gen_cls is None and self.cfg.length_penalty == "paper":
            seq_gen_cls = PaperSequenceGenerator
            if print_alignment:
                seq_gen_cls = PaperSequenceGeneratorWithAlignment
                extra_gen_cls_kwargs["print_alignment"] = print_alignment
        wants_attention = bool(print_alignment) or getattr(args, "replace_unk", None) is not None
        for model in models:
            if hasattr(model.decoder, "alignment_wanted"):
                model.decoder.alignment_wanted = wants_attention
        return super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )


def _digest(dictionary: Dictionary) -> str:
    return hashlib.sha256("\n".join(dictionary.symbols).encode()).hexdigest()
