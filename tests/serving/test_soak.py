"""The service under clients of all kinds for minutes: no error, flat memory, a stop in time.

By default a minute with a toy model. For a real one:

    VASWANI_BUNDLE=work/quickstart/model VASWANI_SOAK_MINUTES=10 pytest -m slow -s \
        tests/serving/test_soak.py
"""

import contextlib
import json
import os
import random
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from services import get, running
from toy_bundle import write_toy_bundle

MINUTES = float(os.environ.get("VASWANI_SOAK_MINUTES", "1"))
CLIENTS = 16


def ask(port: int, body: bytes, wait: float = 100, pause: float = 0) -> int:
    """The status of a request on a connection of its own; 0 where the client did not wait for it.

    Args:
        port: of the loopback address.
        body: JSON, or something else.
        wait: seconds for the answer; then the client goes.
        pause: seconds between two parts of the request, and of the answer.
    """
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    request = head % len(body) + body
    answer = b""
    size = max(1, len(request) // 10) if pause else len(request)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), wait) as c:
        with contextlib.suppress(OSError):  # a refused body is not read to its end
            for start in range(0, len(request), size):
                c.sendall(request[start : start + size])
                time.sleep(pause)
        while block := c.recv(100 if pause else 65536):
            answer += block
            time.sleep(pause)
    return int(answer.split(b" ", 2)[1]) if answer else 0


def random_request(chance: random.Random, words: list[str]) -> tuple[bytes, dict[str, float]]:
    """The body of a request, and how its client behaves."""
    text: str | list[str] = " ".join(chance.choices(words, k=chance.randint(3, 20))) + "."
    fields, kind = {"source": "en", "target": "de"}, chance.randrange(40)
    if kind == 0:
        text = " ".join(chance.choices(words, k=400))  # long
    elif kind == 1:
        text = "1234567890" * 1000  # many subwords
    elif kind == 2:
        text = [" ".join(chance.choices(words, k=5)) for _ in range(100)]
    elif kind == 3:
        text, fields["format"] = f"<p>{text} <b>{text}</b></p>", "html"
    elif kind == 4:
        return b"x" * 2_000_000, {}
    body = json.dumps({"q": text, **fields}).encode()
    if kind == 5:
        return b"{" + body, {}
    return body, {6: {"wait": 0.05}, 7: {"pause": 0.05}}.get(kind, {})


def deaf_client(port: int) -> socket.socket:
    """A connection that asks much and never reads."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=0.5)
    with contextlib.suppress(TimeoutError):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
    return connection


@pytest.mark.slow
def test_clients_of_all_kinds(tmp_path):
    bundle = Path(os.environ.get("VASWANI_BUNDLE") or write_toy_bundle(tmp_path))
    lines = (bundle / "dict.en.txt").read_text(encoding="utf-8").split("\n")[:-1]
    words = [line.split(" ")[0] for line in lines if line[0].isalpha() and "@@" not in line]
    command = [sys.executable, "-m", "vaswani_plugin.cli", "serve", "--model", str(bundle)]
    statuses, over, memory = Counter[int](), threading.Event(), list[int]()
    health: list[int] = []
    with running([*command, "--cpu", "--port", "0", "--threads", "1"]) as service:

        def work(number: int) -> None:
            chance = random.Random(number)
            while not over.is_set():
                body, options = random_request(chance, words)
                statuses[ask(service.port, body, **options)] += 1

        deaf = [deaf_client(service.port) for _ in range(12)]
        end = time.monotonic() + 60 * MINUTES
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(work, number) for number in range(CLIENTS)]
            try:
                while time.monotonic() < end:
                    health.append(get(service, "/health").status_code)
                    pages = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
                    memory.append(int(pages) * os.sysconf("SC_PAGE_SIZE"))
                    time.sleep(MINUTES / 2)
                deaf += [deaf_client(service.port) for _ in range(12)]
                start = time.monotonic()
                service.terminate()
            finally:
                over.set()
            code, stopped = service.wait(60), time.monotonic() - start
            assert all(client.exception() is None for client in clients)
        errors = service.events("exception")
    warm = memory[len(memory) // 5 :]
    third = len(warm) // 3
    first, last = statistics.median(warm[:third]), statistics.median(warm[-third:])
    print(
        f"{sum(statuses.values())} requests, statuses {dict(sorted(statuses.items()))}; memory "
        f"{first / 2**20:.0f} then {last / 2**20:.0f} MiB; stopped after {stopped:.1f} s"
    )
    assert {status for status in statuses if status >= 500} <= {503} and not errors
    assert statuses[200] > 0.5 * sum(statuses.values())
    assert last < 1.05 * first
    assert code == 0 and stopped < 15
    assert set(health) == {200} and len(deaf) == 24
