"""Word pieces for raw text: learned, applied and undone by sentencepiece.

The input is raw text without tokenization. The output is pieces joined by single spaces; U+2581
marks the first piece of a word. sentencepiece normalizes by `nmt_nfkc`, which is Unicode's NFKC and
also drops control characters and turns zero-width spaces and U+2581 into spaces. With plain `nfkc`,
a U+2581 of the text would look like a mark. Some characters are white space to Python, and so to
fairseq, but not to sentencepiece (U+0085, U+001C): they become spaces first. So no piece holds
white space, and decoding gives exactly the normalized text.

A character that is too rare for its own piece becomes its UTF-8 bytes, as pieces such as <0xE6>. No
text gives <unk> if fairseq's dictionary is `dictionary_lines` of the model. The names of special
pieces, such as <s> and <pad>, are plain letters if they occur in text: for sentencepiece these
pieces are control symbols, which match no text.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from sentencepiece import sentencepiece_model_pb2 as model_pb2

from vaswani_plugin.text.corpus_io import join_words, read_lines
from vaswani_plugin.text.likelihood_pieces import learn_merges
from vaswani_plugin.text.messages import InputError

KINDS = ("unigram", "bpe", "likelihood")
# The most lines of a corpus that sentencepiece gets; it holds them in memory.
SAMPLE = 10_000_000
# A float sum over threads depends on their number, so the number is the same on every machine.
_THREADS = 8
_MARK = "\u2581"  # stands for the space before a word
_SETTINGS = {
    "normalization_rule_name": "nmt_nfkc",
    "byte_fallback": True,
    # As in Wu et al. (2016), very rare letters (here: one in 50,000) get no row.
    "character_coverage": 0.99998,
    "unk_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    # fairseq has its own <pad>: as a control symbol, it is never learned as a piece.
    "pad_id": 3,
    "num_threads": _THREADS,
    # In bytes. sentencepiece skips longer lines, by default those above 4,192, without an error.
    "max_sentence_length": 1 << 30,
}

# The part of sentencepiece's message with the largest vocabulary that the text allows.
_HIGHEST = re.compile(r"set it to a value <= (\d+)")


def _sentences(paths: list[str], sample: int) -> Iterator[str]:
    """Yields the lines that hold words; at most `sample` of them, evenly spaced over all files.

    sentencepiece's own sampling (`input_sentence_size`) differs from process to process, even with
    a fixed seed.
    """
    for path in paths:
        if path == "-" or Path(path).is_fifo():
            raise InputError(f"{path}: must be a file: a pipe can't be read twice")
    counts = {path: sum(bool(line.strip()) for line in read_lines(path)) for path in paths}
    for path, count in counts.items():
        if count == 0:
            raise InputError(f"{path}: the file holds no words")
    lines = (line for path in paths for line in map(join_words, read_lines(path)) if line)
    total = sum(counts[path] for path in paths)
    kept = min(sample, total)
    # Counting has already checked the text: an error inside the library would lose its message.
    return (
        line
        for number, line in enumerate(lines)
        if (number + 1) * kept // total > number * kept // total
    )


def _remedy(error: RuntimeError, size: int) -> str:
    """Turns sentencepiece's message on the vocabulary's size into one line for the user."""
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
        paths: the training text, all languages together.
        size: number of pieces, including 256 bytes and 4 special pieces.
        kind: `unigram` (Kudo 2018), `bpe` (Sennrich et al. 2016) or `likelihood` (Schuster and
            Nakajima 2012; see `likelihood_pieces.py`), for up to a few million words.
        sample: number of lines that are used, at most, evenly spaced; limits the memory.
        at_most: learn fewer pieces if the text doesn't give `size` pieces.

    Returns:
        The model, as the content of a file for `load`.

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
        # Its log goes to a terminal only; errors are raised as exceptions.
        minloglevel=0 if sys.stderr.isatty() else 2,
        **_SETTINGS,
    )
    return model.getvalue()


def _merged_by_likelihood(model: bytes, paths: list[str], sample: int) -> bytes:
    """Replaces the merges of sentencepiece's BPE model by those of `learn_merges`.

    Letters, bytes, special pieces and normalization stay. Text is also encoded in the same way: the
    merge that was learned first is applied first. If fewer merges raise the likelihood, the model
    is smaller.
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
                # A letter without a piece becomes bytes, which are never merged.
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
        InputError: the file is not a sentencepiece model.
        OSError: the file can't be read.
    """
    content = Path(path).read_bytes()
    try:
        if content:  # sentencepiece takes empty content for "no model given"
            model = SentencePieceProcessor(model_proto=content)
            model.id_to_piece(list(range(model.get_piece_size())))  # each piece must be valid text
            return model
    except (RuntimeError, UnicodeDecodeError):  # the message may hold the file's bytes
        pass
    raise InputError(f"{path}: not a sentencepiece model (make one by `wordpiece.py learn`)")


def make_encoder(path: str | Path) -> Callable[[str], str]:
    """Returns the function from a line of text to its pieces, joined by single spaces."""
    encode = load(path).encode

    def encode_line(line: str) -> str:
        return " ".join(encode(join_words(line), out_type=str))

    return encode_line


def make_decoder(path: str | Path) -> Callable[[str], str]:
    """Returns the function from a line of pieces to one line of text.

    For the encoder's output it returns the normalized text. A model can output any pieces: invalid
    UTF-8 becomes U+FFFD, a line end becomes a space, unknown words stay.
    """
    decode = load(path).decode

    def decode_line(line: str) -> str:
        return join_words(decode(line.split()).replace("\u2581", " "))

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
