"""The service's page: its policy, and that it works in Chromium and runs no text of users."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from services import fake_service, running

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
    markup = re.sub(r"<script>.*?</script>", "", page(), flags=re.S)
    assert not re.search(r"\s(on\w+|style|src)=", markup)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", page())
    assert "http" not in page().replace("http://www.w3.org/2000/svg", "")
    # It works behind a path.
    assert not re.search(r"""(fetch|post)\(["'`]/|(src|href|action)=["']?/""", page())


def says(tab, name: str, text: str | re.Pattern) -> None:
    """An element has this text, now or soon."""
    pytest.importorskip("playwright.sync_api").expect(tab.locator(f"#{name}")).to_have_text(text)


@pytest.fixture
def opened(chromium, service):
    """The page in a wide window."""
    with chromium.new_page(viewport={"width": 1100, "height": 900}) as tab:
        tab.set_default_timeout(120_000)
        assert tab.goto(service.url + "/").headers["content-security-policy"] == policy()
        says(tab, "source-name", "English")
        yield tab
        assert not tab.console_messages() and not tab.page_errors()


def ask(tab, text: str) -> None:
    """Type a text and translate it; waits for the attention, too."""
    tab.fill("#text", text)
    tab.keyboard.press("Control+Enter")
    says(tab, "status", re.compile(r" s$"))
    says(tab, "no-attention", re.compile(r"^(?!Loading …$)"))


def tokens(tab, side: str, chosen: str = "") -> list[str]:
    return tab.locator(f"#{side}-tokens button{chosen}").all_text_contents()


def test_a_text_is_translated_by_the_keyboard(opened, service):
    ask(opened, TEXT)
    assert opened.text_content("#translation") == TEXT.upper()
    assert opened.text_content("#title") == "English to German"
    assert opened.text_content("#count") == f"{len(TEXT)} of 10000 characters"
    assert tokens(opened, "source") == ["The", "old", "doctor", "sleeps."]
    asked = {each.url for each in opened.requests() if not each.url.startswith("data:")}
    assert {address.removeprefix(service.url) for address in asked} == {
        *("/", "/frontend/settings", "/hypotheses", "/attention")
    }


def test_n_best_alignment_and_attention(opened):
    ask(opened, TEXT)
    opened.click("#hypotheses tr:nth-child(3) input")
    assert opened.text_content("#translation") == "THE OLD DOCTOR SLEEPS.!!\n\n  WHY?  "
    opened.focus("#target-tokens button:nth-child(3)")
    assert tokens(opened, "source", ".aligned") == ["doctor"]
    says(opened, "aligned", "doctor is aligned to doctor. Its probability: 60.7 %.")
    says(opened, "queries", re.compile("SLEEPS.!!"))
    assert opened.locator("#lines line").count() > 10
    # Digits that are written switch no head; elsewhere they do.
    for place, heads in (("#text", [True, True, True]), ("#picture", [True, False, True])):
        opened.focus(place)
        opened.keyboard.press("2")
        assert [box.is_checked() for box in opened.locator("#heads input").all()] == heads
    opened.select_option("#line", "1")
    assert tokens(opened, "source") == ["Why?"]
    says(opened, "queries", "WHY?</s>")


def test_no_text_becomes_markup(opened):
    """The same elements as for harmless text of as many words, and nothing runs."""
    names = "[...document.querySelectorAll('body *')].map((e) => e.localName).join(' ')"
    ask(opened, re.sub(r"\S", "x", EVIL))
    harmless = opened.evaluate(names)
    ask(opened, EVIL)
    assert opened.text_content("#translation") == EVIL.upper()
    assert opened.evaluate(names) == harmless
    assert tokens(opened, "source") == EVIL.split()
    assert opened.title() == "English to German"


def test_errors_are_shown_and_a_key_is_asked_for(chromium):
    started = running(fake_service(keys=["k"], limits={"queue": 3}))
    with started as service, chromium.new_page() as tab:
        tab.set_default_timeout(120_000)
        tab.goto(service.url + "/")
        tab.fill("#text", "Hello")
        tab.click("#translate")
        says(tab, "error", re.compile("API key"))
        tab.fill("#key", "k")
        tab.click("#translate")
        says(tab, "translation", "HELLO")
        # What goes wrong later leaves nothing beside another source.
        for text, key in (("Bye", "x"), (" ", "k"), ("a\nb\nc\nd", "k")):
            ask(tab, "Hello")
            tab.fill("#key", key)
            tab.fill("#text", text)
            tab.click("#translate")
            says(tab, "translation", "")
            assert not tab.is_visible("#details") and tab.is_disabled("#copy")
            tab.fill("#key", "k")
        assert "(4 sentences) exceeds limit (3)" in tab.text_content("#error")
