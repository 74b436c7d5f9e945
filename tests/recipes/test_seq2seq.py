"""recipes/seq2seq.sh: from text to the table; its statistical baseline, step by step."""

import itertools
import json
import math
import shlex
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from tests.support.scripts import ROOT, assert_one_line_error, run_bash, run_script
from tests.support.toy_text import write_toy

sys.path.append(str(ROOT / "recipes" / "lib"))

import phrase_baseline
import phrase_table
import seq2seq_report

from vaswani_plugin.metrics.published import SEQ2SEQ
from vaswani_plugin.text.messages import InputError

SCRIPT = ROOT / "recipes" / "seq2seq.sh"
TINY = ("--scale", "tiny", "--cpu", "--max-update", 15, "--stack-size", 5, "--lists", 5)
LEXICON = {"a": "x", "b": "y", "c": "z", "d": "w"}
SENTENCES = [
    words for size in (1, 2, 3) for words in itertools.product(LEXICON, repeat=size)
]  # of a language in which b comes after its neighbor


def translated(words: tuple[str, ...]) -> tuple[str, ...]:
    """The other language: word by word, each `b` exchanged with the word after it."""
    found, index = [], 0
    while index < len(words):
        pair = words[index : index + 2]
        if pair[0] == "b" and len(pair) == 2:
            pair = pair[::-1]
        else:
            pair = pair[:1]
        found += [LEXICON[word] for word in pair]
        index += len(pair)
    return tuple(found)


PAIRS = [(words, translated(words)) for words in SENTENCES]
SETTINGS = Namespace(
    iterations=3, longest_phrase=3, options=6, stack_size=50, threshold=0.0, distortion=0.5,
    word_penalty=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def decoder() -> phrase_baseline.ListDecoder:
    return phrase_baseline.train(PAIRS, SETTINGS)


def test_the_baseline_learns_words_and_their_order(decoder):
    right = sum(
        decoder.best(source, 1)[0][0] == " ".join(target) for source, target in PAIRS if source
    )
    assert right > 0.9 * len(PAIRS)


def log_p(decoder, words: tuple[str, ...]) -> float:
    """log P of a sentence with its end as one stream: trigrams, and a bigram for the first word."""
    numbers = [decoder.language_model.numbers[word] for word in (*words, "</s>")]
    _, bigrams, trigrams = decoder.language_model.models
    later = trigrams.log_probabilities(numbers)[1:].sum()
    return float(bigrams.log_probabilities(numbers)[0] + later)


def all_derivations(decoder, source: tuple[str, ...]):
    """Every translation by every segmentation and order, with its score: by enumeration."""
    table, size = decoder.phrase_table, len(source)
    spans = [
        (i, j) for i in range(size) for j in range(i + 1, size + 1) if source[i:j] in table
    ]  # fmt: skip
    for count in range(1, size + 1):
        for order in itertools.permutations(spans, count):
            if sorted(itertools.chain(*(range(*span) for span in order))) != list(range(size)):
                continue
            jumps = sum(abs(b[0] - a[1]) for a, b in itertools.pairwise(order))
            options = [table.translations_for(source[i:j]) for i, j in order]
            for chosen in itertools.product(*options):
                words = tuple(word for entry in chosen for word in entry.trg_phrase)
                score = sum(entry.log_prob for entry in chosen) + jumps * math.log(0.5)
                yield words, score + log_p(decoder, words)


@pytest.mark.parametrize("source", [("b", "c"), ("a", "b", "d"), ("c",), ("b", "a", "b")])
def test_lists_are_the_best_of_all_derivations(source):
    """With stacks that hold every hypothesis."""
    decoder = phrase_baseline.train(PAIRS, Namespace(**vars(SETTINGS) | {"stack_size": 100_000}))
    expected: dict[str, float] = {}
    for words, score in all_derivations(decoder, source):
        text = " ".join(words)
        expected[text] = max(score, expected.get(text, score))
    found = decoder.best(source, 10**6)
    assert dict(found) == pytest.approx(expected)
    assert [score for _, score in found] == pytest.approx(sorted(expected.values(), reverse=True))
    assert decoder.best(source, 2) == found[:2]


def test_unknown_words_are_copied(decoder):
    assert decoder.best(("a", "new"), 1)[0][0].split() == ["x", "new"]


def test_grow_diag_by_hand():
    forward, backward = {(0, 0), (1, 1), (2, 1), (3, 3)}, {(0, 0), (1, 1), (1, 2), (5, 5)}
    # (2, 1) and (1, 2) are neighbors of (1, 1) and bring in a free word each; (3, 3) is a neighbor
    # of neither, (5, 5) of nothing.
    found = phrase_table.grow_diagonally(forward, backward)
    assert found == {(0, 0), (1, 1), (2, 1), (1, 2)}
    # Both words of (1, 0) are aligned already: it stays out.
    assert phrase_table.grow_diagonally({(0, 0), (1, 1), (1, 0)}, {(0, 0), (1, 1)}) == {
        *((0, 0), (1, 1)),
    }


def test_phrase_scores_by_hand():
    counts = Counter({(("a",), ("x",)): 3, (("a",), ("y",)): 1, (("b",), ("x",)): 1})
    forward = {"x": {None: 0.1, "a": 0.6, "b": 0.2}, "y": {"a": 0.3}}
    backward = {"a": {"x": 0.5, "y": 0.4}, "b": {"x": 0.25}}
    table = phrase_table.make_phrase_table(counts, forward, backward, options=1)
    (best,) = table.translations_for(("a",))
    assert best.trg_phrase == ("x",)
    assert best.log_prob == pytest.approx(math.log(3 / 4 * 3 / 4 * 0.6 * 0.5) / 4)
    (only,) = table.translations_for(("b",))
    assert only.log_prob == pytest.approx(math.log(1 * 1 / 4 * 0.2 * 0.25) / 4)


def test_mistakes_of_the_baseline(tmp_path, monkeypatch):
    (tmp_path / "train.en").write_text("a b\n\n")
    (tmp_path / "train.de").write_text("x y\nz\n")
    (tmp_path / "in").write_text("a\n\n")
    script, flags = "recipes/lib/phrase_baseline.py", ("--pair", "en-de", "--output", "o")
    flags += ("--train", tmp_path / "train")
    done = run_script(script, *flags, "--input", tmp_path / "in")
    assert_one_line_error(done, "in, line 2: is empty")
    (tmp_path / "in").write_text("a\n")
    for inputs, message in (
        ([f"--input={tmp_path / 'in'}"], "train, line 2: a side is empty"),
        (["--input=x", "--input=y"], "2 --input and 1 --output"),
    ):
        monkeypatch.setattr(sys, "argv", [script, *map(str, flags), *inputs])
        with pytest.raises(InputError, match=message):
            phrase_baseline.main()


def test_only_the_first_pairs_are_read(tmp_path):
    """The block with the invalid byte at the end is never decoded."""
    for language in ("en", "de"):
        (tmp_path / f"train.{language}").write_bytes(b"a b\n" * 200_000 + b"\xff\n")
    found = phrase_baseline.read_pairs(f"{tmp_path}/train", ("en", "de"), 3)
    assert found == [(("a", "b"), ("a", "b"))] * 3


def trainings(done: subprocess.CompletedProcess) -> list[list[str]]:
    """The commands of a dry run that train."""
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(line[2:]) for line in done.stderr.split("\n") if line.startswith("+ ")]
    return [line for line in lines if "fairseq-train" in line]


