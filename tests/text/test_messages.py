"""Messages are one line, of every script, too."""

import pytest

from tests.support.scripts import run_script
from vaswani_plugin import errors as messages


def test_a_message_is_one_printable_line():
    text = "a\x1b]0;title\x07b\nc\u2028d\udc80e\u202ef ä\U0001f600"
    shown = messages.message_line(text)
    assert shown == r"a\x1b]0;title\x07b\nc\u2028d\udc80e\u202ef ä" + "\U0001f600"
    text = "".join(chr(0x4E00 + n) for n in range(5000))
    start, end = messages.message_line(text).split(" ... ")
    assert text.startswith(start) and text.endswith(end)
    assert len(start) + len(end) == messages.LONGEST_MESSAGE and len(end) == 200
    longest = text[: messages.LONGEST_MESSAGE]
    assert messages.message_line(longest) == longest


@pytest.mark.parametrize(
    "script",
    [
        *("binarize.py", "bpe.py", "bundle.py", "check_corpus.py"),
        *("normalize_tokenize.py", "sentences.py", "wordpiece.py"),
    ],
)
def test_help_works_from_anywhere(tmp_path, script):
    done = run_script(f"data-prep/{script}", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")
