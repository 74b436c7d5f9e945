"""files.parallel: blocks of whole lines, results in order, workers that are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import REPO, wait_for
from vaswani_plugin.errors import UserError
from vaswani_plugin.files.parallel import map_blocks, process_file


def reverse():
    """A line function's factory."""
    return lambda line: line[::-1]


def test_any_number_of_workers_gives_the_same_file(tmp_path):
    lines = [f"{number} {'x' * (number % 50)}" for number in range(60_000)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    for workers in (1, 3):
        count = process_file(reverse, str(tmp_path / "in"), str(tmp_path / "out"), workers)
        assert count == len(lines)
        assert (tmp_path / "out").read_text() == "".join(f"{line[::-1]}\n" for line in lines)


TESTING_PROCESS = os.getpid()


def die(block):
    """Ends the process as a lack of memory does."""
    assert os.getpid() != TESTING_PROCESS, "must run in a worker"
    os.kill(os.getpid(), signal.SIGKILL)


def dying():
    """A block function's factory."""
    return die


def test_a_killed_worker_is_an_error_and_not_a_wait(tmp_path):
    (tmp_path / "in").write_text("a\n" * 100)
    with pytest.raises(UserError, match="in: a worker process was killed"):
        list(map_blocks(dying, str(tmp_path / "in"), 2, 20))


def children(pid: int) -> list[int]:
    """Living child processes."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: looks for processes in /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, sent):
    script = [sys.executable, str(REPO / "data-prep" / "normalize_tokenize.py")]
    with subprocess.Popen(
        [*script, "--language", "en", "--workers", "2", "--output", str(tmp_path / "out")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        process.stdin.write(b"Some words, and some more.\n" * 50_000)
        wait_for(lambda: len(children(process.pid)) == 2)
        workers = children(process.pid)
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)  # as a terminal does
        else:
            process.send_signal(sent)
        messages = process.communicate()[1]
    assert messages == (b"normalize_tokenize.py: interrupted\n" if sent == signal.SIGINT else b"")
    assert process.returncode == (130 if sent == signal.SIGINT else -sent)
    wait_for(lambda: not any(Path(f"/proc/{w}").exists() for w in workers))
    if sent == signal.SIGINT:
        assert list(tmp_path.iterdir()) == []
