"""The service over HTTP, in its own process: LibreTranslate's interface, limits and the log."""

import contextlib
import json
import re
import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families
from services import LibreTranslateAPI, fake_service, get, httpx, running, wait_for

GOOD = {"q": "Hello you", "source": "en", "target": "de"}
MEBIBYTE = 2**20
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


WRITTEN = '{"q": "Hello you", "source": "en", "target": "de", "alternatives": 2, "format": null}'


@pytest.mark.parametrize(
    "body",
    [
        {"json": GOOD | {"alternatives": 2}},
        {"data": GOOD | {"alternatives": "2"}},
        {"files": {name: (None, value) for name, value in (GOOD | {"alternatives": "2"}).items()}},
        {"params": GOOD | {"alternatives": "2"}},
        {"content": WRITTEN},  # without a type
        {"content": WRITTEN, "headers": FORM},
        {"content": "q=Hello+you&source=en&target=de&alternatives=2", "headers": FORM},
    ],
    ids=str,
)
def test_every_kind_of_body(service, body):
    assert post(service, **body).json() == {
        "translatedText": "HELLO YOU",
        "alternatives": ["HELLO YOU!", "HELLO YOU!!"],
    }


@pytest.mark.parametrize("text", ["h\u00e9", "h%C3%A9"])
def test_a_form_as_curl_sends_it(service, text):
    content = f"q={text}&source=en&target=de".encode()
    assert post(service, content=content, headers=FORM).json() == {"translatedText": "H\u00c9"}


def test_many_texts_html_and_sentences(service):
    texts = ["One.\r\nTwo.", " three ", "😀"]
    listed = post(service, json=GOOD | {"q": texts})
    assert listed.json() == {"translatedText": ["ONE.\r\nTWO.", " THREE ", "😀"]}
    form = post(service, data=GOOD | {"q": texts})
    assert form.json() == {"translatedText": ["ONE.\nTWO.", " THREE ", "😀"]}
    html = GOOD | {"q": "<p>Hi <b>you</b> &amp; me</p>", "format": "html"}
    translated = "<p>HI <b>YOU</b> &amp; ME</p>"
    assert post(service, json=html).json() == {"translatedText": translated}
    # One by one: the second alternative of each has an exclamation mark.
    sentences = GOOD | {"q": "One is. Two are.\n---", "alternatives": 1}
    assert post(service, json=sentences).json()["alternatives"] == ["ONE IS.! TWO ARE.!\n---"]


def test_settings_and_hypotheses(service):
    settings = get(service, "/frontend/settings").json()
    assert settings["charLimit"] == 10_000 and settings["keyRequired"] is False
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    lines = post(service, "/hypotheses", json={"q": "a b\n\nc", "nbest": 2}).json()["lines"]
    assert [line["source"] for line in lines] == ["a b", "c"]
    assert lines[0]["source_tokens"] == ["a", "b"]
    assert post(service, "/hypotheses", json={"q": " a. b\n"}).json()["layout"] == [
        *(" ", 0, "", "\n", ""),
    ]
    first, second = lines[0]["hypotheses"]
    assert first == {
        "text": "A B",
        "score": 0.0,
        "tokens": ["a", "b"],
        "token_scores": [-0.5, -0.5, -0.5],
        "alignment": [[0, 0], [1, 1]],
    }
    assert second["text"] == "A B!"


def test_a_failing_text_costs_no_other_one(service):
    with ThreadPoolExecutor(8) as pool:
        texts = ["one", "fail", "two", "refuse"] * 5
        found = list(pool.map(lambda q: post(service, json=GOOD | {"q": q}), texts))
    for text, answer in zip(texts, found, strict=True):
        wanted = {"fail": 500, "refuse": 400}.get(text, 200)
        assert answer.status_code == wanted
        assert wanted != 200 or answer.json() == {"translatedText": text.upper()}


def test_an_answer_waits_for_no_acknowledgement(service):
    """With Nagle's algorithm on, each answer on a kept connection takes 40 ms more."""
    seconds = []
    with httpx.Client(timeout=60, verify=False) as connection:
        for _ in range(30):
            start = time.perf_counter()
            connection.get(service.url + "/health")
            seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.03


# ---- limits


