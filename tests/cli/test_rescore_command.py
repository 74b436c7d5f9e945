"""`vaswani rescore`: scores are the models' own, nothing is lost, what is broken is said.

The models are random ones over a small vocabulary; the lists are noisy copies of references.
"""

import json
import math
import random
from functools import cache

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from sacrebleu.metrics import BLEU
from toy_bundle import write_checkpoint, write_data
from without_fairseq import run_without_fairseq

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.export.ensembles import load_scorer
from vaswani_plugin.figures.nbest import read_nbest
from vaswani_plugin.figures.rescoring import read_set, score_lists
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_checkpoint
from vaswani_plugin.inference.forced import batches_of_pairs

LSTM = ("--arch", "vaswani_seq2seq_lstm_tiny", "--d-model", "16")
SENTENCES = 14


class World:
    """Two checkpoints, sources, references and lists of 1 to 5 hypotheses, in both formats."""

    def __init__(self, folder) -> None:
        self.folder = folder
        write_data(folder)
        self.lstm, self.transformer = folder / "lstm.pt", folder / "transformer.pt"
        write_checkpoint(folder, self.transformer, seed=2)
        write_checkpoint(folder, self.lstm, model=LSTM)
        state = load_checkpoint(self.lstm)
        for weight in state["model"].values():
            weight.mul_(8)  # initial weights are so small that all hypotheses would be alike
        save_checkpoint(state, self.lstm)
        rows = (folder / "dict.en.txt").read_text(encoding="utf-8").splitlines()
        self.words = [row.split()[0] for row in rows if "@@" not in row][:9]
        rng = random.Random(4)
        self.sources = [self.sentence(rng) for _ in range(SENTENCES)]
        self.references = [self.sentence(rng) for _ in range(SENTENCES)]
        self.lists = [
            [(self.noisy(rng, reference), round(rng.gauss(-3, 1), 3)) for _ in range(1 + i % 5)]
            for i, reference in enumerate(self.references)
        ]
        self.write("source", self.sources)
        self.write("reference", self.references)
        self.moses = self.write("moses", self.as_moses())
        self.fairseq = self.write("fairseq", self.as_fairseq())

    def sentence(self, rng: random.Random) -> str:
        return " ".join(rng.choices(self.words, k=rng.randint(5, 9)))

    def noisy(self, rng: random.Random, reference: str) -> str:
        words = reference.split()
        for _ in range(rng.randint(0, 3)):
            words[rng.randrange(len(words))] = rng.choice(self.words)
        return " ".join(words)

    def as_moses(self) -> list[str]:
        return [
            f"{i} ||| {text} ||| LM0= -{k} TM0= 0.5 0.25 ||| {score} ||| 0-{k}"
            for i, row in enumerate(self.lists)
            for k, (text, score) in enumerate(row)
        ]

    def as_fairseq(self) -> list[str]:
        """In another order, as fairseq-generate prints batches, between lines of its log.

        P lines have log2 P of each token and of the end; the score is their sum by the penalty.
        """
        lines = ["2026-01-01 | INFO | H-0 is no hypothesis"]
        for i in sorted(range(SENTENCES), key=lambda i: -len(self.sources[i])):
            lines += [f"S-{i}\t{self.sources[i]}", f"T-{i}\t{self.references[i]}"]
            for text, score in self.lists[i]:
                lines += [f"H-{i}\t{score}\t{text}", f"D-{i}\t{score}\tplain: {text}"]
                count = len(text.split()) + 1
                each = score * self.penalty(text) / count
                lines += [f"P-{i}\t" + " ".join([f"{each:.4f}"] * count)]
        return [*lines, "Generate test with beam=5: BLEU4 = 1.00"]

    @staticmethod
    def penalty(text: str) -> float:
        return ((5 + len(text.split()) + 1) / 6) ** 0.6

    def write(self, name: str, lines: list[str]):
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("rescore"))


