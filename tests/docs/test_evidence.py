"""docs/evidence: every record is listed and says where it was measured."""

import json

import pytest

from tests.conftest import REPO

FOLDER = REPO / "docs" / "evidence"
RECORDS = sorted(FOLDER.glob("*.json"))


def test_the_page_lists_every_file():
    page = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert RECORDS
    for path in RECORDS:
        assert f"[{path.name}]({path.name})" in page


@pytest.mark.parametrize(
    "path", [path for path in RECORDS if path.suffix == ".json"], ids=lambda path: path.name
)
def test_a_record_names_its_machine_and_no_folder(path):
    text = path.read_text(encoding="utf-8")
    record = json.loads(text)
    assert record.get("machine") or record.get("processor")
    for folder in ("/home/", "/root/", "/tmp/", "/work/"):
        assert folder not in text
