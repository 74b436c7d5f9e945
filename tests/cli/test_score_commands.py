"""`vaswani bleu`, `evalb` and `rouge`: which scores they print of which files."""

import gzip
import json
import os
import unicodedata
from pathlib import Path

import pytest
from toy_language_model import write_lines

from tests.support.commands import Ended, vaswani
from vaswani_plugin.metrics import bleu as scores
from vaswani_plugin.metrics.rouge import rouge
from vaswani_plugin.text.summaries import Example, write_examples

HYPOTHESES = ["Der kleine Hund schläft heute.", "Sie kauft ein rotes Auto.", "Wir gehen nach Haus."]
REFERENCES = ["Der kleine Hund schläft heute.", "Sie kauft ein blaues Auto.", "Wir gehen jetzt."]
SOURCES = ["The small dog sleeps today.", "She buys a red car.", "We are going" + " or then" * 5]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {
        "hypothesis": write_lines(tmp_path / "hyp", HYPOTHESES),
        "reference": write_lines(tmp_path / "ref", REFERENCES),
    }


def bleu(files: dict[str, Path], *more: object) -> Ended:
    flags = [part for name, path in files.items() for part in (f"--{name}", path)]
    return vaswani("bleu", *flags, *more)


def as_json(files: dict, *more: object) -> dict:
    return json.loads(bleu(files, *more, "--format", "json").out)


def test_tokenized_and_lowercase_and_several_references(files: dict, tmp_path: Path) -> None:
    write_lines(files["hypothesis"], [h.upper().replace("Ä", "ä") for h in HYPOTHESES])
    result = as_json(files, "--tokenized", "--lowercase")
    expected = scores.tokenized_score(HYPOTHESES, [REFERENCES])
    assert result["tokenized"] == pytest.approx(expected) and expected > 20
    expected = scores.corpus_score(scores.sacrebleu_metric(True), HYPOTHESES, [REFERENCES])
    assert result["sacrebleu"] == pytest.approx(expected)
    other = write_lines(tmp_path / "other", HYPOTHESES)
    result = as_json(files, other, "--tokenized", "--lowercase")
    assert result["sacrebleu"] == pytest.approx(100.0) and "nrefs:2" in result["signature"]
    assert result["tokenized"] == pytest.approx(100.0) == result["chrf"]


def test_language_gives_the_scores_of_papers(files: dict) -> None:
    """By Moses' rules; compound-split also without typographic quotes."""
    lines = ["Ein EU-weites Gesetz kommt am Montag.", 'Er sagt "Ja" zum US-Plan nicht.']
    golds = ["Ein EU-nahes Gesetz kommt am Montag.", 'Er sagt "Ja" zum US-Plan nicht.']
    write_lines(files["hypothesis"], [line.replace(' "', " \u201c") for line in lines])
    write_lines(files["reference"], golds)
    tokenize = scores.make_scoring_tokenizer("de")
    split = [[scores.split_compounds(tokenize(line)) for line in side] for side in (lines, golds)]
    result = as_json(files, "--language", "de")
    assert result["compound_split"] == scores.tokenized_score(split[0], [split[1]])
    assert 0 < result["tokenized"] < result["compound_split"] < 100
    # English-French is never split.
    result = as_json(files, "--language", "fr")
    assert result["tokenized"] > 0 and result["compound_split"] is None


def test_tables(files: dict, tmp_path: Path) -> None:
    training = write_lines(tmp_path / "training", SOURCES[:2] * 20)
    (tmp_path / "training.gz").write_bytes(gzip.compress(training.read_bytes()))
    flags = ["--source", write_lines(tmp_path / "source", SOURCES), "--training-source"]
    result = as_json(files, *flags, tmp_path / "training.gz")
    lengths = [(row["bucket"], row["sentences"]) for row in result["by_length"]]
    assert lengths == [("1-10", 2), ("11-20", 1)]
    words = [(row["bucket"], row["sentences"]) for row in result["by_rarest_word"]]
    assert words == [("0", 1), ("10-99", 2)]
    # The full stop has rank 1, ten words share rank 2, and the third sentence's were never seen.
    ranks = [(row["bucket"], row["sentences"]) for row in result["by_average_rank"]]
    assert ranks == [("2", 1), ("2", 1), ("12", 1)]
    for row, part in zip(result["by_length"], (slice(2), slice(2, 3)), strict=True):
        pair = HYPOTHESES[part], [REFERENCES[part]]
        assert row["sacrebleu"] == scores.corpus_score(scores.sacrebleu_metric(), *pair)
    shown = bleu(files, *flags, training).out
    assert "rarest word seen" in shown and "average rank" in shown