def test_a_body_that_is_too_large():
    with running(fake_service(limits={"body_bytes": 1000})) as service:
        for size in (1001, 10_000, 5 * MEBIBYTE):
            try:
                answer = post(service, content=b"x" * size)
            except httpx.WriteError:  # closed while it was still being sent
                assert size > 16_000
                continue
            assert answer.status_code == 413 and "1000 bytes" in answer.json()["error"]

        def endless():
            while True:
                yield b"x" * 100

        with contextlib.suppress(httpx.WriteError, httpx.ReadError):
            assert post(service, content=endless()).status_code == 413
        assert post(service, json=GOOD).status_code == 200
        wait_for(lambda: {e["status"] for e in service.events("request")} == {413, 200})


def connect(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=120)


def until_closed(connection):
    """What comes until the other side closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while block := connection.recv(65536):
            received += block
    return received


def test_slow_bodies_and_slow_headers_end():
    limits = {"body_seconds": 1, "header_seconds": 1}
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
    with running(fake_service(limits=limits)) as service:
        slow = [connect(service) for _ in range(100)]
        for connection in slow[:50]:
            connection.sendall(head + b"\r\nq=Hel")  # the body stops
        for connection in slow[50:99]:
            connection.sendall(head)  # the headers stop
        assert get(service, "/health").status_code == 200
        is_open = set(slow)
        end = time.monotonic() + 60
        while is_open and time.monotonic() < end:  # a byte now and then changes nothing
            for connection in slow[:99]:
                with contextlib.suppress(OSError):  # closed by now
                    connection.sendall(b"l")
            time.sleep(0.1)
            is_open -= set(select.select(is_open, [], [], 0)[0])
        assert not is_open
        for connection in slow[:50]:
            answer = until_closed(connection)
            assert answer.startswith(b"HTTP/1.1 408 ") and b"too slowly" in answer
        for connection in slow[50:]:  # the last one has sent nothing at all
            assert until_closed(connection) == b""
        with connect(service) as connection:  # a second request may not be slow either
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            while b'"ok"' not in connection.recv(65536):
                pass
            connection.sendall(head[:30])
            assert until_closed(connection) == b""
        assert post(service, json=GOOD).status_code == 200


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
        assert post(service, json=GOOD | {"api_key": "wrong"}).json() == {
            "error": "Invalid API key"
        }
        assert LibreTranslateAPI(service.url, "free").translate("a", "en", "de") == "A"
        statuses = [post(service, data=GOOD | {"api_key": "slow"}).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        for path in ("/detect", "/hypotheses", "/attention"):
            assert post(service, path, json={"q": "a", "translation": "b"}).status_code == 403
        for path in ("/languages", "/health", "/frontend/settings", "/metrics", "/"):
            assert get(service, path).status_code == 200


def test_other_sites_may_call_it_only_if_they_are_allowed():
    with running(fake_service(origins=["https://a.example"])) as service:
        for origin, allowed in (("https://a.example", True), ("https://b.example", False)):
            headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            found = [
                post(service, json=GOOD, headers=headers),
                httpx.options(
                    service.url + "/translate", headers=headers, timeout=60, verify=False
                ),
            ]
            for answer in found:
                assert (answer.headers.get("access-control-allow-origin") == origin) is allowed


def test_a_text_of_more_subwords_than_allowed_is_refused_and_costs_nothing(service):
    """A digit is a piece of its own here, as for many a model."""
    answer = post(service, json=GOOD | {"q": "1" * 10_000})
    assert answer.status_code == 413 and "more than 5000 subwords" in answer.json()["error"]
    assert queued(service) == 0
    assert post(service, json=GOOD | {"q": "1" * 20}).json() == {"translatedText": "1" * 20}


def test_pieces_of_a_long_text_take_turns_and_end_with_its_client():
    """While the model works on a long text, others are answered, and so is /health.

    The long text takes a minute and a half.
    """
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


def test_head_and_paths_behind_a_web_server(service):
    for path in ("/health", "/", "/metrics", "/languages"):
        answer = httpx.head(service.url + path, timeout=60, verify=False)
        assert answer.status_code == 200 and answer.content == b""
    page = get(service, "/").text
    assert not re.search(r"""(fetch|post)\(["'`]/|(src|href|action)=["']?/""", page)


def test_errors_are_json_also_where_no_route_answers():
    with running(fake_service(limits={"connections": 2})) as service:
        with connect(service) as odd:
            odd.sendall(b"NO SUCH\r\n\r\n")
            head, _, body = until_closed(odd).partition(b"\r\n\r\n")
        assert b" 400 " in head and b"application/json" in head
        assert set(json.loads(body)) == {"error"}
        idle = [connect(service) for _ in range(2)]
        wait_for(lambda: get(service, "/health").status_code == 503)
        answer = get(service, "/health")
        assert answer.json() == {"error": "Too many clients: try again later"}
        for connection in idle:
            connection.close()
        wait_for(lambda: get(service, "/health").status_code == 200)


@pytest.mark.parametrize(("proxies", "statuses"), [(None, [200, 429]), ("127.0.0.1", [200, 200])])
def test_who_a_request_is_forwarded_for_is_believed_of_trusted_proxies_alone(proxies, statuses):
    with running(fake_service(rate=1, proxies=proxies)) as service:
        headers = [{"X-Forwarded-For": f"10.0.0.{n}"} for n in range(2)]
        assert [post(service, json=GOOD, headers=h).status_code for h in headers] == statuses


def test_clients_that_do_not_read_are_closed_and_hold_up_no_stop():
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

    def ask_much(service):
        connection = connect(service)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            connection.sendall(request * 2000)
        return connection

    with running(fake_service(limits={"write_seconds": 1})) as service:
        connection = ask_much(service)
        end = time.monotonic() + 120
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    connection.sendall(b"x")
        assert time.monotonic() < end, "it is still open"
    with running(fake_service(limits={"stop_seconds": 2, "write_seconds": 1000})) as service:
        clients = [ask_much(service) for _ in range(12)]
        time.sleep(2)  # their connections are full by now
        service.terminate()
        assert service.wait(30) == 0
        assert len(clients) == 12


def test_a_model_that_never_answers_holds_up_no_stop():
    with running(fake_service(limits={"stop_seconds": 1})) as service:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(post, service, json=GOOD | {"q": "until /nowhere/at-all"})
            wait_for(lambda: queued(service) == 1)
            service.terminate()
            assert service.wait(30) == 0
            with contextlib.suppress(httpx.HTTPError):
                assert asked.result().status_code >= 500


# ---- stop


def test_sigterm_under_load_loses_nothing_that_was_accepted():
    """Each answer that the service logs as 200 has arrived, and what was refused was never logged.

    Each request opens its own connection, so that no client sends on a connection that is closing.
    """
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


def listens(service):
    try:
        with connect(service):
            return True
    except ConnectionError:
        return False


def test_sigterm_answers_a_request_on_its_way(tmp_path):
    """An idle connection on which a request is being sent, and one whose answer takes a while."""
    body = json.dumps(GOOD | {"q": f"until {tmp_path}/go"}).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    with running(fake_service(limits={"stop_seconds": 120}, on_its_way=120)) as service:
        early, late = connect(service), connect(service)
        early.sendall(head + body[:5])
        late.sendall(head[:20])
        get(service, "/health")  # which comes after them
        service.terminate()
        wait_for(lambda: not listens(service))
        early.sendall(body[5:])
        late.sendall(head[20:] + body)
        (tmp_path / "go").touch()
        assert b"/GO" in until_closed(early)
        assert b"/GO" in until_closed(late)
        assert service.wait() == 0


# ---- what is counted and logged


def parse_metrics(text):
    """Series to values."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


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
        assert abs(found["process_resident_memory_bytes",] / service.memory() - 1) < 0.2


def test_the_log_holds_no_text():
    """Whatever a client sends, in whatever place, and whatever goes wrong with it."""
    secret = "Zyzzyva"
    with running(fake_service(keys=["k"], limits={"characters": 100})) as service:
        good = GOOD | {"api_key": "k", "q": secret}
        post(service, json=good)
        post(service, data=good, headers={"User-Agent": secret, "X-Request-Id": secret})
        post(service, "/" + secret, json=good)
        post(service, "/translate?q=" + secret, json=good)
        post(service, json=good | {"q": f"{secret} " * 50})
        post(service, json=good | {"target": secret})
        post(service, json=good | {"api_key": secret})
        post(service, json=good | {"q": [secret, f"fail {secret}"]})
        post(service, json=good | {"q": [secret, f"refuse {secret}"]})
        post(service, content=f'{{"q": "{secret}'.encode(), headers={"Content-Type": "text/json"})
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


def test_headers_of_every_answer(service):
    answers = [get(service, path) for path in ("/", "/languages", "/nothing")]
    answers += [post(service, json=GOOD), post(service, json=GOOD | {"q": "fail"})]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in answer.headers
        assert len(answer.headers["x-request-id"]) == 16
