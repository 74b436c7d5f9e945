"""`vaswani bleu`: what it prints, its JSON keys, and each error in one line."""

import json
from pathlib import Path

import pytest

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.metrics.bleu import sacrebleu_score, tokenized_score

HYPOTHESES = [
    "Der kleine Hund schläft heute.",
    "Sie kauft ein rotes Auto.",
    "Wir gehen nach Hause.",
]
REFERENCES = ["Der kleine Hund schläft heute.", "Sie kauft ein blaues Auto.", "Wir gehen jetzt."]


def text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {"hypothesis": tmp_path / "hyp", "reference": tmp_path / "ref"}
    paths["hypothesis"].write_text(text(HYPOTHESES), encoding="utf-8")
    paths["reference"].write_text(text(REFERENCES), encoding="utf-8")
    return paths


def command(files: dict[str, Path], *more: str) -> list[str]:
    flags = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    return ["bleu", *flags, *more]


def test_json_has_the_frozen_keys(files: dict, capsys: pytest.CaptureFixture) -> None:
    assert main(command(files, "--format", "json")) == 0
    result = json.loads(capsys.readouterr().out)
    keys = ["tokenized", "compound_split", "sacrebleu", "signature", "reading"]
    assert list(result) == keys
    expected = sacrebleu_score(HYPOTHESES, REFERENCES)
    assert (result["sacrebleu"], result["signature"]) == (expected.score, expected.signature)
    assert result["tokenized"] is None and result["compound_split"] is None


def test_tokenized_and_lowercase(files: dict, capsys: pytest.CaptureFixture) -> None:
    files["hypothesis"].write_text(text([h.upper() for h in HYPOTHESES]), encoding="utf-8")
    assert main(command(files, "--tokenized", "--lowercase", "--format", "json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tokenized"] == pytest.approx(tokenized_score(HYPOTHESES, REFERENCES).score)
    assert result["sacrebleu"] == pytest.approx(sacrebleu_score(HYPOTHESES, REFERENCES).score)


def test_text_shows_score_signature_and_reading(files: dict, capsys: pytest.CaptureFixture) -> None:
    files["hypothesis"].write_text(text(REFERENCES), encoding="utf-8")
    assert main(command(files, "--tokenized")) == 0
    shown = capsys.readouterr().out
    assert "tokenized BLEU  100.00" in shown and "sacreBLEU       100.00  nrefs:1|" in shown
    assert "often better than human" in shown


def generated(pairs: list[tuple[str, str, str]]) -> str:
    """fairseq-generate's lines of (H, D, T), in another order than the corpus."""
    rows = [
        f"T-{i}\t{t}\nH-{i}\t-1.5\t{h}\nD-{i}\t-1.5\t{d}\n" for i, (h, d, t) in enumerate(pairs)
    ]
    return "".join(reversed(rows))


def test_generate_output_equals_the_plain_files(
    files: dict, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(command(files, "--tokenized", "--format", "json")) == 0
    expected = capsys.readouterr().out
    split = [h.replace("schläft", "schl@@ äft") for h in HYPOTHESES]
    output = tmp_path / "gen"
    rows = list(zip(split, split, REFERENCES, strict=True))
    output.write_text(generated(rows), encoding="utf-8")
    flags = ["--generate-output", str(output), "--tokenized", "--remove-bpe", "--format", "json"]
    assert main(["bleu", *flags]) == 0
    assert capsys.readouterr().out == expected
    # With --reference the T lines don't count.
    output.write_text(generated([(h, h, "x") for h in HYPOTHESES]), encoding="utf-8")
    flags[-3:-2] = ["--reference", str(files["reference"])]
    assert main(["bleu", *flags]) == 0
    assert capsys.readouterr().out == expected


def test_detokenized_lines_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    output = tmp_path / "gen"
    output.write_text(generated([("No match .", "It is so good.", "It is so good.")]))
    assert main(["bleu", "--generate-output", str(output), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["sacrebleu"] == 100.0
    assert main(["bleu", "--generate-output", str(output), "--tokenized"]) == 1
    assert "are detokenized, its H lines are not" in capsys.readouterr().err


def error_of(arguments: list[str], capsys: pytest.CaptureFixture) -> str:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("vaswani bleu: error: ")
    return captured.err


def test_bad_input_is_one_line(files: dict, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    hypothesis = files["hypothesis"]
    hypothesis.write_text(text(HYPOTHESES[:2]), encoding="utf-8")
    error = error_of(command(files), capsys)
    assert f"{hypothesis} has 2 segments, {files['reference']} has 3" in error
    hypothesis.write_bytes(b"ok\nb\xf6se\nok\n")
    assert f"{hypothesis}, line 2: not UTF-8" in error_of(command(files), capsys)
    hypothesis.write_bytes(b"")
    assert f"{hypothesis}: the file is empty" in error_of(command(files), capsys)
    hypothesis.unlink()
    assert f"{hypothesis}: No such file" in error_of(command(files), capsys)
    assert "needs --reference" in error_of(["bleu", "--hypothesis", "x"], capsys)
    assert "goes with --generate-output" in error_of(command(files, "--remove-bpe"), capsys)
    output = tmp_path / "gen"
    output.write_text("H-0\t-1\ta\nD-0\t-1\ta\n")
    flags = ["bleu", "--generate-output", str(output)]
    assert "no T lines; give --reference" in error_of(flags, capsys)
    flags += ["--reference", str(files["reference"])]
    assert f"{output} has 1 segments" in error_of(flags, capsys)