def test_the_published_settings():
    done = run_bash(SCRIPT, "--dry-run", "--gpus", 1, "--work", "/no/such/work")
    found = trainings(done)
    assert len(found) == 6
    assert [line.count("--no-reverse-source") for line in found] == [1, 0, 0, 0, 0, 0]
    for line in found:
        values = dict(zip(line, line[1:], strict=False))
        assert values["--arch"] == "vaswani_seq2seq_lstm"
        assert (values["--optimizer"], values["--lr"], values["--clip-norm"]) == ("sgd", "0.7", "5")
        assert (values["--batch-size"], values["--dropout"]) == ("128", "0")
        assert (values["--constant-epochs"], values["--halving-epochs"]) == ("5", "0.5")
        assert "--sentence-avg" in line and values["--max-update"] == "7.5-EPOCHS"
    assert "--source-rows 160000 --target-rows 80000" in done.stderr
    assert "--beam 12 --lenpen 0" in done.stderr and "--lists 1000" in done.stderr


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--epochs", 1], "--epochs 1: must be at least 1.5"),
        (["--arch", "vaswani_tiny"], "--arch vaswani_tiny: must be a vaswani_seq2seq_lstm"),
        (["--seeds", "1,x"], "--seeds 1,x"),
        (["--gpus", 2], "--gpus 2: a batch of 128 sentences is one GPU's"),
        (["--nbest", "/no/such"], "--nbest /no/such: needs valid.nbest"),
        (["--data-bin", "x"], "--data-bin: no option"),
    ],
)
def test_mistaken_options(flags, part):
    assert_one_line_error(run_bash(SCRIPT, "--dry-run", *flags), "seq2seq: error: ", part)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path, Path]:
    """A run on two batches of training text."""
    work, data = (tmp_path_factory.mktemp(name) for name in ("my words", "text"))
    write_toy(data, train=100, valid=10, test=15)
    return run_bash(SCRIPT, *TINY, "--data", data, "--work", work, timeout=1500), work, data


