"""`vaswani bleu`: which scores it prints of which files, what it warns of, and its errors."""

import gzip
import json
from pathlib import Path

import pytest

from tests.support.commands import Ended, vaswani
from vaswani_plugin.metrics.bleu import (
    corpus_score,
    make_scoring_tokenizer,
    sacrebleu_metric,
    split_compounds,
    tokenized_score,
)

HYPOTHESES = [
    "Der kleine Hund schläft heute.",
    "Sie kauft ein rotes Auto.",
    "Wir gehen nach Hause.",
]
REFERENCES = ["Der kleine Hund schläft heute.", "Sie kauft ein blaues Auto.", "Wir gehen jetzt."]
SOURCES = [
    "The small dog sleeps today.",
    "She buys a red car.",
    "We are going" + " or then" * 5,
]


def text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def write(path: Path, lines: list[str]) -> str:
    path.write_text(text(lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {"hypothesis": tmp_path / "hyp", "reference": tmp_path / "ref"}
    write(paths["hypothesis"], HYPOTHESES)
    write(paths["reference"], REFERENCES)
    return paths


def bleu(files: dict[str, Path], *more: object) -> Ended:
    flags = [part for name, path in files.items() for part in (f"--{name}", path)]
    return vaswani("bleu", *flags, *more)


def as_json(files: dict, *more: object) -> dict:
    return json.loads(bleu(files, *more, "--format", "json").out)


def sacrebleu(lowercase: bool = False) -> float:
    return corpus_score(sacrebleu_metric(lowercase), HYPOTHESES, [REFERENCES]).score


def test_tokenized_and_lowercase_and_several_references(files: dict, tmp_path: Path) -> None:
    write(files["hypothesis"], [h.upper().replace("Ä", "ä") for h in HYPOTHESES])
    result = as_json(files, "--tokenized", "--lowercase")
    expected = tokenized_score(HYPOTHESES, [REFERENCES])
    assert expected > 20
    assert result["tokenized"] == pytest.approx(expected)
    assert result["sacrebleu"] == pytest.approx(sacrebleu(lowercase=True))
    other = write(tmp_path / "other", HYPOTHESES)
    result = as_json(files, other, "--tokenized", "--lowercase")
    assert result["sacrebleu"] == pytest.approx(100.0) and "nrefs:2" in result["signature"]
    assert result["tokenized"] == pytest.approx(100.0)


def test_language_gives_the_scores_of_papers(files: dict) -> None:
    lines = ["Ein EU-weites Gesetz kommt am Montag.", "Er sagt \u201cJa\u201d zum US-Plan nicht."]
    golds = ["Ein EU-nahes Gesetz kommt am Montag.", 'Er sagt "Ja" zum US-Plan nicht.']
    write(files["hypothesis"], lines)
    write(files["reference"], golds)
    tokenize = make_scoring_tokenizer("de")
    sides = [[tokenize(line) for line in side] for side in (lines, golds)]
    plain = [line.replace("\u201c", '"').replace("\u201d", '"') for line in lines]
    split = [[split_compounds(tokenize(line)) for line in side] for side in (plain, golds)]
    result = as_json(files, "--language", "de")
    assert result["tokenized"] == tokenized_score(sides[0], [sides[1]])
    assert result["compound_split"] == tokenized_score(split[0], [split[1]])
    assert result["tokenized"] < result["compound_split"] < 100
    # English-French is never split.
    result = as_json(files, "--language", "fr")
    assert result["tokenized"] > 0 and result["compound_split"] is None


def test_tables(files: dict, tmp_path: Path) -> None:
    source = write(tmp_path / "source", SOURCES)
    training = tmp_path / "training.gz"
    training.write_bytes(gzip.compress(text(SOURCES[:2] * 20).encode()))
    flags = ["--source", source, "--training-source", str(training)]
    result = as_json(files, *flags)
    lengths = [(row["bucket"], row["sentences"]) for row in result["by_length"]]
    assert lengths == [("1-10", 2), ("11-20", 1)]
    words = [(row["bucket"], row["sentences"]) for row in result["by_rarest_word"]]
    assert words == [("0", 1), ("10-99", 2)]
    # The full stop has rank 1, ten words share rank 2, and the third sentence's were never seen.
    ranks = [(row["bucket"], row["sentences"]) for row in result["by_average_rank"]]
    assert ranks == [("2", 1), ("2", 1), ("12", 1)]
    expected = corpus_score(sacrebleu_metric(), HYPOTHESES[:2], [REFERENCES[:2]]).score
    assert result["by_length"][0]["sacrebleu"] == result["by_rarest_word"][1]["sacrebleu"]
    assert result["by_length"][0]["sacrebleu"] == expected
    shown = bleu(files, *flags).out
    assert "rarest word seen" in shown and "average rank" in shown


def generated(pairs: list[tuple[str, str, str]]) -> str:
    """fairseq-generate's lines of (H, D, T), in another order than the corpus."""
    rows = [
        f"T-{i}\t{t}\nH-{i}\t-1.5\t{h}\nD-{i}\t-1.5\t{d}\n" for i, (h, d, t) in enumerate(pairs)
    ]
    return "".join(reversed(rows))


def test_generate_output_equals_the_plain_files(files: dict, tmp_path: Path) -> None:
    expected = bleu(files, "--tokenized", "--format", "json").out
    split = [h.replace("schläft", "schl@@ äft") for h in HYPOTHESES]
    output = tmp_path / "gen"
    rows = list(zip(split, split, REFERENCES, strict=True))
    output.write_text(generated(rows), encoding="utf-8")
    flags = ["--generate-output", str(output), "--tokenized", "--format", "json"]
    assert vaswani("bleu", *flags).out == expected
    # With --reference the T lines don't count.
    output.write_text(generated([(h, h, "x") for h in HYPOTHESES]), encoding="utf-8")
    flags += ["--reference", str(files["reference"])]
    assert vaswani("bleu", *flags).out == expected


TOKENS = ["the &quot; small &quot; dog , it sleeps .", "she buys a red @-@ brown car .", "we go ."]
TEXT = ['the "small" dog, it sleeps.', "she buys a red-brown car.", "we go."]


def scored(path: Path, *flags: object) -> tuple[dict, str]:
    done = vaswani("bleu", "--generate-output", path, *flags, "--format", "json")
    return json.loads(done.out), done.err


def test_tokenized_output_is_recognized(files: dict, tmp_path: Path) -> None:
    """Its punctuation shows it; it is scored over its words."""
    output = tmp_path / "gen"
    golds = [TOKENS[0], TOKENS[1].replace("buys", "sells"), TOKENS[2]]
    output.write_text(generated(list(zip(TOKENS, TOKENS, golds, strict=True))))
    result, said = scored(output)
    assert result["tokenized"] == tokenized_score(TOKENS, [golds]) > 50
    assert f"{output} looks tokenized" in said and "over its words" in said
    explicit, said = scored(output, "--tokenized")
    assert explicit == result and said == ""
    # References that are text need detokenized translations.
    reference = write(tmp_path / "ref", TEXT)
    result, said = scored(output, "--reference", reference)
    assert f"{output} looks tokenized" in said and "the other side does not" in said
    assert result["tokenized"] is None
    write(files["hypothesis"], TEXT)
    write(files["reference"], TOKENS)
    said = bleu(files).err
    assert f"{files['reference']} looks tokenized" in said and "the other side" in said
    output.write_text(generated([("No match .", "It is so good.", "It is so good.")]))
    assert scored(output)[0]["sacrebleu"] == 100.0
    done = vaswani("bleu", "--generate-output", output, "--tokenized")
    assert "are detokenized, its H lines are not" in done.error


def test_damaged_references_are_named(files: dict, tmp_path: Path) -> None:
    """fairseq-generate writes <<unk>> for words of the reference that its dictionary lacks."""
    output, damaged = tmp_path / "gen", REFERENCES[1].replace("blaues", "<<unk>>")
    golds = [REFERENCES[0], damaged, REFERENCES[2]]
    output.write_text(generated(list(zip(HYPOTHESES, HYPOTHESES, golds, strict=True))))
    _, said = scored(output)
    assert f"1 of 3 lines of the T lines of {output} hold <<unk>>" in said
    assert "--reference FILE" in said
    result, said = scored(output, "--reference", str(files["reference"]))
    assert said == "" and result["sacrebleu"] == pytest.approx(sacrebleu())


@pytest.mark.parametrize(("language", "tokenizer"), [("zh", "zh"), ("th", "char"), ("de", "13a")])
def test_the_language_chooses_sacrebleus_tokenizer(
    files: dict, tmp_path: Path, language: str, tokenizer: str
) -> None:
    line = {"zh": "房子在山上", "th": "แมวนั่งบนเสื่อ", "de": "Ein Haus am Meer steht da"}[language]
    for path in files.values():
        write(path, [line, line])
    result = as_json(files, "--language", language)
    assert result["sacrebleu"] == 100.0 and f"tok:{tokenizer}|" in result["signature"]
    assert (result["tokenized"] is None) == (language != "de")
    rows = as_json(files, "--language", language, "--source", str(files["reference"]))
    length = len(line) if language != "de" else 6
    assert rows["by_length"][0]["bucket"] == ("1-10" if length <= 10 else "11-20")
    result = as_json(files, "--language", language, "--sacrebleu-tokenizer", "intl")
    assert "tok:intl" in result["signature"]
    said = bleu(files).err
    assert ("no spaces between words" in said and "--language LL" in said) == (language != "de")
