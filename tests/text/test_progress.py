"""Progress: a bar on a terminal, lines in a log."""

import contextlib
from collections.abc import Callable

from vaswani_plugin.text.progress import progress


class Terminal:
    """Something that says it is a terminal and keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """As a stream."""

    def isatty(self) -> bool:
        """It says so."""
        return True


def advance_by(steps: list[int]) -> Callable[..., None]:
    """Reports these steps to a progress of 100."""

    def work(total: int | None, **options) -> None:
        with progress("label", total, **options) as advance:
            for step in steps:
                advance(step)

    return work


def test_progress_in_a_log_is_a_line_each_tenth(capsys):
    advance_by([1] * 100)(100, unit="pairs", seconds=0)
    lines = capsys.readouterr().err.split("\n")
    assert lines == [*(f"label: {10 * i} pairs of 100 pairs ({10 * i}%)" for i in range(1, 11)), ""]
    advance_by([1] * 100)(100)
    assert capsys.readouterr().err == "", "work of less than ten seconds needs no line"
    advance_by([500_000, 2_000_000])(None, seconds=0)
    assert capsys.readouterr().err == "label: 0.5 MB\nlabel: 2.5 MB\n"


def test_progress_on_a_terminal_is_a_bar():
    terminal = Terminal()
    with contextlib.redirect_stderr(terminal):
        advance_by([50, 50])(100, unit="pairs", seconds=0)
    assert "label:" in terminal.text and "\r" in terminal.text and "\n" not in terminal.text