def generated(h: list[str], d: list[str], t: list[str]) -> str:
    """fairseq-generate's log, and its lines H, D and T in another order than the corpus."""
    rows = (f"T-{i}\t{t[i]}\nH-{i}\t-1.5\t{h[i]}\nD-{i}\t-1.5\t{d[i]}\n" for i in range(len(h)))
    log = f"2026 | INFO | data_utils | loaded {len(t)} examples from: bin/test.en-de.en\n"
    return "".join([log, *reversed([*rows]), "Generate test with beam=4: BLEU4 = 1.00\n"])


def test_generate_output_equals_the_plain_files(files: dict, tmp_path: Path) -> None:
    expected = bleu(files, "--tokenized", "--format", "json").out
    split = [h.replace("schläft", "schl@@ äft") for h in HYPOTHESES]
    output = tmp_path / "gen"
    output.write_text(generated(split, split, REFERENCES), encoding="utf-8")
    flags = ["--generate-output", output, "--tokenized", "--format", "json"]
    assert vaswani("bleu", *flags).out == expected
    # With --reference the T lines don't count.
    output.write_text(generated(HYPOTHESES, HYPOTHESES, ["x"] * 3), encoding="utf-8")
    read, write = os.pipe()
    os.write(write, files["reference"].read_bytes())
    os.close(write)
    for reference in (files["reference"], f"/dev/fd/{read}"):  # a pipe can be read once
        assert vaswani("bleu", *flags, "--reference", reference).out == expected
    os.close(read)


def test_a_skipped_tail_is_told_by_the_log_a_count_or_a_file(files: dict, tmp_path: Path) -> None:
    """The numbers of what is there have no gap, and the last line is there."""
    whole, output = generated(HYPOTHESES, HYPOTHESES, REFERENCES), tmp_path / "gen"
    skipped = "".join(line for line in whole.splitlines(True) if line[1:3] != "-2")
    without_log = skipped.partition("\n")[2]
    counted = {"--count": 3, "--reference": files["reference"], "--source": files["reference"]}
    for text, flags in (skipped, ()), *((without_log, flag) for flag in counted.items()):
        output.write_text(text)
        refused = vaswani("bleu", "--generate-output", output, *flags).error
        assert "no H line of sentence 2 (1 of 3 missing)" in refused
    assert "give --count N" in vaswani("bleu", "--generate-output", output).error
    shown = vaswani("bleu", "--generate-output", output, "--count", 2)
    assert shown.code == 0 and "sacreBLEU" in shown.out
    for given in (("--generate-output", output), ("--hypothesis", files["hypothesis"])):
        assert vaswani("bleu", *given, "--count", 1, "--reference", files["hypothesis"]).code == 1


TOKENS = ["the &quot; small &quot; dog , it sleeps .", "she buys a red @-@ brown car .", "we go ."]


def scored(path: Path, *flags: object) -> tuple[dict, str]:
    done = vaswani("bleu", "--generate-output", path, *flags, "--format", "json")
    return json.loads(done.out), done.err


def test_tokenized_output_is_recognized(files: dict, tmp_path: Path) -> None:
    """Its punctuation shows it; it is scored over its words."""
    output = tmp_path / "gen"
    golds = [TOKENS[0], TOKENS[1].replace("buys", "sells"), TOKENS[2]]
    output.write_text(generated(TOKENS, TOKENS, golds))
    result, said = scored(output)
    assert result["tokenized"] == scores.tokenized_score(TOKENS, [golds]) > 50
    assert f"{output} looks tokenized" in said and "over its words" in said
    assert scored(output, "--tokenized") == (result, "")
    # References that are text need detokenized translations.
    result, said = scored(output, "--reference", files["reference"])
    assert f"{output} looks tokenized" in said and "the other side does not" in said
    assert result["tokenized"] is None
    output.write_text(generated(["No match ."], ["It is so good."], ["It is so good."]))
    assert scored(output)[0]["sacrebleu"] == 100.0
    done = vaswani("bleu", "--generate-output", output, "--tokenized")
    assert "are detokenized, its H lines are not" in done.error
    for pieces in (["\u2581It \u2581is \u2581go od", ""], ["It is go@@ od", "a"]):
        output.write_text("\n".join([*pieces, ""]))
        files = ("--hypothesis", output, "--reference", output)
        assert ": subwords: give" in vaswani("bleu", *files).error