@pytest.fixture
def rescore(world, capsys):
    """Runs the command; returns exit code, output and errors."""

    def run(*args: object, system: str | None = None) -> tuple[int, str, str]:
        flags = ["--data", world.folder, "--system", system or f"lstm={world.lstm}", *args]
        code = main(["rescore", *map(str, flags)])
        return code, *capsys.readouterr()

    return run


@cache
def load(path, data):
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": str(data)}
    )
    return model.eval(), task


@torch.no_grad()
def alone(paths: list, data, source: str, target: str) -> float:
    """log P of one pair, by itself: the sum over tokens of the log of the mean probability."""
    total = None
    for path in paths:
        model, task = load(path, data)
        ids = [
            [side.index(word) for word in line.split()] + [side.eos()]
            for side, line in ((task.source_dictionary, source), (task.target_dictionary, target))
        ]
        previous = torch.tensor([[ids[1][-1], *ids[1][:-1]]])
        logits = model(torch.tensor([ids[0]]), None, previous)[0][0].double()
        probability = logits.softmax(-1)[torch.arange(len(ids[1])), ids[1]]
        total = probability if total is None else total + probability
    return float((total / len(paths)).log().sum())


@pytest.mark.parametrize("names", [["lstm"], ["transformer"], ["lstm", "transformer"]])
@pytest.mark.parametrize("max_tokens", [30, 5000])
def test_scores_are_log_probabilities_of_the_models(world, names, max_tokens):
    paths = [getattr(world, name) for name in names]
    texts = [[text for text, _ in row] for row in world.lists]
    texts[3][0] = ""  # nothing but its end
    scorer = load_scorer(paths, world.folder, torch.device("cpu"))
    lists = read_set(world.moses, world.folder / "source", None, None)
    lists.texts = texts
    told = []
    found, unknown = score_lists(scorer, lists, max_tokens, "test", told.append)
    assert sum(told) == sum(map(len, texts)) and unknown == (0, 0)
    assert [len(scores) for scores in found] == [len(row) for row in texts]
    for i in (0, 3, 4, 13):
        expected = [alone(paths, world.folder, world.sources[i], text) for text in texts[i]]
        np.testing.assert_allclose(found[i], expected, atol=1e-4)
    assert len({round(float(score), 3) for row in found for score in row}) > 20


@pytest.mark.parametrize("max_tokens", [1, 12, 40, 1000])
def test_batches_hold_every_pair_once_and_keep_the_limit(max_tokens):
    rng = random.Random(7)
    sources = [torch.zeros(rng.randint(1, 9)) for _ in range(12)]
    targets = [[torch.zeros(rng.randint(1, 9)) for _ in range(rng.randint(1, 6))] for _ in sources]
    batches = list(batches_of_pairs(sources, targets, max_tokens))
    pairs = [(i, k) for i, row in enumerate(targets) for k in range(len(row))]
    assert sorted(pair for batch in batches for pair in batch) == pairs
    for batch in batches:
        longest = max(len(targets[i][k]) for i, k in batch)
        assert len(batch) == 1 or longest * len(batch) <= max_tokens
    assert len(batches) == 1 if max_tokens == 1000 else len(batches) > 3


