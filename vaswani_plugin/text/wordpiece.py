"""Word pieces for raw text: applied and undone by sentencepiece; wordpiece_learning.py learns them.

The input is raw text without tokenization. The output is pieces joined by single spaces; U+2581
marks the first piece of a word. What is decoded is what was encoded, character by character, except
that invisible characters without meaning are removed (raw_text.py), a letter and its accent become
one character (Unicode's form NFC), and blanks, tabs and line ends become single blanks. Models that
earlier versions learned (by sentencepiece's rule nmt_nfkc, which rewrites much more) keep theirs.

fairseq splits lines at every white space, so no piece may hold any: spaces other than the blank
(the no-break spaces of French, the wide space of Chinese) and U+2581 itself stand in pieces as
Unicode's noncharacters U+FDD0 and following, which no text holds. The rules for that are part of
the model, so that every other program which reads it does the same.

A character that is too rare for its own piece becomes its UTF-8 bytes, as pieces such as <0xE6>. No
text gives <unk> if fairseq's dictionary is `dictionary_lines` of the model. The names of special
pieces, such as <s> and <pad>, are plain letters if they occur in text: for sentencepiece these
pieces are control symbols, which match no text.
"""

import re
from collections.abc import Callable
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import join_words
from vaswani_plugin.text.raw_text import canonical

MARK = "\u2581"  # stands for the space before a word
_BLANKED = re.compile("[ \0\t\n\v\f\r\x1b-\x1f\x85\u2028\u2029]+")


def load(path: str | Path) -> SentencePieceProcessor:
    """Reads a model."""
    content = Path(path).read_bytes()
    try:
        # sentencepiece takes empty content for "no model given".
        return SentencePieceProcessor(model_proto=content or b"empty")
    except RuntimeError:  # the message may hold the file's bytes
        raise UserError(f"{path}: not a sentencepiece model: use wordpiece.py learn") from None


def make_encoder(path: str | Path) -> Callable[[str], str]:
    """Returns the function from a line of text to its pieces, joined by single spaces."""
    model = load(path)
    is_nmt_nfkc = "1" in model.normalize("\u2460")  # a circled one is a one there
    prepare = join_words if is_nmt_nfkc else canonical
    return lambda line: " ".join(model.encode(prepare(line), out_type=str))


def make_decoder(path: str | Path) -> Callable[[str], str]:
    """Returns the function from a line of pieces to one line of text.

    A model can output any pieces: invalid UTF-8 becomes U+FFFD, a line end, NUL or ESC becomes a
    space, unknown words stay.
    """
    model = load(path)

    def whole(piece: str) -> str:
        return piece.replace(MARK, " ") if model.is_unknown(model.piece_to_id(piece)) else piece

    def decode_line(line: str) -> str:
        pieces = line.split()
        text = model.decode(pieces)
        if MARK in text:  # of the text itself, or of a piece that the model lacks
            text = model.decode(list(map(whole, pieces)))
        return _BLANKED.sub(" ", text).strip(" ")

    return decode_line


def dictionary_lines(path: str | Path) -> list[str]:
    """Makes fairseq's dictionary of a model: all pieces, in the model's order.

    It includes pieces that do not occur in the training text. A dictionary counted from that text
    would lack them, and fairseq would read them as <unk>.
    """
    model = load(path)
    rows = range(model.get_piece_size())
    # fairseq adds the special symbols itself. It needs counts, but does not use their values.
    kept = (row for row in rows if not model.is_control(row) and not model.is_unknown(row))
    return [f"{model.id_to_piece(row)} 1" for row in kept]
