"""Malformed requests, drawn by chance: each is answered or its connection closed, and no harm done.

500 of them in the usual run, 10,000 in the slow one.
"""

import contextlib
import json
import random
import socket
import string

import pytest
from services import fake_service, get, httpx, running

GOOD = {"q": "Hello you", "source": "en", "target": "de"}
PATHS = (
    "/translate",
    "/detect",
    "/hypotheses",
    "/attention",
    "/languages",
    "/",
    "/metrics",
    "/%00",
)
VALUES = [
    *(
        None,
        True,
        0,
        -1,
        1e308,
        10**400,
        "",
        " ",
        "\x00",
        "\u2028",
        "a" * 5000,
        [],
        {},
        [[]],
        [None],
    ),
    *("en", "de", "auto", "zz", "text", "html", "<b", "<!", "<![", "&#xffffffff;", "<p" * 2000),
    *([""] * 500, ["a", 1], {"q": "a"}, "\U0010ffff", "e\u0301" * 50, "slow", "fail", "refuse"),
    *("nan", "1e5", "٣", "-3", "\n" * 3000, "a\n" * 900, float("nan"), float("inf")),
]
NAMES = ["q", "source", "target", "format", "alternatives", "api_key", "nbest", "translation", "x"]
TYPES = [
    *("application/json", "application/x-www-form-urlencoded", "text/plain", "", "a" * 3000, ";"),
    *("multipart/form-data", "multipart/form-data; boundary=x", "application/json; charset=utf-16"),
]


def random_json(chance):
    fields = GOOD | {n: chance.choice(VALUES) for n in chance.sample(NAMES, chance.randint(0, 3))}
    whole = chance.choice([fields, fields, fields, [fields], chance.choice(VALUES)])
    return json.dumps(whole).encode()


def broken(chance, body):
    """A body with some bytes changed, cut off, put in or repeated."""
    body = bytearray(body)
    for _ in range(chance.randint(1, 8)):
        place = chance.randint(0, len(body))
        kind = chance.randint(0, 3)
        if kind == 0:
            body[place:place] = bytes(chance.choices(range(256), k=chance.randint(1, 9)))
        elif kind == 1:
            del body[place : place + chance.randint(1, 20)]
        elif kind == 2 and place < len(body):
            body[place] = chance.randrange(256)
        else:
            body[place:place] = body[:place][: chance.randint(0, 200)]
    return bytes(body)


def random_body(chance):
    kind = chance.randint(0, 6)
    if kind == 0:
        return bytes(chance.choices(range(256), k=chance.randint(0, 300)))
    if kind == 1:
        return chance.choice([b"[" * 50_000, b'{"q":' * 20_000, b'"\\ud800"', b'{"q": "\\ud800"}'])
    if kind == 2:
        return b"&".join(
            b"q=%%%02x" % chance.randrange(256) for _ in range(chance.randint(1, 1500))
        )
    if kind == 3:
        part = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nHello\r\n'
        return broken(chance, part * chance.randint(1, 3) + b"--x--\r\n")
    body = random_json(chance)
    return broken(chance, body) if kind == 4 else body


def random_request(chance):
    """The bytes of a request, most of them with a right length."""
    body = random_body(chance)
    method = chance.choice(["POST"] * 8 + ["GET", "PUT", "HEAD", "OPTIONS", "BREW"])
    path = chance.choice(PATHS[:4] * 4 + PATHS) + chance.choice(["", "", "?q=%ff&q=a", "?" * 50])
    length = chance.choice([len(body)] * 8 + [0, len(body) // 2, len(body) + 5, 10**9, 10**30, -1])
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n"
    )
    kind = chance.choice(TYPES[:2] * 4 + TYPES)
    request = f"{head}Content-Type: {kind}\r\n\r\n".encode() + body
    odd = chance.randint(0, 20)
    if odd == 0:
        return broken(chance, request)
    if odd == 1:
        return "".join(chance.choices(string.printable, k=chance.randint(1, 3000))).encode()
    return request


def answer_to(port, request):
    """What comes back until the connection is closed; at most 10 s are waited for it."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while block := connection.recv(65536):
                received += block
    return received


def fuzz(count):
    limits = {"body_seconds": 1, "header_seconds": 1, "queue": 512}
    statuses = set()
    with running(fake_service(limits=limits)) as service:
        memory = 0
        for number in range(count):
            request = random_request(random.Random(number))
            received = answer_to(service.port, request)
            if received:
                assert received.startswith(b"HTTP/1.1 "), (number, received[:100])
                statuses.add(int(received[9:12]))
            if number % 100 == 99:
                good = httpx.post(service.url + "/translate", json=GOOD, verify=False)
                assert good.json() == {"translatedText": "HELLO YOU"}, number
            if number == count // 3:
                memory = service.memory()
        assert service.memory() < 1.2 * memory + 2**22
        assert get(service, "/health").json() == {"status": "ok"}
        # Nothing failed but the texts that are made to.
        assert {event["error"] for event in service.events("exception")} <= {"RuntimeError"}
        service.terminate()
        assert service.wait() == 0
    assert {200, 400, 413, 405, 404} <= statuses <= {200, 400, 404, 405, 408, 413, 500, 503}


def test_500_malformed_requests():
    fuzz(500)


@pytest.mark.slow
def test_10_000_malformed_requests():
    fuzz(10_000)
