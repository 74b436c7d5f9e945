"""The service under many clients for a minute: no error, flat memory, a stop in time.

Minutes against a real model: VASWANI_BUNDLE=work/quickstart/model VASWANI_SOAK_MINUTES=10
"""

import json
import os
import random
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from services import get, httpx, running
from toy_bundle import write_toy_bundle

from tests.support.commands import python_command

SECONDS = 60 * float(os.environ.get("VASWANI_SOAK_MINUTES", "1"))
CLIENTS = 16


def random_request(chance: random.Random, words: list[str]) -> tuple[bytes, float]:
    """The body of a request, and how many seconds its client waits for the answer."""
    few = chance.choices(words, k=chance.randint(3, 20))
    odd: list[str | list[str]] = [" ".join(few * 40), "1234567890" * 999, few * 10, "x" * 2_000_000]
    kind = chance.randrange(30)
    text = odd[kind] if kind < len(odd) else " ".join(few)
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    return b"{" * (kind == 4) + body, 0.05 if kind == 5 else 100


@pytest.mark.slow
def test_many_clients(tmp_path):
    bundle = Path(os.environ.get("VASWANI_BUNDLE") or write_toy_bundle(tmp_path))
    lines = (bundle / "dict.en.txt").read_text(encoding="utf-8").split("\n")[:-1]
    words = [line.split(" ")[0] for line in lines if line[0].isalpha() and "@@" not in line]
    command = ("-m", "vaswani_plugin.cli", "serve", "--model", bundle, "--cpu", "--port", 0)
    statuses, memory, end = Counter[int](), list[float](), time.monotonic() + SECONDS
    with running(python_command(*command, "--threads", 1)) as service:

        def work(number: int) -> None:
            chance = random.Random(number)
            while time.monotonic() < end:
                body, wait = random_request(chance, words)
                try:
                    answer = httpx.post(f"{service.url}/translate", content=body, timeout=wait)
                    statuses[answer.status_code] += 1
                except httpx.ReadTimeout:
                    statuses[0] += 1

        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(work, number) for number in range(CLIENTS)]
            while time.monotonic() < end:
                after = get(service, "/metrics").text.split("\nprocess_resident_memory_bytes ")[1]
                memory.append(float(after.split()[0]))
                time.sleep(SECONDS / 120)
        service.terminate()
        assert all(client.exception() is None for client in clients)
        assert service.wait(300) == 0
        assert not service.events("exception")
    assert {status for status in statuses if status >= 500} <= {503}
    assert statuses[200] > 0.5 * sum(statuses.values())
    third = len(memory) // 3
    assert statistics.median(memory[-third:]) < 1.05 * statistics.median(memory[third : 2 * third])