def test_damaged_references_are_named(files: dict, tmp_path: Path) -> None:
    """fairseq-generate writes <<unk>> for words of the reference that its dictionary lacks."""
    output, damaged = tmp_path / "gen", REFERENCES[1].replace("blaues", "<<unk>>")
    output.write_text(generated(HYPOTHESES, HYPOTHESES, [REFERENCES[0], damaged, REFERENCES[2]]))
    _, said = scored(output)
    assert f"1 of 3 lines of the T lines of {output} hold <<unk>>" in said
    assert "--reference FILE" in said
    assert scored(output, "--reference", files["reference"])[1] == ""


@pytest.mark.parametrize(
    ("name", "rules"),
    [("zh-Hant-TW", "zh"), ("yue", "zh"), ("de-AT", "de"), ("fr-CA", "fr"), ("hsb", "en")],
)
def test_a_language_with_a_region_has_the_rules_of_the_language(files, name, rules):
    """And one without rules has the English ones."""
    write_lines(files["reference"], ["L'Auto est rouge-vif.", "Ein blaues Auto.", "房子 Haus."])
    found, wanted = (as_json(files, "--language", each) for each in (name, rules))
    assert found == wanted and found["sacrebleu"] > 0


@pytest.mark.parametrize("command", ["bleu", "rouge"])
def test_decomposed_accents_are_said(files, tmp_path, command):
    """The same text in another form of Unicode matches nothing."""
    given = ("--hypothesis", files["hypothesis"])
    given += ("--reference" if command == "bleu" else "--references", tmp_path / "nfd")
    for form, count in (("NFC", 0), ("NFD", 1)):
        write_lines(tmp_path / "nfd", [unicodedata.normalize(form, line) for line in HYPOTHESES])
        warned = f"1 of 3 lines of {tmp_path / 'nfd'} are not in Unicode's form NFC"
        assert vaswani(command, *given).err.count(warned) == count


def test_text_without_spaces_needs_another_tokenizer(files: dict) -> None:
    for path in files.values():
        write_lines(path, ["房子在山上"] * 2)
    done = bleu(files)
    assert "no spaces between words" in done.err and "--language NAME" in done.err
    assert "reading" not in done.out
    result = as_json(files, "--language", "zh", "--source", files["reference"])
    assert result["sacrebleu"] == 100.0 and "tok:zh|" in result["signature"]
    assert result["reading"] is None  # a scale of words says nothing about characters
    assert result["tokenized"] is None and result["by_length"][0]["bucket"] == "1-10"
    result = as_json(files, "--language", "zh", "--sacrebleu-tokenizer", "intl")
    assert "tok:intl" in result["signature"] and result["reading"] is None
    for path in files.values():
        write_lines(path, HYPOTHESES)
    assert "reading" not in bleu(files, "--sacrebleu-tokenizer", "char").out
    assert as_json(files, "--language", "de")["reading"] == scores.reading(100)


EVALB = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA")) / "evalb"
GOLD = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks) (ADVP (RB now))) (. .)))"
CROSSING = "(TOP (S (DT the) (X (NN dog) (NNS barks)) (ADVP (RB now)) (. .)))"
TABLE = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    5    0  100.00 100.00     4      4    4      0      4     4   100.00
   2    5    0   50.00  66.67     2      4    3      1      4     3    75.00
   3    5    2    0.00   0.00     0      0    0      0      0     0     0.00
   4    5    1    0.00   0.00     0      0    0      0      0     0     0.00
============================================================================
                 75.00  85.71      6     8     7      1      8     7    87.50
"""
SUMMARY = """\
=== Summary ===

-- All --
Number of sentence        =      4
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      2
Bracketing Recall         =  75.00
Bracketing Precision      =  85.71
Bracketing FMeasure       =  80.00
Complete match            =  50.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  87.50

