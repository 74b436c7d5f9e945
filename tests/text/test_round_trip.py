"""There and back: subwords joined are the words again, tokens detokenized are the text but blanks.

`bash tests/run.sh -m shared_data -rP tests/text/test_round_trip.py` prints how many lines of
real text come back to the blank.
"""

import os
from pathlib import Path

import pytest

from vaswani_plugin.text.bpe import learn, make_encoder
from vaswani_plugin.text.coding import join_bpe
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.moses import make_detokenizer, make_processor

DATA = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA"))
FILES = [
    *("tatoeba-en-de/valid.en", "tatoeba-en-de/valid.de", "tatoeba-en-fr/valid.fr"),
    *("newstest/en-de/newstest2013.en", "newstest/en-de/newstest2013.de"),
    *("newstest/en-fr/newstest2013.fr", "multi30k/val.en", "multi30k/val.de", "multi30k/val.fr"),
]
OWN_LINES = [
    "\u201eDas ist's!\u201c, rief der 5-j\u00e4hrige Bub (um 3,50 \u20ac) \u2026",
    "A well-known man's e-mail: <a@b.org> & more | [sic] 1/2 50% \u00a720 C++ don't \U0001f600",
]


def tokens_of(lines: list[str], language: str) -> list[str]:
    """The lines by Moses' rules, punctuation not normalized."""
    process = make_processor(language, False, False, True, False, True)
    return [process(line) for line in lines]


def check_subwords(tokens: list[str], folder: Path, merges: int) -> None:
    """Learns few merges from them, so that most words fall into pieces, and joins the pieces."""
    (folder / "tokens").write_text("".join(f"{line}\n" for line in tokens), encoding="utf-8")
    learn([str(folder / "tokens")], merges, 2, str(folder / "codes"))
    encode = make_encoder(str(folder / "codes"))
    pieces = [encode(line) for line in tokens]
    assert sum(map(len, pieces)) > 1.2 * sum(map(len, tokens))
    for line, piece in zip(tokens, pieces, strict=True):
        assert join_bpe(piece) == line


def check_tokens(lines: list[str], tokens: list[str], language: str) -> int:
    """Everything but blanks comes back; returns in how many lines the blanks do, too."""
    detokenize = make_detokenizer(language)
    back = [detokenize(line) for line in tokens]
    for line, text in zip(lines, back, strict=True):
        assert "".join(text.split()) == "".join(line.split())
    return sum(map(str.__eq__, lines, back))


def test_own_lines(tmp_path):
    tokens = tokens_of(OWN_LINES, "de")
    check_subwords(tokens, tmp_path, 5)
    check_tokens(OWN_LINES, tokens, "de")


@pytest.mark.shared_data
@pytest.mark.parametrize("name", FILES)
def test_real_text(name, tmp_path):
    path = DATA / f"{name}.gz"
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path} (set VASWANI_DATA to the folder of corpora)")
    language = name.rpartition(".")[2]
    lines = list(read_lines(path))
    tokens = tokens_of(lines, language)
    check_subwords(tokens, tmp_path, 300)
    exact = check_tokens(lines, tokens, language)
    print(f"{name}: {exact} of {len(lines)} lines come back to the blank, the others but blanks")