def test_a_whole_run(finished):
    done, work, _ = finished
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    assert (result["recipe"], result["updates"]) == ("seq2seq", 15)
    rows = {row["system"]: row for row in result["rescoring"]["rows"]}
    reference = (work / "words" / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    best = {}
    for line in (work / "baseline" / "test.nbest").read_text(encoding="utf-8").split("\n")[:-1]:
        number, text, *_ = line.split(" ||| ")
        best.setdefault(int(number), text)
    score = sacrebleu.corpus_bleu(
        [best[number] for number in range(len(reference))], [reference],
        tokenize="none", force=True,
    ).score  # fmt: skip
    assert score > 0 and rows["baseline"]["test_bleu"] == pytest.approx(score)
    assert rows["oracle"]["test_bleu"] >= score
    weights = [row["weights"] for row in result["even_average"]["rows"] if row["weights"]]
    assert weights[1] == {"score": 0.5, "forwards": 0.5, "words": 0.0}
    for title, value in SEQ2SEQ:
        assert f"| {title}" in done.stdout and f"{value:.2f}" in done.stdout
    ours = f"{result['bleu']['tokenized']:.2f}"
    line = next(x for x in done.stdout.split("\n") if "one LSTM, source reversed" in x)
    assert [cell.strip() for cell in line.split("|")[2:4]] == ["30.59", ours]


def test_its_training_is_sutskevers(finished):
    """The rate that the log prints, update by update; unlike seeds; words beyond the dictionary."""
    import torch

    _, work, _ = finished
    log = (work / "logs" / "reversed-1.log").read_text(encoding="utf-8")
    lines = [line for line in log.split("\n") if "| train | epoch" in line]
    # The log shows the rate that follows an epoch: 5 epochs end with the first halving.
    rates = [float(line.split(" lr ")[1].split()[0]) for line in lines]
    expected = [0.7] * 4 + [0.35, 0.7 / 2**3, 0.7 / 2**5, 0.7 / 2**6]
    assert rates == pytest.approx(expected, rel=0.01)
    models = [
        torch.load(work / "models" / name / "checkpoint_last.pt", weights_only=False)["model"]
        for name in ("reversed-1", "reversed-2")
    ]
    keys = "encoder.embedding.weight", "decoder.embedding.weight", "decoder.projection.weight"
    assert [models[0][key].shape[0] for key in keys] == [200, 200, 200]
    assert not torch.equal(models[0][keys[1]], models[0][keys[2]])
    assert not torch.equal(models[0][keys[0]], models[1][keys[0]])
    source = np.fromfile(work / "data-bin" / "train.en-de.en.bin", dtype="<u2")
    assert (source == 3).any() and source.max() < 200


def test_a_second_run_trains_nothing(finished):
    _, work, data = finished
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    again = run_bash(SCRIPT, *TINY, "--data", data, "--work", work)
    assert again.returncode == 0 and again.stderr.count("done before") == 8
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.parametrize(
    ("models", "beam", "published", "rescored"),
    [(5, 12, 34.81, 36.5), (2, 12, 33.27, None), (5, 2, 34.5, 36.5), (3, 4, None, None)],
)
def test_an_ensemble_stands_beside_its_like(tmp_path, models, beam, published, rescored) -> None:
    (tmp_path / "rescored").mkdir()
    (tmp_path / "output").mkdir()
    systems = ["baseline", "baseline + words", "baseline + reversed", "baseline + ensemble"]
    rows = [{"system": name, "test_bleu": n} for n, name in enumerate([*systems, "oracle"])]
    for name in ("average", "tuned"):
        (tmp_path / "rescored" / f"{name}.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "output" / "ensemble.json").write_text('{"tokenized": 7.5}')
    table = {row[0]: row[1:] for row in seq2seq_report.make_rows(tmp_path, models, beam)}
    assert [row[0] for row in table.values() if row[1] == 7.5] == [published]
    assert [row[0] for row in table.values() if row[1] == 3] == [rescored]
    assert list(table)[: len(SEQ2SEQ)] == [title for title, _ in SEQ2SEQ]
    assert table["best of each list (oracle)"] == (45.0, 4, None)
