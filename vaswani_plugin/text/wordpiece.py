"""Word pieces for raw text: learned, applied and undone by sentencepiece.

Text goes in as people write it, without a tokenizer before it, and comes out in pieces between
single spaces, a word's first piece marked by U+2581. sentencepiece normalizes by `nmt_nfkc`:
Unicode's NFKC, and besides control characters dropped, zero-width spaces and U+2581 itself turned
into spaces; under plain `nfkc` a U+2581 of the text could not be told from a mark. What is white
space to Python and hence to fairseq, but not to sentencepiece (U+0085, U+001C), becomes a space
before. So no piece holds white space, and undoing gives exactly the normalized text.

A character that is too rare for a piece of its own becomes its UTF-8 bytes, pieces such as <0xE6>:
no text gives <unk>, given that fairseq's dictionary is `dictionary_lines` of the model. The names
of special pieces, <s> or <pad>, are plain letters where text holds them: such pieces are known to
sentencepiece as control symbols and match no text.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from sentencepiece import sentencepiece_model_pb2 as model_pb2

from vaswani_plugin.text.corpus_io import InputError, read_lines
from vaswani_plugin.text.likelihood_pieces import learn_merges

KINDS = ("unigram", "bpe", "likelihood")
# Lines that sentencepiece holds in memory, of a larger corpus.
SAMPLE = 10_000_000
# A float sum over threads depends on their number: it is the same on every machine.
_THREADS = 8
_MARK = "\u2581"  # stands for the space before a word
_SETTINGS = {
    "normalization_rule_name": "nmt_nfkc",
    "byte_fallback": True,
    # As in Wu et al. (2016) letters too rare to be worth a row get none (here: one in 50,000).
    "character_coverage": 0.99998,
    "unk_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    # fairseq has a <pad> of its own: as a control symbol it is never learned as a piece.
    "pad_id": 3,
    "num_threads": _THREADS,
}

# In what sentencepiece says of a vocabulary's size: the most pieces that the text gives.
_HIGHEST = re.compile(r"set it to a value <= (\d+)")


def _plain_spaces(line: str) -> str:
    return " ".join(line.split())


def _sentences(paths: list[str], sample: int) -> Iterator[str]:
    """The lines that hold words; of more than `sample` as many, evenly spaced over all files.

    sentencepiece's own sampling (`input_sentence_size`) differs from process to process, whatever
    its seed is set to.
    """
    for path in paths:
        if path == "-" or Path(path).is_fifo():
            raise InputError(f"{path}: must be a file: a pipe can't be read twice")
    counts = {path: sum(bool(line.strip()) for line in read_lines(path)) for path in paths}
    for path, count in counts.items():
        if count == 0:
            raise InputError(f"{path}: the file holds no words")
    lines = (line for path in paths for line in map(_plain_spaces, read_lines(path)) if line)
    total = sum(counts[path] for path in paths)
    kept = min(sample, total)
    # Bad text was found above, where an error still comes back whole, not from inside the library.
    return (
        line
        for number, line in enumerate(lines)
        if (number + 1) * kept // total > number * kept // total
    )


def _remedy(error: RuntimeError, size: int) -> str:
    """What sentencepiece says of a vocabulary's size, as one line for the user."""
    highest = _HIGHEST.search(str(error))
    if highest:
        return f"--size {size}: too many for this text, which gives at most {highest[1]}"
    if "required_chars" in str(error):
        return f"--size {size}: too few for the letters of this text and 256 bytes: choose more"
    return f"sentencepiece could not learn from this text: {' '.join(str(error).split())}"


def learn(
    paths: list[str], size: int, kind: str, sample: int = SAMPLE, at_most: bool = False
) -> bytes:
    """Learns one model from all files together; equal input gives equal bytes, on any machine.

    Args:
        size: pieces, with 256 bytes and 4 special ones among them.
        kind: `unigram` (Kudo 2018), `bpe` (Sennrich et al. 2016) or `likelihood` (Schuster and
            Nakajima 2012; see `likelihood_pieces.py`), for up to a few million words.
        sample: of more lines than this so many are used, evenly spaced; bounds memory.
        at_most: learn fewer pieces where the text doesn't give as many.

    Returns:
        The model, a file's content for `load`.

    Raises:
        InputError: a file holds no words or isn't text, or `size` doesn't suit the text.
        OSError: a file can't be read.
    """
    model = _learn_by_sentencepiece(
        paths, size, "bpe" if kind == "likelihood" else kind, sample, at_most
    )
    return _merged_by_likelihood(model, paths, sample) if kind == "likelihood" else model


