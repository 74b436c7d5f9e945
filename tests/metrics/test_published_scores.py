"""Scores of real systems' outputs as multi-bleu.perl printed them: every recorded case."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from tests.conftest import REPO
from vaswani_plugin.metrics import bleu

DATA = Path(os.environ.get("VASWANI_DATA", REPO.parent / "shared" / "data")) / "bleu"
REFERENCE = "newstest2017.en-de.ref"
SYSTEMS = ("LIUM-NMT.4900", "online-A.0", "PROMT-Rule-based.4735")
REASON = f"NOT TESTED: no {DATA} (set VASWANI_DATA to a folder with bleu in it)"
pytestmark = [pytest.mark.shared_data, pytest.mark.skipif(not DATA.is_dir(), reason=REASON)]


def lines(name: str) -> list[str]:
    data = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    return data.decode().removesuffix("\n").split("\n")


def multi_bleu(hypotheses: list[str], *references: list[str], lowercase: bool = False) -> str:
    return f"BLEU = {bleu.tokenized_score(hypotheses, references, lowercase):.2f}"


def published_line(case: dict) -> str:
    """multi-bleu's score of a case of the published recipes, from the raw text on."""
    tool, system = case["tool"], case["case"]
    if tool.startswith("multi-bleu.perl") and tool.endswith("on Moses tokens"):
        sides = lines(f"{system}.tok.de"), lines(f"{REFERENCE}.tok.de")
        return multi_bleu(*sides, lowercase="-lc" in tool)
    tokenize = bleu.make_scoring_tokenizer("de")
    sides = [lines(f"{system}.raw.de"), lines(f"{REFERENCE}.de")]
    replaced = 0 if "no punctuation replacement" in tool else 2 if "reference too" in tool else 1
    for side in range(replaced):
        sides[side] = [bleu.replace_unicode_punctuation(line) for line in sides[side]]
    return multi_bleu(*([bleu.split_compounds(tokenize(line)) for line in side] for side in sides))


@pytest.mark.parametrize(
    "system",
    [SYSTEMS[0], *(pytest.param(system, marks=pytest.mark.slow) for system in SYSTEMS[1:])],
)
def test_every_recorded_case(system: str) -> None:
    recorded = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    cases = [case for case in recorded if case["case"] == system and "bleu" not in case]
    assert len(cases) == 5
    for case in cases:
        assert published_line(case) == re.match(r"BLEU = [\d.]+", case["line"])[0], case["tool"]


def test_tokens_are_the_perl_scripts_line_by_line() -> None:
    tokenize = bleu.make_scoring_tokenizer("de")
    reference = [tokenize(line) for line in lines(f"{REFERENCE}.de")]
    assert reference == lines(f"{REFERENCE}.tok.de")
    assert [bleu.split_compounds(line) for line in reference] == lines(f"{REFERENCE}.tok.atat.de")
    for system in SYSTEMS:
        raw = lines(f"{system}.raw.de")
        assert [tokenize(line) for line in raw] == lines(f"{system}.tok.de"), system
        replaced = [tokenize(bleu.replace_unicode_punctuation(line)) for line in raw]
        found = [bleu.split_compounds(line) for line in replaced]
        assert found == lines(f"{system}.norm.tok.atat.de"), system
