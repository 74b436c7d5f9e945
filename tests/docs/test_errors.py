"""The page of errors quotes messages that the program really has."""

import re
from pathlib import Path

import fairseq
import pytest

from tests.conftest import REPO

PAGE = REPO / "docs" / "how-to" / "errors.md"
FOLDERS = (REPO / "vaswani_plugin", REPO / "recipes", Path(fairseq.__file__).parent)
BETWEEN = re.compile(r'"\s*f?"|\{[^{}"]*\}|\$\w+|\$\{[^}]*\}|…')
"""What stands between a message's words in the code: the border of two literals, and values."""


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", BETWEEN.sub("", text))


@pytest.fixture(scope="module")
def sources() -> str:
    files = (p for folder in FOLDERS for e in ("py", "sh") for p in sorted(folder.rglob(f"*.{e}")))
    texts = [path.read_text(encoding="utf-8") for path in files]
    return "\n".join(text for code in texts for text in (code, plain(code)))


def messages() -> list[str]:
    """The first column's quotations."""
    rows = re.findall(r"^\| (`.*?) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("message", messages())
def test_a_message_of_the_page_is_in_the_code(message, sources):
    if message.startswith(("KeyError", "FileNotFoundError")):  # Python's own text
        message = message.partition(":")[0]
    known = plain(message).strip()
    assert len(known) > 7 and known in sources
