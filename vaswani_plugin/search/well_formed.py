"""Constrains a search to well-formed trees with as many words as the source (section 6.3).

text/linearization.py defines well-formed sequences of symbols. At every step every beam is a prefix
of such a sequence, short enough to be completed within the length limit. So a next symbol always
exists: a placeholder while words remain, then closing brackets, then the end of sentence.

A hypothesis's stack of open brackets is a path in a tree: an opening bracket adds a node that
points to the node below it, and the hypothesis stores its top node. So no stack is ever copied.

Axes: B sentences, b some of them, W beams, S source length, V vocabulary, N nodes.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.modules.parser import last_tokens_of_words
from vaswani_plugin.search.models import SearchDictionary
from vaswani_plugin.search.search import Step
from vaswani_plugin.text.linearization import JOINT, MAX_OPENINGS

OPEN, PLACEHOLDER, CLOSE = 1, 2, 3


class SymbolTables:
    """The kinds of a target dictionary's symbols (see `symbols_of`), and which may come next.

    Closing symbols may have a label or none. An opening symbol without one is never written.
    """

    def __init__(self, symbols: Sequence[str | None], eos: int) -> None:
        kind_of = {"(": OPEN, ")": CLOSE}  # by the first character
        kinds = [kind_of.get(symbol[0], PLACEHOLDER) if symbol else 0 for symbol in symbols]
        number = {symbol: n for n, symbol in enumerate(symbols) if symbol}
        # Opening symbols with the same closing symbols form one class, numbered from 1.
        classes: dict[frozenset[int], int] = {}
        class_of = [0] * len(symbols)
        for n, symbol in enumerate(symbols):
            if symbol and kinds[n] == OPEN:
                closings = {number[s] for s in (")" + symbol[1:], ")") if s in number}
                if closings:
                    class_of[n] = classes.setdefault(frozenset(closings), len(classes) + 1)
        openings = [n for n, class_number in enumerate(class_of) if class_number]
        placeholders = [n for n, kind in enumerate(kinds) if kind == PLACEHOLDER]
        if not openings or not placeholders:
            raise UserError(
                "the target dictionary lacks opening symbols with their closing ones, or "
                "placeholders: it is not of linearized trees; give the data of data-prep/"
                "code_trees.py, or --unconstrained"
            )
        self.kind = torch.tensor(kinds, device="cpu")  # (V,)
        self.closed_by = torch.tensor(class_of, device="cpu")  # (V,), 0: is no opening symbol
        # Rows by what may come next: a class to close (0: none), the end, placeholders, openings.
        banned = torch.ones(len(classes) + 1, 2, 2, 2, len(symbols), dtype=torch.bool, device="cpu")
        for closed, class_number in classes.items():
            banned[class_number, ..., list(closed)] = False
        banned[:, 1, :, :, eos] = False
        banned[:, :, 1, :, placeholders] = False
        banned[:, :, :, 1, openings] = False
        self.banned = banned.flatten(0, 3)

    def to(self, device: torch.device) -> "SymbolTables":
        """Move the tables to a device, in place."""
        for name, table in vars(self).items():
            setattr(self, name, table.to(device))
        return self


class WellFormedTrees:
    """The `Tracker` that allows only well-formed trees in the search of one batch.

    A sentence has so many `words` (B,), its tree at most `limits` (B,) symbols, and at most
    `max_openings` brackets are opened in a row.
    """

    def __init__(
        self, tables: SymbolTables, words: Tensor, limits: Tensor, max_openings: int
    ) -> None:
        self.tables, self.limits, self.max_openings = tables, limits, max_openings
        none = torch.zeros_like(words)
        # Of each hypothesis: open brackets, remaining words, latest openings in a row, top node.
        self.state = torch.stack((none, words, none, none), dim=-1)[:, None]  # (B, W, 4)
        self.node_class, self.node_below = words.new_zeros(2, len(words), 1)  # each (B, N)
        self.nodes = 1  # in use

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        if parents is None:
            return
        state = self.state.gather(1, parents[:, :, None].expand(-1, -1, 4))
        depth, left, run, top = state.unbind(-1)
        kind = self.tables.kind[tokens]
        opened, closed = kind.eq(OPEN), kind.eq(CLOSE)
        depth = depth + opened.long() - closed.long()
        left = left - kind.eq(PLACEHOLDER).long()
        run = (run + 1) * opened
        below = self.node_below.gather(1, top)
        # A node for each hypothesis, needed or not.
        begin, end = self.nodes, self.nodes + top.size(1)
        if end > self.node_class.size(1):
            padding = (0, max(end, 64 * top.size(1)))
            both = self.node_class, self.node_below
            self.node_class, self.node_below = (torch.nn.functional.pad(x, padding) for x in both)
        self.node_class[:, begin:end] = self.tables.closed_by[tokens]
        self.node_below[:, begin:end] = top
        self.nodes = end
        made = torch.arange(begin, end, device=top.device)
        top = torch.where(opened, made, torch.where(closed, below, top))
        self.state = torch.stack((depth, left, run, top), dim=-1)

    def __call__(self, log_probabilities: Tensor, step: Step) -> None:
        depth, left, run, top = self.state[step.part].unbind(-1)  # (b, W)
        room = self.limits[step.part, None] - step.number
        some_left, is_inside = left > 0, depth > 0
        may_open = some_left & (depth + left + 2 <= room) & (run < self.max_openings)
        if step.number:
            may_open &= is_inside
        may_close = is_inside & run.eq(0) & ((depth > 1) | ~some_left)
        may_end = ~is_inside & ~some_left
        row = self.node_class[step.part].gather(1, top) * may_close
        for may in (may_end, some_left & is_inside, may_open):
            row = 2 * row + may
        log_probabilities.masked_fill_(self.tables.banned[row], -torch.inf)

    def keep(self, sentences: Tensor) -> None:
        for name in ("state", "limits", "node_class", "node_below"):
            setattr(self, name, getattr(self, name)[sentences])


class Grammar:
    """The words and tree symbols of a parser's dictionaries."""

    def __init__(self, source: SearchDictionary, target: SearchDictionary) -> None:
        self.source, self.target = source, target

    @cached_property
    def tables(self) -> SymbolTables:
        """The tables of the constraint."""
        return SymbolTables(symbols_of(self.target), self.target.eos())

    @cached_property
    def ends_word(self) -> Tensor:
        """Boolean, by number in the source dictionary: the token ends a word."""
        ends = [not unit.endswith(JOINT) for unit in self.source.symbols]
        return torch.tensor(ends, device="cpu")

    @cached_property
    def is_word(self) -> Tensor:
        """Boolean, by number in the target dictionary: the symbol stands for a word."""
        return self.tables.kind.cpu() == PLACEHOLDER

    def start_tracking(self, sources: Tensor, limits: list[int]) -> WellFormedTrees:
        """Make the tracker of a batch: see `StartTracking`."""
        device, special = sources.device, (self.source.pad(), self.source.eos())
        words = last_tokens_of_words(sources, self.ends_word.to(device), *special).sum(dim=1)
        most = torch.tensor(limits, device=device)
        return WellFormedTrees(self.tables.to(device), words, most, MAX_OPENINGS)


def symbols_of(dictionary: SearchDictionary) -> list[str | None]:
    """Return a dictionary's symbols by number; None for special symbols and filling."""
    return [
        None if number < dictionary.nspecial or symbol.startswith("madeupword") else symbol
        for number, symbol in enumerate(dictionary.symbols)
    ]