def read_moses(path) -> list[list[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split(" ||| ") for line in lines]


@pytest.mark.parametrize("form", ["moses", "fairseq"])
def test_no_hypothesis_is_lost_and_ids_stay(world, rescore, tmp_path, form):
    flags = ["--source", world.folder / "source"] if form == "moses" else []
    outputs = ["--output", tmp_path / "best", "--output-nbest", tmp_path / "nbest"]
    flags += [*outputs, "--average", "--format", "json"]
    code, out, err = rescore("--nbest", getattr(world, form), *flags)
    assert (code, err) == (0, "")
    found = read_moses(tmp_path / "nbest")
    given = [(str(i), text) for i, row in enumerate(world.lists) for text, _ in row]
    assert sorted((fields[0], fields[1]) for fields in found) == sorted(given)
    assert [int(fields[0]) for fields in found] == sorted(int(i) for i, _ in given)
    best = (tmp_path / "best").read_text(encoding="utf-8").splitlines()
    assert len(best) == SENTENCES
    for i in range(SENTENCES):
        rows = [fields for fields in found if fields[0] == str(i)]
        totals = [float(fields[3]) for fields in rows]
        assert totals == sorted(totals, reverse=True)
        assert best[i] == ("plain: " if form == "fairseq" else "") + rows[0][1]
        for _, text, features, total, *rest in rows:
            scores = dict(zip(features.split()[-6::2], features.split()[-5::2], strict=True))
            # The list's score and the model's weigh the same, the length nothing.
            expected = (float(scores["score="]) + float(scores["lstm="])) / 2
            assert float(total) == pytest.approx(expected, rel=1e-4)
            assert float(scores["words="]) == len(text.split())
            own = [k for k, (t, s) in enumerate(world.lists[i]) if t == text]
            assert float(scores["score="]) in [world.lists[i][k][1] for k in own]
            if form == "moses":
                assert rest[0] in [f"0-{k}" for k in own] and "TM0= 0.5 0.25 score=" in features
    first = dict(zip(*[iter(rows[0][2].split()[-6:])] * 2, strict=True))
    expected = alone([world.lstm], world.folder, world.sources[-1], rows[0][1])
    if form == "fairseq":  # bits, by the penalty that the list's own scores were divided by
        expected /= math.log(2) * world.penalty(rows[0][1])
    assert float(first["lstm="]) == pytest.approx(expected, abs=1e-2)
    counts = json.loads(out)
    assert counts["sentences"] == SENTENCES and counts["hypotheses"] == len(given)


def bleu(texts: list[str], references: list[str]) -> float:
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(texts, [references]).score


def test_the_table_with_tuned_weights(world, rescore, tmp_path):
    """Baseline, each system, the oracle; the numbers are sacreBLEU's of what was chosen."""
    five = ":".join([str(world.lstm)] * 4 + [str(world.transformer)])
    flags = ["--nbest", world.fairseq, "--dev-nbest", world.moses]
    flags += [
        "--dev-source",
        world.folder / "source",
        "--dev-reference",
        world.folder / "reference",
    ]
    flags += ["--system", f"five={five}", "--output", tmp_path / "best"]
    code, out, err = rescore(*flags, "--format", "json")
    assert code == 0, err
    rows = {row["system"]: row for row in json.loads(out)["rows"]}
    names = ["baseline", "baseline + words", "baseline + lstm", "baseline + five", "oracle"]
    assert list(rows) == names
    for row in rows.values():  # both lists are the same one here
        assert row["dev_bleu"] == pytest.approx(row["test_bleu"], abs=1e-9)
    first = [max(row, key=lambda entry: entry[1])[0] for row in world.lists]
    assert rows["baseline"]["test_bleu"] == pytest.approx(bleu(first, world.references))
    chosen = (tmp_path / "best").read_text(encoding="utf-8").splitlines()
    texts = [line.removeprefix("plain: ") for line in chosen]
    assert rows["baseline + five"]["test_bleu"] == pytest.approx(bleu(texts, world.references))
    scores = {name: row["test_bleu"] for name, row in rows.items()}
    assert scores["baseline"] < scores["baseline + five"] <= scores["oracle"]
    assert scores["baseline + words"] <= scores["baseline + lstm"] <= scores["oracle"]
    assert list(rows["baseline + five"]["weights"]) == ["score", "five", "words"]
    code, out, _ = rescore(*flags)
    assert code == 0 and out.splitlines()[0].split() == (
        "| system | dev BLEU | test BLEU | weights |".split()
    )
    assert f"{scores['oracle']:.2f}" in out.splitlines()[-1]


def test_given_weights_are_applied(world, rescore, tmp_path):
    flags = ["--nbest", world.fairseq, "--output", tmp_path / "best"]
    code, _, err = rescore(*flags, "--weights", "score=-1")
    assert code == 0, err
    best = (tmp_path / "best").read_text(encoding="utf-8").splitlines()
    for line, row in zip(best, world.lists, strict=True):
        assert line == "plain: " + min(row, key=lambda entry: entry[1])[0]


def test_words_are_split_by_the_codes(world, rescore, tmp_path):
    """A list of whole words and one of their subwords: the same table."""
    lines = (world.folder / "words").read_text(encoding="utf-8").splitlines()
    from vaswani_plugin.text import bpe

    split = bpe.make_encoder(str(world.folder / "codes"))
    tables = []
    for name, function, more in (
        ("whole", str, ["--bpe-codes", world.folder / "codes"]),
        ("split", split, []),
    ):
        rows = [f"{i} ||| {function(line)} ||| ||| -1" for i, line in enumerate(lines)]
        nbest = tmp_path / name
        nbest.write_text("\n".join(rows) + "\n", encoding="utf-8")
        source = tmp_path / f"{name}.source"
        texts = [" ".join(line.split()[:4]) for line in lines]
        source.write_text("".join(f"{function(t)}\n" for t in texts), encoding="utf-8")
        reference = tmp_path / "reference"
        reference.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        output = tmp_path / f"{name}.out"
        flags = ["--nbest", nbest, "--source", source, "--reference", reference, *more]
        flags += ["--output-nbest", output, "--format", "json"]
        # The bundle's model takes 24 positions, these sentences have more subwords.
        code, out, err = rescore(*flags, system=f"lstm={long_lstm(world, tmp_path)}")
        assert code == 0, err
        tables.append((json.loads(out), [fields[2:4] for fields in read_moses(output)]))
    assert tables[0] == tables[1]
    assert tables[0][0]["rows"][0]["test_bleu"] == pytest.approx(100)


def long_lstm(world, folder):
    """The same model with room for longer sentences."""
    state = load_checkpoint(world.lstm)
    state["cfg"]["model"]["max_source_positions"] = 200
    state["cfg"]["model"]["max_target_positions"] = 200
    save_checkpoint(state, folder / "long.pt")
    return folder / "long.pt"


def replaced(lines: list[str], number: int, line: str | None) -> list[str]:
    """The lines with one replaced, or left out."""
    return [*lines[:number], *([] if line is None else [line]), *lines[number + 1 :]]


MOSES_FAULTS = {
    "a broken line": (lambda m: replaced(m, 5, "no list at all"), "line 6: must be ID |||"),
    "no number": (
        lambda m: replaced(m, 5, "3 ||| a ||| F= 1 ||| best"),
        "line 6: the score 'best'",
    ),
    "nan": (lambda m: replaced(m, 5, "3 ||| a ||| F= 1 ||| nan"), "line 6: the score 'nan' is no"),
    "a missing sentence": (lambda m: replaced(m, 0, None), "no hypotheses of sentence 0 (1 of 14"),
    "twice": (lambda m: m + m[:1], "line 41: sentence 0 comes again (its list began at line 1)"),
    "too short": (lambda m: m[:-4], "no hypotheses of sentence 13, which is line 14 of"),
    "too long": (lambda m: [*m, "14 ||| a ||| ||| 1"], "sentence 14, but"),
    "an endless one": (
        lambda m: replaced(m, 0, f"0 ||| {'a ' * 30}||| ||| 1"),
        "hypothesis of sentence 0 has 31 tokens with its end, and the model takes 24",
    ),
}


@pytest.mark.parametrize("fault", MOSES_FAULTS)
def test_faults_of_moses_lists(world, rescore, tmp_path, fault):
    change, message = MOSES_FAULTS[fault]
    path = tmp_path / "list"
    path.write_text("".join(f"{line}\n" for line in change(world.as_moses())), encoding="utf-8")
    output = tmp_path / "best"
    flags = ("--nbest", path, "--source", world.folder / "source", "--output", output)
    code, out, err = rescore(*flags)
    assert code == 1 and message in err and str(path) in err and len(err.splitlines()) == 1
    assert out == "" and not output.exists()


def lines_of(kind: str, lines: list[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if line.startswith(f"{kind}-")]


FAIRSEQ_FAULTS = {
    "a lost D line": (lambda f: replaced(f, lines_of("D", f)[-1], None), "H lines and"),
    "a lost S line": (lambda f: replaced(f, lines_of("S", f)[0], None), "missing"),
    "a sentence twice": (lambda f: f + f[1:5], "sentence"),
    "a broken line": (lambda f: replaced(f, lines_of("H", f)[0], "H-3\tx"), "a broken H line"),
    "another file": (lambda f: ["hello"], "neither Moses' n-best list"),
    "an empty source": (
        lambda f: replaced(f, 1, "S-" + f[1][2:].split("\t")[0] + "\t"),
        "is empty",
    ),
}


@pytest.mark.parametrize("fault", FAIRSEQ_FAULTS)
def test_faults_of_fairseqs_output(world, rescore, tmp_path, fault):
    change, message = FAIRSEQ_FAULTS[fault]
    path = tmp_path / "list"
    path.write_text("".join(f"{line}\n" for line in change(world.as_fairseq())), encoding="utf-8")
    code, out, err = rescore("--nbest", path)
    assert code == 1 and message in err and str(path) in err and len(err.splitlines()) == 1
    assert out == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--weights", "best=1"],
            "--weights best: no feature of that name; there are score, words",
        ),
        (["--weights", "words"], "--weights words: must be NAME=NUMBER"),
        (["--weights", "score=nan"], "--weights score=nan: must be NAME=NUMBER"),
        (["--weights", "words=1", "words=2"], "--weights words=2: words is given twice"),
        (["--weights", "words=1", "score=-inf"], "--weights score=-inf: must be NAME=NUMBER"),
        (["--system", "lstm=x"], "'lstm' is taken"),
        (["--system", "words=x"], "'words' is taken"),
        (["--system", "x"], "--system x: must be NAME=CHECKPOINT"),
        (["--system", "two=missing.pt"], "--system two=missing.pt: missing.pt does not exist"),
        (["--dev-reference", "x"], "--dev-source and --dev-reference go with --dev-nbest"),
        (["--dev-nbest", "x", "--weights", "words=1"], "leave one out"),
        (["--restarts", "0"], "--restarts and --seed go with --dev-nbest"),
        (["--seed", "0", "--dev-nbest", "x", "--average"], "without --average"),
        (["--bpe-codes", "nowhere"], "nowhere"),
        (["--reference", "nowhere"], "nowhere"),
        (["--output", "new", "--output-nbest", "new"], "new is an input or another output"),
        (["--reference", "old", "--output", "old"], "old is an input or another output"),
    ],
)
def test_flags_that_do_not_fit(world, rescore, flags, message):
    code, out, err = rescore("--nbest", world.fairseq, *flags)
    assert code == 1 and message in err and out == "" and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "flags",
    [
        ["--max-tokens", "0"],
        ["--restarts", "-1"],
        ["--average", "--weights", "words=1"],
    ],
)
def test_flags_out_of_range(world, rescore, capsys, flags):
    with pytest.raises(SystemExit):
        rescore("--nbest", world.fairseq, *flags)
    assert f"argument {flags[-2] if 'average' not in flags[0] else '--weights'}" in (
        capsys.readouterr().err
    )


