"""recipes/benchmarks/measurement: commands that are interrupted."""

import subprocess
import sys

import pytest

from tests.conftest import REPO

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import measurement  # noqa: E402


def test_an_interruption_ends_the_commands_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another command of the group has ended by itself."""
    started: list[subprocess.Popen] = []
    start = measurement._start

    def interrupt(session: int) -> int:
        if started[0].poll() is not None:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(measurement, "_start", lambda *a: started.append(start(*a)) or started[-1])
    monkeypatch.setattr(measurement, "session_memory", interrupt)
    commands = [measurement.Command(["true"]), measurement.Command(["sleep", 60])]
    with pytest.raises(KeyboardInterrupt):
        measurement.measure(1, commands)
    assert [process.wait(10) for process in started] == [0, -15]
