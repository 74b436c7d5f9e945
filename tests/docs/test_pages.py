"""README and docs: links and pictures exist, quoted code is the code, figures are the results'."""

import re
from pathlib import Path

import pytest
from reference_pages import PAGES

from tests.conftest import REPO

DOCS = REPO / "docs"
RESULTS = [DOCS / "results.md", *DOCS.glob("seeds.md"), *sorted((DOCS / "results").glob("*.md"))]
README = REPO / "README.md"
PAPERS = [REPO / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
LINES, WORDS = 150, 30

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"<!-- from: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A number that a command measured: it has one of these units, or a decimal point before one.
_UNITS = (
    r"(?:%| ?(?:times|BLEU|sacreBLEU|chrF|MiB|GB|sentences/s|target tokens/s|F1|ROUGE"
    r"|updates/s|of stock))"
)
_FIGURE = re.compile(rf"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)(?={_UNITS})")


def pages() -> list[Path]:
    return [README, *PAPERS, *sorted(DOCS.rglob("*.md"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPO))


def without_fences(text: str) -> str:
    """The text without fenced blocks and code in the line."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def slug(heading: str) -> str:
    """The anchor that GitHub and MkDocs give a heading."""
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower())
    return re.sub(r"\s", "-", plain.strip())


def anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {slug(line.lstrip("#")) for line in text.split("\n") if line.startswith("#")}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_and_pictures_exist(page):
    generated = {DOCS / name for name in PAGES}
    for link in _LINK.findall(without_fences(page.read_text(encoding="utf-8"))):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if path in generated:
            assert page != README, f"{link} exists in the built site only"
            continue
        assert path.exists(), f"{name_of(page)}: {link}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{name_of(page)}: {link}"


def test_every_picture_is_shown():
    shown = "".join(page.read_text(encoding="utf-8") for page in pages())
    unused = [path.name for path in (DOCS / "pictures").iterdir() if path.name not in shown]
    assert not unused


def quotes() -> list[tuple[str, str, str]]:
    return [
        (name_of(page), source, code)
        for page in pages()
        for source, code in _QUOTED.findall(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("page", "source", "code"), quotes())
def test_quoted_code_is_the_code(page, source, code):
    assert code in (REPO / source).read_text(encoding="utf-8"), f"{page} quotes {source} as it was"


def test_the_walk_through_the_paper_quotes_every_equation():
    page = "docs/tutorials/paper-to-code.md"
    quoted = {Path(source).stem for name, source, _ in quotes() if name == page}
    assert quoted >= {
        *("attention", "feed_forward", "layers", "embedding", "positions", "schedule", "loss"),
        "length_penalty",
    }


def results_text() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in RESULTS)


@pytest.mark.parametrize("page", [p for p in pages() if p not in RESULTS], ids=name_of)
def test_measured_figures_are_those_of_the_results(page):
    """A number with a unit of measurement stands in docs/results.md or a page below it."""
    known = set(re.findall(r"\d[\d,]*(?:\.\d+)?", results_text()))
    text = without_fences(page.read_text(encoding="utf-8"))
    missing = {
        figure
        for line in text.split("\n")
        if "<!-- no result -->" not in line
        for figure in _FIGURE.findall(line)
        if figure not in known
    }
    assert not missing, f"{name_of(page)}: not in docs/results.md: {sorted(missing)}"


def results_rows() -> list[list[str]]:
    """The cells of every claim in docs/results.md."""
    found = []
    for line in RESULTS[0].read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0] != "what" and not set(cells[0]) <= {"-"}:
            found.append(cells)
    return found


def test_results_are_one_claim_a_row():
    rows = results_rows()
    assert len(rows) > 40
    for cells in rows:
        assert len(cells) == 5, cells
        what, value, _, machine, command = cells
        assert what and value and machine and command, cells
        assert len(value.split()) <= 8, f"one value a row: {value}"


def readme_rows() -> list[list[str]]:
    """The cells of README's table of results."""
    text = README.read_text(encoding="utf-8")
    section = text[text.index("## Results") :]
    table = section[: section.index("\n## ", 3)] if "\n## " in section[3:] else section
    rows = [line for line in table.split("\n") if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def test_readmes_results_are_rows_of_results():
    """Each value of README's table is the value, or stands beside it, in one row there."""
    rows = readme_rows()
    assert 3 <= len(rows) <= 8
    for what, value, beside, *_ in rows:
        numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", f"{value} {beside}")
        assert numbers, what
        matching = [
            row
            for row in results_rows()
            if set(numbers) <= set(re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join(row[:3])))
        ]
        assert matching, f"no row of docs/results.md has {numbers} ({what})"


def test_readme_is_short():
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") <= LINES
    prose = re.sub(r"<!--.*?-->", "", without_fences(text), flags=re.DOTALL)
    pieces = re.split(r"\n\s*\n|\n[-|#]|(?<=[.:;!?])\s|\|", prose)
    long = [piece for piece in pieces if len(piece.split()) > WORDS]
    assert not long, long