def test_without_a_development_set_a_warning_is_given(world, rescore):
    """It averages evenly, as with --average, and says so once."""
    code, out, err = rescore("--nbest", world.fairseq)
    assert code == 0 and err.count("\n") == 1
    assert "without --dev-nbest nothing tells how good a system is" in err
    assert rescore("--nbest", world.fairseq, "--average") == (0, out, "")
    assert rescore("--nbest", world.fairseq, "--weights", "score=1")[2] == ""


@torch.no_grad()
def test_the_even_average_of_a_model_with_itself_is_its_own_order(world, rescore, tmp_path):
    """A list scored by fairseq-generate's rule, rescored by the same model: nothing moves.

    By log P added to a score that is divided by the length, longer hypotheses would sink.
    """
    lines = []
    rng = random.Random(11)
    for i, source in enumerate(world.sources):
        texts = {" ".join(rng.choices(world.words, k=rng.randint(2, 9))) for _ in range(8)}
        scored = []
        for text in texts:
            bits = alone([world.lstm], world.folder, source, text) / math.log(2)
            scored.append((bits / world.penalty(text), bits, text))
        lines += [f"S-{i}\t{source}", f"T-{i}\t{world.references[i]}"]
        for score, bits, text in sorted(scored, reverse=True):
            lines += [f"H-{i}\t{score}\t{text}", f"P-{i}\t{bits:.4f}"]
    given = tmp_path / "list"
    given.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    outputs = ("--output-nbest", tmp_path / "nbest", "--format", "json")
    code, out, err = rescore("--nbest", given, "--average", *outputs)
    assert code == 0, err
    before = [line.split("\t")[2] for line in lines if line.startswith("H-")]
    found = read_moses(tmp_path / "nbest")
    assert [fields[1] for fields in found] == before
    for fields in found:
        values = dict(zip(*[iter(fields[2].split()[-6:])] * 2, strict=True))
        assert float(values["lstm="]) == pytest.approx(float(values["score="]), rel=1e-3)
    rows = json.loads(out)["rows"]
    assert rows[1]["weights"] == {"score": 0.5, "lstm": 0.5, "words": 0.0}
    assert rows[1]["test_bleu"] == rows[0]["test_bleu"]
    added = rescore("--nbest", given, "--weights", "score=1", "lstm=1", *outputs)
    assert added[0] == 0
    assert [fields[1] for fields in read_moses(tmp_path / "nbest")] != before


