"""Byte-pair encoding of very long words in less than quadratic time.

subword-nmt searches the whole word for every merge: a file of some kilobytes without a blank takes
it hours. The units are the same.
"""

import heapq

from subword_nmt.apply_bpe import BPE, check_vocab_and_split

LONG = 40
"""Letters; subword-nmt encodes shorter words."""
_WORD_END = "</w>"


class _Word:
    """A partly merged word: a linked list of symbols, and a heap of the possible merges."""

    def __init__(self, symbols: list[str], ranks: dict[tuple[str, str], int]) -> None:
        self.symbols = symbols
        self._ranks = ranks
        # Neighbours by place. A merged symbol has the place of its first part.
        self._after = list(range(1, len(symbols) + 1))
        self._before = list(range(-1, len(symbols) - 1))
        self._places: dict[int, list[int]] = {}
        self._waiting: list[int] = []
        for place in range(len(symbols)):
            self._offer(place)

    def _rank(self, place: int) -> int | None:
        following = self._after[place]
        if following == len(self.symbols):
            return None
        return self._ranks.get((self.symbols[place], self.symbols[following]))

    def _offer(self, place: int) -> None:
        rank = self._rank(place)
        if rank is not None:
            if rank not in self._places:
                self._places[rank] = []
                heapq.heappush(self._waiting, rank)
            self._places[rank].append(place)

    def _merge(self, place: int) -> None:
        following = self._after[place]
        self.symbols[place] += self.symbols[following]
        self.symbols[following] = ""
        self._after[place] = self._after[following]
        if self._after[place] < len(self.symbols):
            self._before[self._after[place]] = place

    def merge_all(self) -> None:
        """Repeats the merge of the lowest rank at all its places, until no merge is possible.

        All places of a merge are merged from left to right, before the places that arise from them.
        """
        while self._waiting:
            rank = heapq.heappop(self._waiting)
            merged = []
            for place in sorted(set(self._places.pop(rank))):
                if self._rank(place) == rank:  # false if another merge has changed it
                    self._merge(place)
                    merged.append(place)
            for place in merged:
                self._offer(place)
                if self._before[place] >= 0:
                    self._offer(self._before[place])


def units_of(word: str, table: BPE) -> tuple[str, ...]:
    """Splits a word into units by a table of merges, with the same result as subword-nmt."""
    symbols = [*word, _WORD_END]
    if table.version == (0, 2):
        symbols[-2:] = [word[-1] + _WORD_END]
    linked = _Word(symbols, table.bpe_codes)
    linked.merge_all()
    units = [symbol for symbol in linked.symbols if symbol]
    units[-1] = units[-1].removesuffix(_WORD_END)
    units = units if units[-1] else units[:-1]
    if table.vocab:
        units = check_vocab_and_split(units, table.bpe_codes_reverse, table.vocab, table.separator)
    return tuple(units)


class Table(BPE):
    """subword-nmt's table of merges, made fast for long words."""

    def segment_tokens(self, tokens: list[str], dropout: float = 0) -> list[str]:
        """Same as `BPE.segment_tokens`."""
        if not dropout:
            for token in tokens:
                if len(token) > LONG:
                    self.cache[token] = units_of(token, self)
        return super().segment_tokens(tokens, dropout)
