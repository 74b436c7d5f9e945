"""fetch.py against a small server: sums, resuming, failures."""

import hashlib
import http.server
import random
import threading
from collections.abc import Iterator

import pytest

from tests.support.scripts import assert_one_line_error, run_script

CONTENT = random.Random(5).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, parts of it on request; breaks off once where the path is /breaks."""

    requests: list[str | None] = []

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.requests.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if self.path == "/no-ranges":
            start = 0
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = 100_000 if self.path == "/breaks" and not start else len(CONTENT)
        self.wfile.write(CONTENT[start:end])

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a running server."""
    Handler.requests = []
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def fetch(url: str, output, sha256: str = SHA256):
    """Runs the script."""
    return run_script("data-prep/fetch.py", "--url", url, "--sha256", sha256, "--output", output)


def test_fetches_once(server, tmp_path):
    output = tmp_path / "sub" / "file"
    for expected in ("fetched", "already there"):
        done = fetch(f"{server}/file", output)
        assert done.returncode == 0 and expected in done.stdout, done.stderr
    assert output.read_bytes() == CONTENT
    assert Handler.requests == [None]
    assert [path.name for path in output.parent.iterdir()] == ["file"]


def test_continues_after_a_broken_connection(server, tmp_path):
    assert fetch(f"{server}/breaks", tmp_path / "file").returncode == 0
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == [None, "bytes=100000-"]


@pytest.mark.parametrize("path", ["file", "no-ranges"])
def test_continues_an_earlier_part(server, tmp_path, path):
    (tmp_path / "file.part").write_bytes(CONTENT[:1234])
    assert fetch(f"{server}/{path}", tmp_path / "file").returncode == 0
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == ["bytes=1234-"]


def test_wrong_content_is_not_kept(server, tmp_path):
    done = fetch(f"{server}/file", tmp_path / "file", "0" * 64)
    assert_one_line_error(done, f"sha256 is {SHA256}", "--data")
    assert list(tmp_path.iterdir()) == []


def test_unreachable(server, tmp_path):
    assert_one_line_error(fetch(f"{server}/missing", tmp_path / "file"), "404", "--data")
    assert_one_line_error(fetch("http://127.0.0.1:1/x", tmp_path / "file"), "refused", "--data")
