"""The service over HTTP, in its own process: LibreTranslate's interface, limits and the log."""

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families
from services import LibreTranslateAPI, fake_service, get, httpx, running

from tests.support.commands import wait_for
from vaswani_plugin.serving.server import bound_socket

GOOD = {"q": "Hello you", "source": "en", "target": "de"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def post(service, path="/translate", **options):
    return httpx.post(service.url + path, timeout=120, **options, verify=False)


def queued(service):
    """How many lines wait or are in work."""
    return parse_metrics(get(service, "/metrics").text)["vaswani_queue_lines",]


def test_the_client_of_libretranslate(service):
    client = LibreTranslateAPI(service.url)
    assert client.translate("Hello & you + <me>", "en", "de") == "HELLO & YOU + <ME>"
    assert client.translate("ä\nß", "auto", "de") == "Ä\nSS"
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert client.detect("Hello") == [{"confidence": 0.0, "language": "en"}]


ASKED = {"q": "Hé you", "source": "en", "target": "de", "alternatives": "2"}
WRITTEN = json.dumps(ASKED | {"alternatives": 2, "format": None})
AS_CURL = "q=Hé+you&source=en&target=de&alternatives=2"


@pytest.mark.parametrize(
    "body",
    [
        {"json": ASKED},
        {"data": ASKED},
        {"files": {name: (None, value) for name, value in ASKED.items()}},
        {"params": ASKED},
        {"content": WRITTEN},  # without a type
        {"content": WRITTEN, "headers": FORM},
        {"content": AS_CURL.encode(), "headers": FORM},
    ],
    ids=str,
)
def test_every_kind_of_body(service, body):
    assert post(service, **body).json() == {
        "translatedText": "HÉ YOU",
        "alternatives": ["HÉ YOU!", "HÉ YOU!!"],
    }


def test_many_texts_and_sentences(service):
    texts = ["One.\r\nTwo.", " three ", "😀"]
    listed = post(service, json=GOOD | {"q": texts})
    assert listed.json() == {"translatedText": ["ONE.\r\nTWO.", " THREE ", "😀"]}
    form = post(service, data=GOOD | {"q": texts})
    assert form.json() == {"translatedText": ["ONE.\nTWO.", " THREE ", "😀"]}
    # One by one: the second alternative of each has an exclamation mark.
    sentences = GOOD | {"q": "One is. Two are.\n---", "alternatives": 1}
    assert post(service, json=sentences).json()["alternatives"] == ["ONE IS.! TWO ARE.!\n---"]
    # What the page shows them by.
    shown = post(service, "/hypotheses", json={"q": " a. b\n"}).json()
    assert shown["layout"] == [" ", 0, "", "\n", ""]
    assert get(service, "/frontend/settings").json()["charLimit"] == 10_000


def test_a_failing_text_costs_no_other_one(service):
    with ThreadPoolExecutor(8) as pool:
        texts = ["one", "fail", "two", "refuse"] * 5
        found = list(pool.map(lambda q: post(service, json=GOOD | {"q": q}), texts))
    for text, answer in zip(texts, found, strict=True):
        wanted = {"fail": 500, "refuse": 400}.get(text, 200)
        assert answer.status_code == wanted
        assert wanted != 200 or answer.json() == {"translatedText": text.upper()}


def test_an_answer_waits_for_no_acknowledgement():
    """asyncio turns Nagle's algorithm off for this protocol; else each takes 40 ms more."""
    assert bound_socket("127.0.0.1", 0).proto == socket.IPPROTO_TCP


# ---- limits


def test_a_body_that_is_too_large():
    with running(fake_service(limits={"body_bytes": 1000})) as service:
        for size in (1001, 2**23):
            answer = post(service, content=b"x" * size)
            assert answer.status_code == 413 and "1000 bytes" in answer.json()["error"]
        assert post(service, json=GOOD).status_code == 200


def connect(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=120)


def until_closed(connection):
    """What comes until the other side closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while block := connection.recv(65536):
            received += block
    return received


def test_a_full_queue_is_503_and_then_it_goes_on(tmp_path):
    with running(fake_service(limits={"queue": 4})) as service, ThreadPoolExecutor(8) as pool:
        first = pool.submit(post, service, json=GOOD | {"q": f"until {tmp_path}/go"})
        wait_for(lambda: queued(service) == 1)
        more = [pool.submit(post, service, json=GOOD | {"q": f"text {n}"}) for n in range(7)]
        wait_for(lambda: sum(each.done() for each in more) == 4)
        (tmp_path / "go").touch()
        statuses = sorted(each.result().status_code for each in more)
        assert statuses == [200, 200, 200, 503, 503, 503, 503]
        refused = next(e.result() for e in more if e.result().status_code == 503)
        assert refused.headers["Retry-After"] == "1" and "waiting" in refused.json()["error"]
        assert first.result().status_code == 200
        assert post(service, json=GOOD | {"q": list("abcd")}).status_code == 200


def test_a_translation_that_takes_too_long_is_503(tmp_path):
    with running(fake_service(limits={"seconds": 0.3})) as service:
        answer = post(service, json=GOOD | {"q": f"until {tmp_path}/go"})
        assert answer.status_code == 503 and "0.3 s" in answer.json()["error"]
        assert post(service, json=GOOD).status_code == 503  # still busy with the first
        assert get(service, "/health").json() == {"status": "ok"}
        (tmp_path / "go").touch()
        wait_for(lambda: post(service, json=GOOD).status_code == 200)


def test_keys_and_their_rates():
    with running(fake_service(keys=["free", "slow"], rate=2)) as service:
        refused = post(service, json=GOOD)
        assert refused.status_code == 403 and "contact the server operator" in refused.text
        assert post(service, json=GOOD | {"api_key": "bad"}).json() == {"error": "Invalid API key"}
        assert LibreTranslateAPI(service.url, "free").translate("a", "en", "de") == "A"
        statuses = [post(service, data=GOOD | {"api_key": "slow"}).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        for key in ("slow", "wrong", "", ["a"]):  # those without a right one count by address
            refused = post(service, json=GOOD | {"api_key": key})
            assert refused.status_code == 429 and "2 per 1 minute" in refused.text
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert post(service, json=GOOD | {"api_key": "free"}).status_code == 200
    with running(fake_service(keys=["k"])) as service:
        for path in ("/translate", "/detect", "/hypotheses", "/attention"):
            assert post(service, path, json={"q": "a", "translation": "b"}).status_code == 403
        for path in ("/languages", "/health", "/frontend/settings", "/metrics", "/"):
            assert get(service, path).status_code == 200


def test_other_sites_may_call_it_only_if_they_are_allowed():
    with running(fake_service(origins=["https://a.example"])) as service:
        for origin, allowed in (("https://a.example", True), ("https://b.example", False)):
            headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            for method in ("POST", "OPTIONS"):
                answer = httpx.request(
                    method, f"{service.url}/translate", headers=headers, timeout=300, verify=False
                )
                assert (answer.headers.get("access-control-allow-origin") == origin) is allowed


def test_a_text_of_more_subwords_than_allowed_is_refused_and_costs_nothing(service):
    """A digit is a piece of its own here, as for many a model."""
    answer = post(service, json=GOOD | {"q": "1" * 10_000})
    assert answer.status_code == 413 and "more than 5000 subwords" in answer.json()["error"]
    assert queued(service) == 0
    assert post(service, json=GOOD | {"q": "1" * 20}).json() == {"translatedText": "1" * 20}


def test_pieces_of_a_long_text_take_turns_and_end_with_its_client():
    """While the model works on a long text, others are answered, and so is /health."""
    options = {"translator": {"line": 0.1}, "limits": {"batch": 4}}
    with running(fake_service(**options)) as service:
        with connect(service) as long:
            body = json.dumps(GOOD | {"q": "1" * 900}).encode()
            long.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\n")
            long.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            wait_for(lambda: 0 < queued(service) < 900)
            for _ in range(5):
                assert post(service, json=GOOD).status_code == 200
                assert get(service, "/health").status_code == 200
            assert queued(service) > 300
        wait_for(lambda: queued(service) == 0, 30)
        wait_for(lambda: [e["status"] for e in service.events("request")].count(499) == 1)


def test_head_and_what_every_answer_has(service):
    for path in ("/health", "/", "/metrics", "/languages"):
        answer = httpx.head(service.url + path, timeout=300, verify=False)
        assert answer.status_code == 200 and answer.content == b""
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
    for path, status in (("/nothing", 404), ("/languages", 405), ("/translate", 500)):
        answer = post(service, path, json=GOOD | {"q": "fail"})
        assert answer.status_code == status and set(answer.json()) == {"error"}
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.headers["x-request-id"]) == 16


def test_too_many_connections():
    with running(fake_service(limits={"connections": 3})) as service:
        idle = [connect(service) for _ in range(2)]
        wait_for(lambda: get(service, "/health").status_code == 503)
        idle += [connect(service) for _ in range(4)]
        assert [until_closed(each) for each in idle[4:]] == [b"", b""]  # no file for them
        for connection in idle:
            connection.close()
        wait_for(lambda: get(service, "/health").status_code == 200)


@pytest.mark.parametrize(
    ("proxies", "clients", "statuses"),
    [
        (None, ["10.0.0.1", "10.0.0.2"], [200, 429]),
        ("127.0.0.1", ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1"], [200, 200, 429]),
        # A network of 64 bits is one client.
        ("127.0.0.1", ["2001:db8::1", "2001:DB8:0:0:9::2", "2001:db8:0:1::"], [200, 429, 200]),
    ],
)
def test_x_forwarded_for_is_believed_of_trusted_proxies_alone(proxies, clients, statuses):
    with running(fake_service(rate=1, proxies=proxies)) as service:
        headers = [{"X-Forwarded-For": client} for client in clients]
        assert [post(service, json=GOOD, headers=h).status_code for h in headers] == statuses


BODY = json.dumps(GOOD).encode()
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    ("line", "head", "more", "status"),
    [
        (b"POST /translate", b"Content-Length: 5\r\n" + CHUNKS, [], 200),
        (b"POST /x", b"Content-Length: 9\r\n" + CHUNKS, [], 404),
        (b"GET /health", b"Connection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n", [], 200),
        (b"POST /x", CHUNKS[:30], [b"zz\r\n"] * 2, 404),
        (b"GET /health", b"\r\n", [b"no HTTP\r\n\r\n"], 200),
    ],
)
def test_odd_framing_closes_the_connection_and_costs_few_lines(service, line, head, more, status):
    before = len(service.lines)
    with connect(service) as connection:
        connection.settimeout(20)  # an idle one stays open for 75 s
        connection.sendall(b"%s HTTP/1.1\r\nHost: x\r\n%s" % (line, head))
        assert connection.recv(12) == b"HTTP/1.1 %d" % status
        for each in more:
            wait_for(lambda: len(service.lines) > before)
            connection.sendall(each)
        until_closed(connection)
    get(service, "/health")
    wait_for(lambda: len(service.lines) > before + 1 and "/health" in service.lines[-1])
    events = [json.loads(line)["event"] for line in service.lines[before:-1]]
    assert events == ["request", *["message"] * bool(more)]


# ---- stop


def test_no_client_and_no_model_holds_up_the_stop():
    """One client never reads, one sends half a request, and a translation never ends."""
    with running(fake_service(limits={"stop_seconds": 2})) as service:
        deaf, half = connect(service), connect(service)
        deaf.settimeout(1)
        with contextlib.suppress(TimeoutError):
            deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100_000)
        half.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(post, service, json=GOOD | {"q": "until /nowhere/at-all"})
            wait_for(lambda: queued(service) == 1)
            service.terminate()
            assert service.wait(30) == 0
            with contextlib.suppress(httpx.HTTPError):
                assert asked.result().status_code == 500


def test_sigterm_under_load_loses_nothing_that_was_accepted():
    """Each answer logged as 200 has arrived; each request opens a connection of its own."""
    with running(fake_service(translator={"call": 0.05}, limits={"batch": 4})) as service:

        def talk(number):
            ids, lost = [], 0
            while True:
                try:
                    answer = post(service, json=GOOD | {"q": f"text {number}"})
                except httpx.ConnectError:
                    return ids, lost  # it listens no more
                except httpx.HTTPError:
                    lost += 1  # accepted by the kernel, never by the service
                    continue
                assert answer.json() == {"translatedText": f"TEXT {number}"}
                ids.append(answer.headers["x-request-id"])

        with ThreadPoolExecutor(32) as pool:
            clients = [pool.submit(talk, number) for number in range(32)]
            wait_for(lambda: len(service.events("request")) > 50)
            service.terminate()
            found = [client.result() for client in clients]
        assert service.wait() == 0
    received = [number for ids, _ in found for number in ids]
    logged = [event for event in service.events("request")]
    assert {event["status"] for event in logged} == {200}
    assert sorted(received) == sorted(event["id"] for event in logged)
    assert service.events("stopped")


def test_sigterm_answers_a_request_on_its_way(tmp_path):
    """One whose body is being sent; an idle connection is closed."""
    body = json.dumps(GOOD | {"q": f"until {tmp_path}/go"}).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    service_of = running(fake_service(limits={"stop_seconds": 1000}))
    with service_of as service, httpx.Client(timeout=300, verify=False) as idle:
        client = connect(service)
        client.sendall(head + body[:5])
        idle.get(service.url + "/health")  # which comes after it
        service.terminate()
        with pytest.raises(httpx.HTTPError):
            while True:
                idle.get(service.url + "/health")
        client.sendall(body[5:])
        (tmp_path / "go").touch()
        assert b"/GO" in until_closed(client)
        assert service.wait(300) == 0


# ---- what is counted and logged


def parse_metrics(text):
    """Series to values."""
    families = text_string_to_metric_families(text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_metrics():
    with running(fake_service()) as service:
        for q in ("a", "b c\nd"):
            post(service, json=GOOD | {"q": q})
        post(service, json={})
        get(service, "/secret/text")
        answer = get(service, "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        found = parse_metrics(answer.text)
        counts = {("/translate", "200"): 2, ("/translate", "400"): 1, ("other", "404"): 1}
        for place, count in counts.items():
            assert found["vaswani_requests_total", *place] == count
        assert found["vaswani_lines_total",] == 3 and found["vaswani_characters_total",] == 5
        assert found["vaswani_queue_lines",] == found["vaswani_batch_age_seconds",] == 0
        assert found["process_resident_memory_bytes",] > 2**20


def test_the_log_holds_no_text():
    """Whatever a client sends, in whatever place, and whatever goes wrong with it."""
    secret = "Zyzzyva"
    with running(fake_service(keys=["k"], limits={"characters": 100})) as service:
        good = GOOD | {"api_key": "k", "q": secret}
        post(service, data=good, headers={"User-Agent": secret, "X-Request-Id": secret})
        post(service, content=f'{{"q": "{secret}'.encode(), headers={"Content-Type": "text/json"})
        for path in ("/" + secret, "/translate?q=" + secret):
            post(service, path, json=good)
        for name in ("q", "target", "api_key", "format"):
            post(service, json=good | {name: f"{secret} " * 50})
        for failing in ("fail", "refuse"):
            post(service, json=good | {"q": [secret, f"{failing} {secret}"]})
        httpx.request(secret, service.url + "/translate", verify=False)
        with connect(service) as connection:
            connection.sendall(f"{secret} {secret}\r\n\r\n".encode())
            until_closed(connection)
        service.terminate()
        assert service.wait() == 0
        assert len(service.events("request")) == 11
        assert [e["error"] for e in service.events("exception")] == ["RuntimeError"]
        assert secret.lower() not in "".join(service.lines).lower()
        assert all(line.startswith("{") for line in service.lines)
