"""The reader's page names the functions that a sentence passes, in their order."""

import re
import sys

import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import PLUGIN, REPO
from vaswani_plugin.inference.translator import Translator

PAGE = REPO / "docs" / "explanation" / "a-sentence.md"
MOST = 15


@pytest.fixture(scope="module")
def named():
    """Files and functions of the numbered list."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^\d+\. `(\S+\.py)`, `([\w.]+)`", text, re.MULTILINE)


def test_a_sentence_passes_these_functions_in_this_order(named, tmp_path):
    translator = Translator.from_pretrained(write_toy_bundle(tmp_path))
    called = {}

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PLUGIN)):
            path = frame.f_code.co_filename.removeprefix(f"{PLUGIN}/")
            called.setdefault((path, frame.f_code.co_qualname), len(called))

    sys.setprofile(note)
    try:
        translator.translate("The cat slept.")
    finally:
        sys.setprofile(None)
    places = [called.get(each) for each in named]
    assert None not in places, named[places.index(None)]
    assert 10 <= len(named) <= MOST and places == sorted(places)


def test_other_functions_of_the_page_exist():
    text = PAGE.read_text(encoding="utf-8")
    for path, name in re.findall(r"`([\w/]+\.py)`,\s+`(\w+)(?:\.\w+)?`", text):
        source = (PLUGIN / path).read_text(encoding="utf-8")
        assert re.search(rf"^(class|def) {name}\b", source, re.MULTILINE), (path, name)
