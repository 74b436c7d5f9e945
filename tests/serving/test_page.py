"""The service's page: its policy, and that it works in Chromium and runs no text of users."""

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from browser import Browser
from services import fake_service, running

from tests.figures.test_attention_page import click
from tests.support.commands import wait_for
from vaswani_plugin.serving.app import page, policy

TEXT = "The old doctor sleeps.\n\n  Why?  "
EVIL = (
    '<img src=x onerror="document.title=1"> </textarea><script>document.title=1</script>'
    "<svg/onload=document.title=1> {{SCRIPT}} &lt;b&gt; \u2028 ' \" --> ]]>"
)


def test_the_policy_lets_the_page_run_its_own_code_alone():
    rules = dict(rule.split(" ", 1) for rule in policy().split("; "))
    assert rules["default-src"] == "'none'" and rules["connect-src"] == "'self'"
    assert "unsafe" not in policy() and "*" not in policy()
    for element in ("script", "style"):
        blocks = re.findall(rf"<{element}[^>]*>(.*?)</{element}>", page(), re.DOTALL)
        hashes = [f"'sha256-{b64encode(sha256(b.encode()).digest()).decode()}'" for b in blocks]
        assert len(blocks) == 2 and rules[f"{element}-src"] == " ".join(hashes)
    assert not re.search(
        r"\s(on\w+|style|src)=", re.sub(r"<script>.*?</script>", "", page(), flags=re.S)
    )
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", page())
    assert "http" not in page().replace("http://www.w3.org/2000/svg", "")
    # It works behind a path.
    assert not re.search(r"""(fetch|post)\(["'`]/|(src|href|action)=["']?/""", page())


@pytest.fixture
def opened(chromium, service):
    """The page in a wide, light window."""
    chromium.window(1100, 900)
    chromium.open(service.url + "/")
    wait_for(lambda: text_of(chromium, "source-name") == "English")
    yield chromium
    assert chromium.problems() == []


def text_of(browser: Browser, name: str) -> str:
    return browser.evaluate(f"document.getElementById({name!r}).textContent")


def ask(browser: Browser, text: str) -> None:
    """Type a text and translate it; waits for the attention, too."""
    browser.evaluate(
        f"""(() => {{ const area = document.getElementById("text"); area.value = {json.dumps(text)};
        area.dispatchEvent(new Event("input")); area.focus(); }})()"""
    )
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", modifiers=2)
    wait_for(lambda: text_of(browser, "status").endswith(" s"))
    wait_for(lambda: text_of(browser, "no-attention") != "Loading …")


def tokens(browser: Browser, side: str, chosen: str = "") -> list[str]:
    script = (
        f"[...document.querySelectorAll('#{side}-tokens button{chosen}')].map(b => b.textContent)"
    )
    return browser.evaluate(script)


def test_a_text_is_translated_by_the_keyboard(opened, service):
    ask(opened, TEXT)
    assert text_of(opened, "translation") == TEXT.upper()
    assert text_of(opened, "title") == "English to German"
    assert text_of(opened, "count") == f"{len(TEXT)} of 10000 characters"
    assert tokens(opened, "source") == ["The", "old", "doctor", "sleeps."]
    asked = {address for address in opened.requests() if not address.startswith("data:")}
    assert {address.removeprefix(service.url) for address in asked} == {
        *("/", "/frontend/settings", "/hypotheses", "/attention")
    }


def test_n_best_alignment_and_attention(opened):
    ask(opened, TEXT)
    click(opened, "#hypotheses tr:nth-child(3) input")
    assert text_of(opened, "translation") == "THE OLD DOCTOR SLEEPS.!!\n\n  WHY?  "
    opened.evaluate("document.querySelector('#target-tokens button:nth-child(3)').focus()")
    assert tokens(opened, "source", ".aligned") == ["doctor"]
    assert text_of(opened, "aligned") == "doctor is aligned to doctor. Its probability: 60.7 %."
    wait_for(lambda: "SLEEPS.!!" in text_of(opened, "queries"))
    assert opened.evaluate("document.querySelectorAll('#lines line').length") > 10
    # Digits that are written switch no head; elsewhere they do.
    heads = "[...document.querySelectorAll('#heads input')].map((box) => box.checked)"
    opened.evaluate("document.getElementById('text').focus()")
    opened.key("2")
    assert opened.evaluate(heads) == [True, True, True]
    opened.evaluate("document.getElementById('picture').focus()")
    opened.key("2")
    assert opened.evaluate(heads) == [True, False, True]
    opened.evaluate(
        """(() => { const line = document.getElementById("line"); line.value = "1";
        line.dispatchEvent(new Event("change")); })()"""
    )
    assert tokens(opened, "source") == ["Why?"]
    wait_for(lambda: text_of(opened, "queries") == "WHY?</s>")


def test_no_text_becomes_markup(opened):
    """The same elements as for harmless text of as many words, and nothing runs."""
    names = "[...document.querySelectorAll('body *')].map((e) => e.localName).join(' ')"
    ask(opened, re.sub(r"\S", "x", EVIL))
    harmless = opened.evaluate(names)
    ask(opened, EVIL)
    assert text_of(opened, "translation") == EVIL.upper()
    assert opened.evaluate(names) == harmless
    assert tokens(opened, "source") == EVIL.split()
    assert opened.evaluate("document.title") == "English to German"


def test_errors_are_shown_and_a_key_is_asked_for(chromium):
    with running(fake_service(keys=["k"])) as service:
        chromium.open(service.url + "/")
        wait_for(lambda: not chromium.evaluate("document.getElementById('key-label').hidden"))
        chromium.evaluate("document.getElementById('text').value = 'Hello'")
        click(chromium, "#translate")
        wait_for(lambda: "API key" in text_of(chromium, "error"))
        chromium.evaluate("document.getElementById('key').value = 'k'")
        click(chromium, "#translate")
        wait_for(lambda: text_of(chromium, "translation") == "HELLO")
