"""Malformed requests: each gets an answer, no exception is raised, and the next one is answered."""

import json
from collections import Counter

import pytest
from fake_service import FakeTranslator
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_plugin.serving.texts import Limits
from vaswani_plugin.serving.work import Service

GOOD = {"q": "Hello you", "source": "en", "target": "de"}
PATHS = ["/translate", "/translate?q=%ff&q=a", "/detect", "/hypotheses", "/attention"]
NAMES = ["q", "source", "target", "format", "alternatives", "api_key", "nbest", "translation", "x"]
ODD = [
    *("", " ", "\x00", "\u2028", "a" * 5000, "zz", "auto", "html", "\n" * 3000, "a\n" * 900),
    *([""] * 500, "\U0010ffff", "e\u0301" * 50, "nan", "1e5", "٣", "-3", "refuse", 1e308, 10**400),
    *(float("nan"), float("inf"), [None], [[]]),
]
FORM = "multipart/form-data; boundary=x"
TYPES = [
    *("application/json", "application/x-www-form-urlencoded", FORM, f"{FORM}; charset=undefined"),
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


def test_malformed_requests():
    testing = pytest.importorskip("starlette.testclient", reason="needs pip install '.[serve]'")
    from vaswani_plugin.serving.app import Gate, create_app

    service = Service(FakeTranslator(), 4, Limits(queue=512))
    statuses = Counter()
    with testing.TestClient(create_app(service, Gate(None, None), [])) as client:

        @settings(max_examples=200, deadline=None)
        @given(st.sampled_from(PATHS), bodies, st.sampled_from(TYPES))
        def send(path, body, kind):
            answer = client.post(path, content=body, headers={"Content-Type": kind})
            statuses[answer.status_code] += 1
            assert answer.status_code == 200 or set(answer.json()) == {"error"}
            assert client.post("/translate", json=GOOD).json() == {"translatedText": "HELLO YOU"}

        send()
    assert {200, 400} <= set(statuses) <= {200, 400, 413}
