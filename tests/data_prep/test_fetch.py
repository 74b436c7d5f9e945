"""fetch.py against a small server: sums, resuming, mirrors, changed files, failures."""

import hashlib
import http.server
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import fetch
import pytest

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError

CONTENT = random.Random(5).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, parts of it on request; each path has one trait of servers met outside."""

    requests: list[str | None] = []
    breaks = 1

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.requests.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        version = '"v1"' if self.path in ("/tagged", "/breaks") else None
        version = 'W/"v1"' if self.path.endswith("weak") else version
        if self.path == "/no-ranges" or self.headers.get("If-Range", version) != version:
            start = 0
        if self.path == "/missing":
            self.send_error(404)
        elif start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._send(start, version)

    def _send(self, start: int, version: str | None) -> None:
        self.send_response(206 if start else 200)
        if start:
            shown = 0 if self.path == "/elsewhere" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if version:
            self.send_header("ETag", version)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = len(CONTENT)
        if self.path.startswith("/breaks") and type(self).breaks:
            type(self).breaks -= 1
            end = 100_000
        self.wfile.write(CONTENT[start:end][::-1] if self.path == "/wrong" else CONTENT[start:end])

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server(monkeypatch) -> Iterator[str]:
    """The address of a running server; waiting between tries is left out."""
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    Handler.requests, Handler.breaks = [], 1
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def leave_part(output: Path, content: bytes, url: str = "", version: str | None = None) -> None:
    """What an interrupted download leaves beside its output."""
    output.with_name(output.name + ".part").write_bytes(content)
    if url:
        origin = {"url": url, "version": version}
        output.with_name(output.name + ".part.json").write_text(json.dumps(origin))


def names(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_fetches_once(server, tmp_path):
    output = tmp_path / "sub" / "file"
    for expected in ("fetched", "already there"):
        done = run_script(
            "data-prep/fetch.py",
            *("--url", f"{server}/file", "--sha256", SHA256.upper(), "--output", output),
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{output}: {expected}, sha256 {SHA256}\n"
        assert done.stderr == ""
    assert output.read_bytes() == CONTENT
    assert Handler.requests == [None]
    assert names(output.parent) == ["file"]


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_continues_after_a_broken_connection(server, tmp_path, sha256):
    assert fetch.fetch([f"{server}/breaks"], sha256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == [None, "bytes=100000-"]


@pytest.mark.parametrize("path", ["breaks-untagged", "breaks-weak"])
def test_without_sum_or_version_a_broken_download_starts_over(server, tmp_path, path):
    assert fetch.fetch([f"{server}/{path}"], None, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == [None, None]


@pytest.mark.parametrize("path", ["file", "no-ranges", "tagged"])
def test_continues_an_earlier_part(server, tmp_path, path):
    leave_part(tmp_path / "file", CONTENT[:1234])
    assert fetch.fetch([f"{server}/{path}"], SHA256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == ["bytes=1234-"]
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_file_that_changed_on_the_server_starts_over(server, tmp_path, sha256):
    """One request does it: the server answers a stale If-Range with the whole file."""
    leave_part(tmp_path / "file", b"old" * 100, f"{server}/tagged", '"v0"')
    assert fetch.fetch([f"{server}/tagged"], sha256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == ["bytes=300-"]


def test_a_stale_part_without_a_version_is_found_by_the_sum(server, tmp_path):
    leave_part(tmp_path / "file", b"old" * 100)
    assert fetch.fetch([f"{server}/file"], SHA256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == ["bytes=300-", None]


@pytest.mark.parametrize("url", ["", "http://another.example/tagged", "/weak"])
def test_without_sum_only_a_part_of_the_same_version_continues(server, tmp_path, url):
    known = f"{server}{url}" if url.startswith("/") else url
    leave_part(tmp_path / "file", CONTENT[:1234], known, None if url == "/weak" else '"v1"')
    place = f"{server}{url}" if url == "/weak" else f"{server}/tagged"
    assert fetch.fetch([place], None, tmp_path / "file") == (True, SHA256)
    assert Handler.requests == [None]


@pytest.mark.parametrize("sha256", [SHA256, None])
@pytest.mark.parametrize(("extra", "count"), [(b"", 1), (b"more", 2)])
def test_a_part_that_has_all_or_too_much(server, tmp_path, extra, count, sha256):
    leave_part(tmp_path / "file", CONTENT + extra, f"{server}/tagged", '"v1"')
    assert fetch.fetch([f"{server}/tagged"], sha256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(Handler.requests) == count


def test_another_part_than_asked_for_is_refused(server, tmp_path):
    leave_part(tmp_path / "file", CONTENT[:1234])
    with pytest.raises(UserError, match="another part"):
        fetch.fetch([f"{server}/elsewhere"], SHA256, tmp_path / "file")
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:1234]


def test_mirrors_are_tried_in_order(server, tmp_path):
    urls = [f"{server}/missing", f"{server}/wrong", f"{server}/file", f"{server}/never"]
    assert fetch.fetch(urls, SHA256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(Handler.requests) == 3
    with pytest.raises(UserError, match="missing: HTTP Error 404.*wrong: sha256 is .*--data"):
        fetch.fetch(urls[:2], SHA256, tmp_path / "other")
    assert names(tmp_path) == ["file"]


def test_a_mirror_continues_what_another_began_if_there_is_a_sum(server, tmp_path):
    Handler.breaks = 3
    urls = [f"{server}/breaks", f"{server}/tagged"]
    assert fetch.fetch(urls, SHA256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.requests == [None] + 3 * ["bytes=100000-"]


def test_wrong_content_is_not_kept(server, tmp_path):
    done = run_script(
        "data-prep/fetch.py",
        *("--url", f"{server}/file", "--sha256", "0" * 64, "--output", tmp_path / "file"),
    )
    assert_one_line_error(done, f"sha256 is {SHA256}", "--data")
    assert names(tmp_path) == []


def test_an_output_with_another_sum_is_fetched_again(server, tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    assert fetch.fetch([f"{server}/file"], SHA256, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("as_url", [True, False])
def test_local_copies(tmp_path, as_url):
    (tmp_path / "local copy").write_bytes(CONTENT)
    place = (tmp_path / "local copy").as_uri() if as_url else str(tmp_path / "local copy")
    assert fetch.fetch([place], None, tmp_path / "file") == (True, SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/x", "refused"),
        ("http://[broken", "Invalid IPv6"),
        ("http://127.0.0.1:1/with space", "control characters"),
        ("/nowhere/at/all", "No such file"),
        ("gopherish://host/x", "unknown url type"),
    ],
)
def test_unreachable(monkeypatch, tmp_path, url, reason):
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    with pytest.raises(UserError, match=f"{reason}.*--data"):
        fetch.fetch([url], SHA256, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_sum_or_its_absence_must_be_given(tmp_path):
    common = ("data-prep/fetch.py", "--url", "x", "--output", tmp_path / "file")
    assert "--no-checksum" in run_script(*common).stderr
    assert_one_line_error(run_script(*common, "--sha256", "abc"), "--sha256 abc", "64 hexadecimal")
