"""The page of `vaswani attention`: what it holds, and that it works in headless Chromium."""

import base64
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from fake_service import random_attention

from vaswani_plugin.figures.attention_page import page

EVIL = '</script><script>document.title="run"</script><img src=x onerror="document.title=1">'
SOURCE = ["the", "cat", EVIL, "{{DATA}}", "slept", "</s>"]
TARGET = ["die", "<!--", "שלום", "schla\u0308ft", "</s>"]
ATTENDED = random_attention(SOURCE, TARGET)
FAINTEST = 0.02
START = {"kind": "cross", "layer": 2, "heads": [1, 2, 3], "word": None}


class Parts(HTMLParser):
    """Collects the opening tags and the text of the script elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.lasttag == "script":
            self.scripts[-1] += data


HOSTILE = [
    *(EVIL, "<!--<script>", "</title><base href=//evil.example>", "&lt;script&gt;&#60;b&#62;"),
    """ "' onmouseover="alert(1)" x='""",
    *("a\u2028b\u2029c\0d\ufeffe", "\\u003cscript\\u003e\\", "{{SOURCE}}{{TARGET}}{{"),
]


def test_no_word_leaves_its_place():
    """As tokens and in the title: the same elements and attributes as around plain words."""
    words = [HOSTILE, ["plain"] * len(HOSTILE)]
    shown, plain = (Parts(page(random_attention(each, each[::-1]), START)) for each in words)
    assert shown.tags == plain.tags
    assert not any("src" in attributes for _, attributes in shown.tags)
    assert shown.scripts[1:] == plain.scripts[1:]
    assert not set("<>&") & set(shown.scripts[0])
    attention = json.loads(shown.scripts[0])["attention"]["cross"]
    assert (attention["keys"], attention["queries"]) == (HOSTILE, HOSTILE[::-1])


def test_the_page_may_load_and_send_nothing():
    (policy,) = (
        attributes["content"]
        for tag, attributes in Parts(page(ATTENDED, START)).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert set(" ".join(rules.values()).split()) <= {"'none'", "'unsafe-inline'", "data:"}


def test_the_page_holds_the_weights():
    data = json.loads(Parts(page(ATTENDED, START)).scripts[0])
    assert data["start"] == START
    for kind, attention in ATTENDED.kinds.items():
        found = data["attention"][kind]
        assert (found["queries"], found["keys"]) == (attention.queries, attention.keys)
        levels = np.frombuffer(base64.b64decode(found["weights"]), dtype="<u2")
        weights = levels.reshape(found["shape"]) / 65535
        np.testing.assert_allclose(weights, attention.weights, atol=1e-5)


@pytest.fixture
def opened(chromium, tmp_path):
    """The page in a wide window, and its attentions."""
    (tmp_path / "page.html").write_text(page(ATTENDED, START), encoding="utf-8")
    with chromium.new_page(viewport={"width": 1000, "height": 800}) as tab:
        tab.set_default_timeout(120_000)
        tab.goto((tmp_path / "page.html").as_uri())
        yield tab, ATTENDED.kinds
        assert not tab.console_messages() and not tab.page_errors()


def lines(tab) -> list[list[float]]:
    """[query, key, opacity] of every line drawn, sorted."""
    script = """[...document.querySelectorAll("#lines line")].map((line) =>
        ["y1", "y2", "stroke-opacity"].map((name) => Number(line.getAttribute(name))))"""
    drawn = tab.evaluate(script)
    assert len({(y1, y2) for y1, y2, _ in drawn}) == len(drawn), "heads drawn over each other"
    return sorted([y1 // 1, y2 // 1, opacity] for y1, y2, opacity in drawn)


def assert_lines(tab, weights: np.ndarray, query: int | None, key: int | None = None):
    """The lines are those of the weights (H, T, S), of one query or key where one is given."""
    expected = sorted(
        [q, k, w]
        for (_, q, k), w in np.ndenumerate(weights)
        if w >= FAINTEST and query in (None, q) and key in (None, k)
    )
    drawn = lines(tab)
    assert [line[:2] for line in drawn] == [line[:2] for line in expected]
    # Lines of several heads between the same tokens are sorted by opacity.
    np.testing.assert_allclose([x[2] for x in drawn], [x[2] for x in expected], atol=6e-4)


def test_it_loads_from_its_file_alone_and_runs_no_sentence(opened):
    tab, attentions = opened
    assert {request.url.split(":")[0] for request in tab.requests()} <= {"file", "data"}
    assert tab.title().startswith("Attention: the cat </script>")
    assert tab.locator("#keys li").all_text_contents() == SOURCE
    assert tab.locator("script, img").count() == 2
    assert_lines(tab, attentions["cross"].weights[1], None)


def test_a_token_under_the_mouse_or_the_keyboard_shows_its_lines_alone(opened):
    tab, attentions = opened
    before = tab.screenshot()
    weights = attentions["cross"].weights[1]
    tab.hover("#queries li:nth-child(2)")
    assert_lines(tab, weights, 1)
    assert tab.screenshot() != before
    best = int(weights[:, 1].mean(0).argmax())
    share = 100 * weights[:, 1, best].mean()
    assert f"attends to: {SOURCE[best]} {share:.1f} %" in tab.text_content("#readout")
    tab.hover("#keys li:nth-child(1)")
    assert_lines(tab, weights, None, key=0)
    tab.mouse.move(5, 5)
    assert_lines(tab, weights, None)
    tab.focus("#picture")
    for key, query, source in (
        *(("ArrowDown", 0, None), ("ArrowDown", 1, None), ("ArrowUp", 0, None)),
        *(("ArrowRight", None, 0), ("ArrowDown", None, 1), ("Escape", None, None)),
    ):
        tab.keyboard.press(key)
        assert_lines(tab, weights, query, source)


def test_attention_layer_and_heads_are_chosen(opened):
    tab, attentions = opened
    tab.click('input[value="encoder"]')
    assert_lines(tab, attentions["encoder"].weights[1], None)
    tab.keyboard.press("[")
    assert_lines(tab, attentions["encoder"].weights[0], None)
    tab.click('#heads input[value="2"]')
    assert tab.evaluate("document.activeElement.value") == "2"  # for the keyboard's next key
    assert_lines(tab, attentions["encoder"].weights[0][[0, 2]], None)
    tab.keyboard.press("1")
    assert_lines(tab, attentions["encoder"].weights[0][[2]], None)
    assert [box.is_checked() for box in tab.locator("#heads input").all()] == [False, False, True]
    tab.click("#all")
    assert_lines(tab, attentions["encoder"].weights[0], None)
    tab.keyboard.press("0")
    assert lines(tab) == []
    for key in ("0", "]", "]"):  # there is no third layer
        tab.keyboard.press(key)
    assert tab.input_value("#layer") == "2"
    assert_lines(tab, attentions["encoder"].weights[1], None)
    tab.click('input[value="decoder"]')
    assert_lines(tab, attentions["decoder"].weights[1], None)


def test_searching_finds_and_isolates_a_word(opened):
    tab, attentions = opened
    tab.keyboard.press("/")
    tab.keyboard.type("SCHLÄ")  # one letter here, and two on the page
    assert tab.text_content("#found") == "1 match"
    assert_lines(tab, attentions["cross"].weights[1], 3)
    tab.keyboard.press("x")
    assert tab.text_content("#found") == "no matches"
    assert_lines(tab, attentions["cross"].weights[1], None)
