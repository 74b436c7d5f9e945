"""Constituency parsing as the paper does it (section 6.3): words in, symbols of a tree out.

The symbols are those of text/linearization.py. By default our decoder writes well-formed trees
only; the paper's decoder has no such constraint.
"""

from dataclasses import dataclass, field
from functools import cached_property

from fairseq.tasks import register_task

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.generator import BeamSearchGenerator
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)
from vaswani_plugin.search.options import PARSER_DECODING
from vaswani_plugin.search.well_formed import Grammar


@dataclass
class VaswaniParsingConfig(VaswaniTranslationConfig):
    """Our translation task with longer outputs for trees, and the choice of the constraint."""

    max_source_positions: int = field(
        default=2048, metadata={"help": "max number of tokens in the source sequence"}
    )
    max_target_positions: int = field(
        default=4096, metadata={"help": "max number of tokens in the target sequence"}
    )
    unconstrained: bool = field(
        default=False,
        metadata={"help": "let the search also write what is no tree, as the paper's does"},
    )


@register_task("vaswani_parsing", dataclass=VaswaniParsingConfig)
class VaswaniParsingTask(VaswaniTranslationTask):
    """Translation of words, whole or in units that end by @@, into a linearized tree."""

    cfg: VaswaniParsingConfig
    decoding = PARSER_DECODING

    @cached_property
    def grammar(self) -> Grammar:
        """The words and tree symbols of the dictionaries."""
        return Grammar(self.source_dictionary, self.target_dictionary)

    def _own_generator(self, models, args, extra: dict, choose) -> BeamSearchGenerator:
        if not self.cfg.unconstrained:
            extra = {**extra, "start_tracking": (self.grammar.start_tracking,)}
        return super()._own_generator(models, args, extra, choose)

    def _unsupported_option(self, models, args, extra: dict) -> str | None:
        reason = super()._unsupported_option(models, args, extra)
        if reason is not None and not self.cfg.unconstrained:
            raise UserError(
                f"{reason}: fairseq's own generator would decode, which knows no trees; drop it, "
                f"or give --unconstrained"
            )
        return reason
