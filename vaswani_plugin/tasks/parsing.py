"""Constituency parsing as the paper does it (section 6.3): words in, symbols of a tree out.

The symbols are those of text/linearization.py. Unlike the paper's decoder ours writes
well-formed trees only, unless it is told otherwise.
"""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from fairseq.data import Dictionary
from fairseq.tasks import register_task
from torch import Tensor

from vaswani_plugin.decoding import PARSER_DECODING
from vaswani_plugin.errors import UserError
from vaswani_plugin.search.generator import BeamSearchGenerator
from vaswani_plugin.search.well_formed import (
    PLACEHOLDER,
    SymbolTables,
    WellFormedTrees,
    count_words,
    kind_of,
)
from vaswani_plugin.tasks.translation import VaswaniTranslationConfig, VaswaniTranslationTask
from vaswani_plugin.text.linearization import MAX_OPENINGS
from vaswani_plugin.text.treebank_coding import JOINT

AGAINST_TREES = {"no_repeat_ngram_size": 0, "min_len": 1, "prefix_size": 0}
"""Options that forbid or force symbols, with the values that mean that they are not used."""


@dataclass
class VaswaniParsingConfig(VaswaniTranslationConfig):
    """Our translation task with room for a tree's symbols, and the choice of the constraint."""

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
    def _tables(self) -> SymbolTables:
        dictionary = self.target_dictionary
        return SymbolTables(symbols_of(dictionary), dictionary.eos())

    @cached_property
    def ends_word(self) -> Tensor:
        """Boolean, by number of the source dictionary: the token ends a word."""
        symbols = self.source_dictionary.symbols
        return torch.tensor([not word.endswith(JOINT) for word in symbols], device="cpu")

    @cached_property
    def is_word(self) -> Tensor:
        """Boolean, by number of the target dictionary: the symbol stands for a word."""
        symbols = symbols_of(self.target_dictionary)
        is_word = [bool(symbol) and kind_of(symbol) == PLACEHOLDER for symbol in symbols]
        return torch.tensor(is_word, device="cpu")

    def _own_generator(self, models, args, extra: dict, choose) -> BeamSearchGenerator:
        if not self.cfg.unconstrained:
            for name, unused in AGAINST_TREES.items():
                if getattr(args, name, unused) not in (unused, None):
                    raise UserError(
                        f"--{name.replace('_', '-')} can leave a sentence without any tree; "
                        f"drop it, or give --unconstrained"
                    )
            extra = {**extra, "start_tracking": (self._start_tracking,)}
        return super()._own_generator(models, args, extra, choose)

    def _beyond_our_search(self, models, args, extra: dict) -> str | None:
        reason = super()._beyond_our_search(models, args, extra)
        if reason is not None and not self.cfg.unconstrained:
            raise UserError(
                f"{reason}: fairseq's own generator would decode, which knows no trees; drop it, "
                f"or give --unconstrained"
            )
        return reason

    def _start_tracking(self, sources: Tensor, limits: list[int]) -> WellFormedTrees:
        dictionary, device = self.source_dictionary, sources.device
        ends_word = self.ends_word.to(device)
        words = count_words(sources, ends_word, dictionary.pad(), dictionary.eos())
        most = torch.tensor(limits, device=device)
        return WellFormedTrees(self._tables.to(device), words, most, MAX_OPENINGS)


def symbols_of(dictionary: Dictionary) -> list[str | None]:
    """A dictionary's symbols by number; None for special ones and rows that only fill it up."""
    return [
        None if number < dictionary.nspecial or symbol.startswith("madeupword") else symbol
        for number, symbol in enumerate(dictionary.symbols)
    ]
