"""Malformed requests: each is answered or its connection closed, and no harm is done."""

import contextlib
import json
import socket

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from services import fake_service, get, httpx, running

EXAMPLES = 150
GOOD = {"q": "Hello you", "source": "en", "target": "de"}
PATHS = ["/translate", "/detect", "/hypotheses", "/attention", "/languages", "/", "/%00"]
NAMES = ["q", "source", "target", "format", "alternatives", "api_key", "nbest", "translation", "x"]
ODD = [
    *("", " ", "\x00", "\u2028", "a" * 5000, "zz", "auto", "html", "<b", "<!", "<![", "<p" * 2000),
    *([""] * 500, "\U0010ffff", "e\u0301" * 50, "nan", "1e5", "٣", "-3", "\n" * 3000, "a\n" * 900),
    *("fail", "refuse", 1e308, 10**400, float("nan"), float("inf"), [None], [[]]),
]
TYPES = [
    *("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
    *("text/plain", "", "a" * 3000, ";", "multipart/form-data", "application/json; charset=utf-16"),
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)
fields = st.dictionaries(st.sampled_from(NAMES), values, max_size=3).map(lambda odd: GOOD | odd)
PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nHello\r\n'
whole = st.one_of(
    (fields | fields | values).map(json.dumps).map(str.encode),
    st.binary(max_size=300),
    st.sampled_from([b"[" * 50_000, b'{"q":' * 20_000, b'{"q": "\\ud800"}', b"q=a&" * 1500]),
    st.lists(st.integers(0, 255)).map(lambda codes: b"&".join(b"q=%%%02x" % c for c in codes)),
    st.integers(1, 3).map(lambda count: PART * count + b"--x--\r\n"),
)
cuts = st.tuples(st.integers(0, 200), st.integers(0, 20), st.binary(max_size=9))
# Some bytes in place of others.
bodies = whole | st.builds(lambda w, c: w[: c[0]] + c[2] + w[c[0] + c[1] :], whole, cuts)


def request_of(start, content, length=None, kind="application/json"):
    """The bytes of a request; `start`: its method and path."""
    head = f"{start} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += f"Content-Length: {len(content) if length is None else length}\r\n"
    return f"{head}Content-Type: {kind}\r\n\r\n".encode() + content


@st.composite
def requests(draw):
    """The bytes of a request, most of them with a right length."""
    body = draw(bodies)
    lengths = [len(body)] * 5 + [0, len(body) // 2, len(body) + 5, 10**9, 10**30, -1]
    method = draw(st.sampled_from(["POST"] * 6 + ["GET", "PUT", "HEAD", "OPTIONS", "BREW"]))
    path = draw(st.sampled_from(PATHS)) + draw(st.sampled_from(["", "?q=%ff&q=a", "?" * 50]))
    length, kind = draw(st.sampled_from(lengths)), draw(st.sampled_from(TYPES))
    return request_of(f"{method} {path}", body, length, kind)


def answer_to(port, request):
    """What comes back until the connection is closed; at most 60 s are waited for it."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while block := connection.recv(65536):
                received += block
    return received


def test_malformed_requests():
    limits = {"body_seconds": 5, "header_seconds": 5, "queue": 512}
    statuses, memory = set(), []
    with running(fake_service(limits=limits)) as service:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(requests() | st.binary(max_size=3000))
        @example(request_of("POST /translate", json.dumps(GOOD).encode()))
        @example(request_of("POST /nowhere", b"{}"))
        @example(request_of("PUT /translate", b"{}"))
        @example(request_of("POST /translate", b"{"))
        def send(request):
            received = answer_to(service.port, request)
            assert not received or received.startswith(b"HTTP/1.1 "), received[:100]
            statuses.add(int(received[9:12] or 0))
            good = httpx.post(service.url + "/translate", json=GOOD, timeout=60, verify=False)
            assert good.json() == {"translatedText": "HELLO YOU"}
            memory.append(service.memory())

        send()
        assert memory[-1] < 1.2 * memory[len(memory) // 3] + 2**22
        assert get(service, "/health").json() == {"status": "ok"}
        # Nothing failed but the texts that are made to.
        assert {event["error"] for event in service.events("exception")} <= {"RuntimeError"}
        service.terminate()
        assert service.wait() == 0
    assert {200, 400, 405, 404} <= statuses <= {0, 200, 400, 404, 405, 408, 413, 500, 503}
