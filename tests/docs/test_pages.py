"""README and docs: links and pictures exist, code and tables are the code's."""

import ast
import json
import re
import sys
from pathlib import Path

import fairseq
import pytest
from reference_pages import CODE, PAGES, on_page_markdown
from toy_bundle import write_toy_bundle

from tests.conftest import PLUGIN, REPO
from tests.support.scripts import run_script
from vaswani_plugin.cli.__main__ import COMMANDS
from vaswani_plugin.fairseq_plugin.patches import PATCHES
from vaswani_plugin.inference.translator import Translator

DOCS = REPO / "docs"
README = REPO / "README.md"
PAPERS = [REPO / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [README, *PAPERS, *sorted(DOCS.rglob("*.md"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPO))


def without_fences(text: str) -> str:
    """The text without fenced blocks and code in the line."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def slug(heading: str) -> str:
    """The anchor that GitHub and MkDocs give a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip())


def anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {slug(line.lstrip("#")) for line in text.split("\n") if line.startswith("#")}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_and_pictures_exist(page):
    """The site has no other files than those of docs, and its menu has all its pages."""
    generated, of_site = {DOCS / name for name in PAGES}, DOCS in page.parents
    if of_site:
        assert f"{page.relative_to(DOCS)}\n" in (REPO / "mkdocs.yml").read_text(encoding="utf-8")
    for link in _LINK.findall(without_fences(page.read_text(encoding="utf-8"))):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if path in generated:
            assert page not in (README, DOCS / "index.md"), f"{link} exists in the built site only"
            continue
        on_site = DOCS in path.parents or path.suffix == ".py"
        assert path.exists() and (on_site or not of_site), f"{name_of(page)}: {link}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{name_of(page)}: {link}"


def test_the_site_shows_the_code_of_the_functions_that_a_page_names():
    page = (DOCS / "tutorials" / "paper-to-code.md").read_text(encoding="utf-8")
    shown = on_page_markdown(page)
    codes = re.findall(r"^```python\n(.*?)^```$", shown, re.MULTILINE | re.DOTALL)
    assert len(codes) == len(CODE.findall(page)) > 9 and not CODE.search(shown)
    assert "def split_heads(x: Tensor, heads: int) -> Tensor:\n    return x.unflatten" in shown
    for code in codes:
        (function,) = ast.parse(code).body
        assert isinstance(function, ast.FunctionDef) and ast.get_docstring(function) is None


def test_the_page_of_originals_names_files_and_commands_that_exist():
    for quoted in re.findall(r"`([^`]+)`", (DOCS / "originals.md").read_text(encoding="utf-8")):
        words = quoted.split()
        if re.match(r"[a-z_]+/", quoted):
            assert (PLUGIN / quoted).exists() or (REPO / quoted).exists(), quoted
        elif words[0] == "vaswani":
            assert words[1] in COMMANDS, quoted
        elif words[0] in ("bash", "python"):
            assert (REPO / words[1]).is_file(), quoted


def test_the_page_of_fairseqs_patches_is_what_its_script_makes():
    made = run_script("docs/fairseq_patches_table.py")
    page = (DOCS / "reference" / "fairseq-patches.md").read_text(encoding="utf-8")
    assert page == made.stdout, "run docs/fairseq_patches_table.py, as it says"
    assert page.count("\n| ") == 1 + len(PATCHES)


def test_records_are_listed_and_name_their_machine_and_no_folder():
    listed = (DOCS / "evidence" / "index.md").read_text(encoding="utf-8")
    for path in (DOCS / "evidence").glob("*.json"):
        assert f"[{path.name}]({path.name})" in listed
        text = path.read_text(encoding="utf-8")
        record = json.loads(text)
        assert record.get("machine") or record.get("processor"), path
        assert not re.search("/(home|root|tmp|work)/", text), path


BETWEEN = re.compile(r'"\s*f?"|\{[^{}"]*\}|\$\w+|\$\{[^}]*\}|…')
"""What stands between a message's words in the code: the border of two literals, and values."""


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", BETWEEN.sub("", text))


def test_the_messages_of_the_page_of_errors_are_in_the_code():
    """The first column's quotations."""
    page = (DOCS / "how-to" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| ", page, re.MULTILINE)
    messages = [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row)]
    folders = (PLUGIN, REPO / "recipes", Path(fairseq.__file__).parent)
    files = (p for folder in folders for e in ("py", "sh") for p in sorted(folder.rglob(f"*.{e}")))
    texts = [path.read_text(encoding="utf-8") for path in files]
    sources = "\n".join(text for code in texts for text in (code, plain(code)))
    assert len(messages) > 10
    for message in messages:
        if message.startswith(("KeyError", "FileNotFoundError", "UnpicklingError")):  # not ours
            message = message.partition(":")[0]
        known = plain(message).strip()
        assert len(known) > 7 and known in sources, message


def test_a_sentence_passes_the_functions_of_its_page_in_their_order(tmp_path):
    text = (DOCS / "explanation" / "a-sentence.md").read_text(encoding="utf-8")
    named = re.findall(r"^\d+\. `(\S+\.py)`, `([\w.]+)`", text, re.MULTILINE)
    translator = Translator.from_pretrained(write_toy_bundle(tmp_path))
    translator.translate("The cat slept.")  # the first time kernels are proven
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
    assert len(named) >= 10 and places == sorted(places)
