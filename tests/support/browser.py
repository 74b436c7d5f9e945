"""Headless Chromium for tests, driven over its DevTools pipe (no network, no further package)."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PROBLEMS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


def find_browser() -> str | None:
    """The program's path, None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page in a browser of its own.

    Args:
        program: Chromium's path.
        profile: an empty folder.
        patience: seconds to wait for any answer.
    """

    def __init__(self, program: str, profile: Path, patience: float = 120) -> None:
        commands, self.output = os.pipe()
        self.input, answers = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        flags += ["--no-first-run", "--disable-extensions", f"--user-data-dir={profile}"]
        # Chromium reads its commands at 3 and answers at 4.
        shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self.patience = patience
        self.received = b""
        self.count = 0
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A DevTools command's result."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        os.set_blocking(self.input, False)
        end = time.monotonic() + self.patience
        while b"\0" not in self.received:
            assert time.monotonic() < end, f"no answer from the browser in {self.patience} s"
            try:
                block = os.read(self.input, 1 << 16)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            assert block, "the browser has ended"
            self.received += block
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path | str) -> None:
        """Show a file or an address and wait until it is loaded."""
        self.events.clear()
        url = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, script: str) -> Any:
        """A JavaScript expression's value."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float) -> None:
        """`mouseMoved`, `mousePressed` or `mouseReleased` at a place of the window."""
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def key(self, key: str) -> None:
        """Press and release a key, named as JavaScript's `event.key`."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def window(self, width: int, height: int, dark: bool = False) -> None:
        """Set the window's size in pixels and the colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> bytes:
        """Write the window as PNG; returns its bytes."""
        picture = base64.b64decode(self.call("Page.captureScreenshot")["data"])
        path.write_bytes(picture)
        return picture

    def problems(self) -> list[dict[str, Any]]:
        """What the console has said since the page was opened."""
        return [event for event in self.events if event["method"] in PROBLEMS]

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def close(self) -> None:
        """End the browser."""
        try:
            self.session = None
            self.call("Browser.close")
        finally:
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            os.close(self.output)
            os.close(self.input)
