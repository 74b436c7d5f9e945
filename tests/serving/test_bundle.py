"""`vaswani serve` with a bundle: it translates as the Translator; how it starts and ends."""

import json
import random
import signal
import sys
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from services import Running, httpx, running
from toy_bundle import SENTENCES

from tests.support.commands import python_command, vaswani
from vaswani_plugin.inference.translator import Translator

WORDS = " ".join(SENTENCES).split()


@pytest.fixture(scope="module")
def translator(toy_bundle):
    return Translator.from_pretrained(toy_bundle)


def command(bundle, *flags):
    serve = ("-m", "vaswani_plugin.cli", "serve", "--cpu", "--port", 0, "--model", bundle)
    return python_command(*serve, *flags)


@pytest.fixture(scope="module")
def served(toy_bundle):
    with running(command(toy_bundle)) as service:
        yield service


def ask(service: Running, path: str = "/translate", **fields):
    fields = {"source": "en", "target": "de"} | fields
    return httpx.post(service.url + path, json=fields, timeout=300, verify=False)


def post(service: Running, path: str = "/translate", **fields):
    answer = ask(service, path, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_it_translates_as_the_translator_does(served, translator):
    """From many clients at once: sentences of any length, some longer than the model takes."""
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(60)]
    wanted = [each.text for each in translator.translate(texts, beam=2, long="split")]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda q: post(served, q=q)["translatedText"], texts))
    assert found == wanted
    assert len(set(found)) > 40, "the model says nearly the same to all: this shows little"


def test_alternatives_scores_and_alignments(served, translator):
    for text in SENTENCES:
        best = translator.translate(text, beam=4, nbest=4, long="split", align=True)
        texts = [hypothesis.text for hypothesis in best.hypotheses]
        answer = post(served, q=text, alternatives=3)
        assert [answer["translatedText"], *answer["alternatives"]] == texts
        (line,) = post(served, "/hypotheses", q=text, nbest=4)["lines"]
        assert line["source_tokens"] == list(best.source_tokens)
        for found, hypothesis in zip(line["hypotheses"], best.hypotheses, strict=True):
            assert found["tokens"] == list(hypothesis.tokens)
            assert found["score"] == pytest.approx(hypothesis.score, abs=1e-4)
            assert [tuple(pair) for pair in found["alignment"]] == list(hypothesis.alignment)


def test_attention(served, translator):
    source, target = "The cat slept.", "it rained"
    wanted = translator.attention(source, target)
    found = post(served, "/attention", q=source, translation=target)["attention"]
    assert set(found) == {"encoder", "decoder", "cross"}
    for kind, heads in wanted.kinds.items():
        assert (found[kind]["queries"], found[kind]["keys"]) == (heads.queries, heads.keys)
        levels = np.frombuffer(b64decode(found[kind]["weights"]), dtype="<u2")
        weights = levels.reshape(found[kind]["shape"]) / 65535
        np.testing.assert_allclose(weights, heads.weights, atol=1e-4)
    for fields in ({"q": "a " * 200}, {"translation": "a " * 200}):
        fields = {"q": source, "translation": target} | fields
        answer = ask(served, "/attention", **fields)
        assert (answer.status_code, answer.json()) == (
            *(413, {"error": "Attention is shown of at most 128 subwords"}),
        )


def test_it_starts_with_flags_and_ends_by_ctrl_c_in_a_line(toy_bundle, tmp_path):
    (tmp_path / "keys").write_text("# ours\n\n abc \n")
    flags = ["--api-keys", str(tmp_path / "keys"), "--characters", "20", "--threads", "1"]
    with running(command(toy_bundle, *flags, "--allow-origin", "https://a.example/")) as service:
        headers = {"Origin": "https://a.example"}
        shown = httpx.get(f"{service.url}/languages", headers=headers, verify=False, timeout=300)
        assert shown.headers["access-control-allow-origin"] == "https://a.example"
        assert service.events("ready")[0]["keys"] is True
        assert ask(service, q="The cat").status_code == 403
        assert ask(service, q="The cat", api_key="abc").status_code == 200
        assert ask(service, q="a" * 21, api_key="abc").status_code == 413
        service.process.send_signal(signal.SIGINT)
        assert service.wait() == 130
        assert json.loads(service.lines[-2])["event"] == "stopped"
        assert service.lines[-1] == "vaswani serve: interrupted\n"


def test_what_is_wrong_is_one_line(toy_bundle, served, tmp_path):
    (tmp_path / "keys").write_text("# none\n")
    for flags, place in (
        (["--port", "70000"], "--port 70000"),
        (["--port", served.port], "give another one"),
        (["--api-keys", tmp_path / "keys"], "keys: no key in it"),
    ):
        assert place in vaswani("serve", "--cpu", "--port", 0, "--model", toy_bundle, *flags).error
    proxies = ("--trusted-proxies", "127.0.0.1 10.0.0.1")
    assert "invalid addresses value" in vaswani("serve", "--model", toy_bundle, *proxies).err


def test_without_the_extra_it_says_how_to_get_it(toy_bundle, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_multipart", None)
    assert "pip install -e '.[serve]'" in vaswani("serve", "--model", toy_bundle).error
