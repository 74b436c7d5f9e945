"""Alignments of a translation with its source, as ``--replace-unk`` reads them."""

from collections.abc import Callable, Mapping, Sequence

from fairseq import utils
from fairseq.dataclass.configs import GenerationConfig

from vaswani_plugin.fairseq_plugin.patches._patching import patch


def replace_unknown_words_by_pairs() -> None:
    """``--replace-unk`` fails with "list indices must be integers or slices, not tuple".

    It expects a list of the source position of each target word. But alignments are pairs of
    positions or, with ``--print-alignment soft``, rows of probabilities.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    try:
        utils.replace_unk("<unk>", "word", [(0, 0)], {}, "<unk>")
    except TypeError:
        patch(utils, "replace_unk")(_by_pairs)


def replace_unknown_words_without_a_table() -> None:
    """``--replace-unk`` without a file fails with "No such file or directory: '@@ '".

    The flag's value is optional, and fairseq's default is that of ``--post-process``. Now the
    source word itself replaces the unknown word if no file is given.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    left_out = GenerationConfig()._get_argparse_const("replace_unk")
    if left_out is None or not left_out.strip():
        return

    @patch(utils, "load_align_dict")
    def load_align_dict(original: Callable, replace_unk: str | None) -> dict[str, str] | None:
        return original("" if replace_unk == left_out else replace_unk)


def _by_pairs(
    original: Callable,
    hypo_str: str,
    src_str: str,
    alignment: Sequence,
    align_dict: Mapping[str, str],
    unk: str,
) -> str:
    if any(isinstance(row, int) for row in alignment):
        return original(hypo_str, src_str, alignment, align_dict, unk)
    source_words = src_str.split()
    source_of = _source_positions(alignment)
    words = hypo_str.split()
    for position, word in enumerate(words):
        source = source_of.get(position)
        if word == unk and source is not None and source < len(source_words):
            words[position] = align_dict.get(source_words[source], source_words[source])
    return " ".join(words)


def _source_positions(alignment: Sequence) -> dict[int, int]:
    """Map target to source positions, from pairs (source, target) or rows of probabilities."""
    if all(isinstance(row, tuple) for row in alignment):
        return {target: source for source, target in alignment}
    rows = ([float(p) for p in row[:-1]] for row in alignment)  # all but the source's end
    return {target: row.index(max(row)) for target, row in enumerate(rows) if row}