def test_lists_whose_scale_nobody_knows(world, rescore, tmp_path):
    """fairseq-generate --quiet and the like: no P lines; or P lines that contradict the scores."""
    lines = [line for line in world.as_fairseq() if not line.startswith("P-")]
    path = world.write("without", lines)
    code, _, err = rescore("--nbest", path, "--average")
    assert code == 1 and "no P lines" in err and "--dev-nbest or --weights" in err
    assert rescore("--nbest", path, "--weights", "score=1")[0] == 0
    for change, part in (("P-3\t0.5", "the file was edited"), (None, "H lines and")):
        numbers = lines_of("P", world.as_fairseq())
        lines = replaced(world.as_fairseq(), numbers[-1], change and change)
        code, _, err = rescore("--nbest", world.write("edited", lines), "--average")
        assert code == 1 and (part in err or "missing" in err or "comes again" in err)


def test_tokens_whose_bits_are_rounded_to_zero(tmp_path):
    """fairseq prints the score in full and the bits of tokens in four decimals."""
    path = tmp_path / "list"
    path.write_text("S-0\ta\nH-0\t-1.2e-05\ta\nP-0\t-0.0000 -0.0000\n", encoding="utf-8")
    ((entry,),) = read_nbest(path).lists
    assert entry.score == -1.2e-05 and entry.per_nat == pytest.approx(1 / math.log(2))