def _learn_by_sentencepiece(
    paths: list[str], size: int, kind: str, sample: int, at_most: bool
) -> bytes:
    try:
        return _train(paths, size, kind, sample)
    except RuntimeError as error:
        highest = _HIGHEST.search(str(error))
        if at_most and highest:
            return _train(paths, int(highest[1]), kind, sample)
        raise InputError(_remedy(error, size)) from None


def _train(paths: list[str], size: int, kind: str, sample: int) -> bytes:
    sentences = _sentences(paths, sample)
    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        # Its log is for whoever watches; errors come as exceptions.
        minloglevel=0 if sys.stderr.isatty() else 2,
        **_SETTINGS,
    )
    return model.getvalue()


def _merged_by_likelihood(model: bytes, paths: list[str], sample: int) -> bytes:
    """A model of sentencepiece's BPE with its merges replaced by those of `learn_merges`.

    Letters, bytes, special pieces and normalization stay, and so does the way in which text is cut:
    the merge that was learned first is made first. Where fewer merges raise the likelihood, the
    model is smaller.
    """
    encoder = SentencePieceProcessor(model_proto=model)
    proto = model_pb2.ModelProto.FromString(model)
    normal = model_pb2.ModelProto.SentencePiece.Type.NORMAL
    letters = {p.piece for p in proto.pieces if p.type == normal and len(p.piece) == 1}
    merged = [p for p in proto.pieces if p.type == normal and len(p.piece) > 1]
    others = [p for p in proto.pieces if p.type != normal or len(p.piece) == 1]
    words: Counter[tuple[str, ...]] = Counter()
    for line in _sentences(paths, sample):
        for word in encoder.normalize(line).split(_MARK):
            if word:
                # A letter without a piece becomes bytes, which are in no merge.
                letters_of_word = (letter if letter in letters else "" for letter in word)
                words[_MARK, *letters_of_word] += 1
    taken = {p.piece for p in proto.pieces if p.type != normal}
    pairs = list(learn_merges(words, len(merged), taken))
    specials = [p for p in others if p.type != normal]
    del proto.pieces[:]
    proto.pieces.extend(specials)
    names = ["".join(pair) for pair in pairs]
    names += [p.piece for p in others if p.type == normal]
    for rank, name in enumerate(names):
        proto.pieces.add(piece=name, score=-float(rank), type=normal)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def load(path: str | Path) -> SentencePieceProcessor:
    """Reads a model.

    Raises:
        InputError: the file is no sentencepiece model.
        OSError: the file can't be read.
    """
    content = Path(path).read_bytes()
    try:
        if content:  # an empty one would pass for no model given
            model = SentencePieceProcessor(model_proto=content)
            model.id_to_piece(list(range(model.get_piece_size())))  # each must be text
            return model
    except (RuntimeError, UnicodeDecodeError):  # its message, too, may hold the file's bytes
        pass
    raise InputError(f"{path}: no sentencepiece model (make one by `wordpiece.py learn`)")


def make_encoder(path: str | Path) -> Callable[[str], str]:
    """Returns the function from a line of text to its pieces, joined by single spaces."""
    encode = load(path).encode

    def encode_line(line: str) -> str:
        return " ".join(encode(_plain_spaces(line), out_type=str))

    return encode_line


def make_decoder(path: str | Path) -> Callable[[str], str]:
    """Returns the function from a line of pieces to text: one line, whatever the pieces.

    Of what the encoder made it gives the normalized text. A model may write any pieces: bytes that
    are no UTF-8 become U+FFFD, a byte that is a line end becomes a space, unknown words stay.
    """
    decode = load(path).decode

    def decode_line(line: str) -> str:
        return _plain_spaces(decode(line.split()).replace("\u2581", " "))

    return decode_line


def dictionary_lines(path: str | Path) -> list[str]:
    """fairseq's dictionary of a model: every piece, seen in training or not, in the model's order.

    A dictionary counted from the training text would lack the bytes and letters that only other
    texts have, and fairseq would read them as <unk>.
    """
    model = load(path)
    rows = range(model.get_piece_size())
    # fairseq adds the special symbols itself. It wants counts; nothing is left to count for.
    kept = (row for row in rows if not model.is_control(row) and not model.is_unknown(row))
    return [f"{model.id_to_piece(row)} 1" for row in kept]
