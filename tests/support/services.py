"""A service in a process of its own; without its packages the module of tests is skipped."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.commands import REPO, python_command

REASON = "the service and its clients need pip install '.[serve]' and the dependency group test"
pytest.importorskip("starlette", reason=REASON)
pytest.importorskip("uvicorn", reason=REASON)
httpx = pytest.importorskip("httpx", reason=REASON)
LibreTranslateAPI = pytest.importorskip("libretranslatepy", reason=REASON).LibreTranslateAPI


class Running:
    """A process of this command that logs JSON lines; its URL is that of its first event."""

    def __init__(self, command: list[str]) -> None:
        environment = os.environ | {"PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.lines: list[str] = []
        self.url = ""
        """Without a slash at its end."""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready.wait(300)
        if not self.url:
            self.process.kill()
            raise RuntimeError(f"{command} did not start: {self.lines}")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if not self.url and self.events("ready"):
                self.url = self.events("ready")[0]["url"].rstrip("/")
                self._ready.set()
        self._ready.set()

    @property
    def port(self) -> int:
        """On the loopback address."""
        return int(self.url.rpartition(":")[2])

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """What it has logged: all, or those of a name."""
        found = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [event for event in found if name in (None, event["event"])]

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 120) -> int:
        """Its exit code, once it has ended by itself."""
        code = self.process.wait(seconds)
        self._reader.join()  # it ends with the process's output
        return code


@contextmanager
def running(command: list[str]) -> Iterator[Running]:
    """A service that is killed at the end if it has not ended before."""
    service = Running(command)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()


def fake_service(**given: Any) -> list[str]:
    """The command of fake_service.py with these settings."""
    return python_command(REPO / "tests/support/fake_service.py", json.dumps(given))


def get(service: Running, path: str) -> Any:
    """The answer to a GET; without certificates, which take httpx longer to read."""
    return httpx.get(service.url + path, timeout=300, verify=False)