def test_no_fairseq_is_needed_for_our_transformer(world):
    flags = ["rescore", "--data", world.folder, "--system", f"own={world.transformer}", "--cpu"]
    flags += ["--nbest", world.fairseq, "--average"]
    done = run_without_fairseq(*flags)
    assert (done.returncode, done.stderr) == (0, b"") and b"baseline + own" in done.stdout


def test_sources_and_references_must_come_from_somewhere(world, rescore):
    code, _, err = rescore("--nbest", world.moses)
    assert code == 1 and "holds no sources: give their file with --source" in err
    source = ("--source", world.folder / "source")
    code, out, _ = rescore("--nbest", world.moses, *source, "--format", "json")
    assert code == 0
    assert [row["test_bleu"] for row in json.loads(out)["rows"]] == [None, None]
    dev = ("--dev-nbest", world.moses, "--dev-source", world.folder / "source")
    code, _, err = rescore("--nbest", world.moses, *source, *dev)
    assert code == 1 and "holds no references: give --dev-reference" in err


def test_equal_hypotheses_are_all_kept(tmp_path):
    """Moses lists one text with several derivations; each stays."""
    path = tmp_path / "list"
    path.write_text("0 ||| a ||| F= 1 ||| -1\n0 ||| a ||| F= 1 ||| -1\n", encoding="utf-8")
    (entries,) = read_nbest(path).lists
    assert len(entries) == 2