-- len<=4 --
Number of sentence        =      0
"""
PARAMETERS = "CUTOFF_LEN 4\nDELETE_LABEL TOP\nDELETE_LABEL .\n"


@pytest.fixture
def trees(tmp_path: Path) -> list[str]:
    """Arguments: four gold trees, and as tests a right, a crossing, an empty, a wrong one."""
    (tmp_path / "gold").write_text(f"{GOLD}\n" * 4)
    (tmp_path / "test").write_text(f"{GOLD}\n{CROSSING}\n\n{GOLD.replace('dog', 'cat')}\n")
    (tmp_path / "x.prm").write_text(PARAMETERS)
    options = ["--parameters", str(tmp_path / "x.prm")]
    return [str(tmp_path / "gold"), str(tmp_path / "test"), *options]


def test_evalbs_table_summary_and_messages(trees):
    shown = vaswani("evalb", *trees)
    assert shown.out.startswith(TABLE + SUMMARY) and "FMeasure       =    nan\n" in shown.out
    assert shown.err == "4 : Words unmatch (dog|cat)\n"
    assert vaswani("evalb", *trees, "--summary").out == shown.out.removeprefix(TABLE)
    parts = json.loads(vaswani("evalb", *trees, "--format", "json").out)
    assert parts["all"]["bracketing_precision"] == pytest.approx(600 / 7)
    assert parts["len_4"]["bracketing_fmeasure"] is None and parts["len_4"]["sentence"] == 0
    parts = json.loads(vaswani("evalb", *trees[:2], "--format", "json").out)
    assert list(parts) == ["all", "len_40"] and parts["all"] == parts["len_40"]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["COLLINS", "new", "nk"])
def test_perturbed_trees_to_the_byte(name):
    folder = EVALB / "craft-valid-perturbed"
    if not folder.is_dir():
        pytest.skip(f"NOT TESTED: no {folder} (set VASWANI_DATA to the corpora)")
    files = folder / "gold.txt", folder / "test.txt", "--parameters", EVALB / f"{name}.prm"
    assert vaswani("evalb", *files).out == (folder / f"result.{name}.rsl").read_text()


EXAMPLES = [
    Example(["The mill burned.", "Nobody was hurt.", "It rained."], ["a mill burned", "fire"]),
    Example(["It rained. Then it snowed."], ["rain, then snow"]),
]
SUMMARIES = ["a mill burned down", ""]


@pytest.fixture
def summaries(tmp_path, monkeypatch) -> None:
    """Files in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_examples(iter(EXAMPLES), "test")
    for name, lines in {"hypothesis": SUMMARIES, "other": ["fire", "snow"]}.items():
        write_lines(tmp_path / name, lines)


def test_a_system_beside_lead_sentences(summaries):
    references = [example.references for example in EXAMPLES]
    leads = {
        "lead-1": ["The mill burned.", "It rained. Then it snowed."],
        "lead-2": ["The mill burned.\nNobody was hurt.", "It rained. Then it snowed."],
    }
    given = ("rouge", "--references", "test.jsonl", "--lead", 1)
    done = vaswani(*given, "--lead", 2, "--hypothesis", "hypothesis", "--format", "json")
    report = json.loads(done.out)
    assert (report["summaries"], report["references"], report["over"]) == (2, 3, "best")
    for system in report["systems"]:
        lines = (leads | {"model": SUMMARIES})[system["name"]]
        words = sum(len(line.split()) for line in lines) / 2
        assert system == {"name": system["name"], "words": words} | rouge(lines, references)
    assert [system["name"] for system in report["systems"]] == ["lead-1", "lead-2", "model"]
    said = "mean of 2 summaries; the best of each one's references (3 in all)"
    assert said in vaswani(*given).out


def test_files_of_references(summaries):
    flags = ("--hypothesis", "hypothesis", "--references", "test.summary", "other")
    flags += ("--over", "mean", "--no-stemming", "--format", "json")
    (model,) = json.loads(vaswani("rouge", *flags).out)["systems"]
    references = [["a mill burned", "fire"], ["rain, then snow", "snow"]]
    assert model == {"name": "model", "words": 2.0} | rouge(SUMMARIES, references, "mean", False)
