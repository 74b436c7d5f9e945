"""`vaswani rescore`: scores are the models' own, nothing is lost, what is broken is said."""

import json
import math
import random
import subprocess
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from sacrebleu.metrics import BLEU
from toy_bundle import write_checkpoint, write_data
from toy_language_model import write_lines

from tests.conftest import REPO, ancestors
from tests.support.commands import vaswani
from vaswani_plugin.export.checkpoints import save_checkpoint
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.rescoring import Lists, load_scorers, search_weights
from vaswani_plugin.text import bpe

pytestmark = ancestors
LSTM = ("--arch", "vaswani_seq2seq_lstm_tiny", "--d-model", "16")
SENTENCES = 14


class World:
    """Two checkpoints, sources, references and lists of 1 to 5 hypotheses."""

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
        files = {"source": folder / "source", "reference": folder / "reference"}
        self.test = [x for name, path in files.items() for x in (f"--{name}", path)]
        self.dev = ["--dev-nbest", self.moses]
        self.dev += [x for name, path in files.items() for x in (f"--dev-{name}", path)]

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

    def write(self, name: str, lines: list[str]):
        return write_lines(self.folder / name, lines)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("rescore"))


@pytest.fixture
def rescore(world):
    """Runs the command; returns exit code, output and errors."""

    def run(*args: object, system: str | None = None) -> tuple[int, str, str]:
        flags = ["--data", world.folder, "--system", system or f"lstm={world.lstm}"]
        flags += ["--nbest", world.moses, *world.test, *args]
        done = vaswani("rescore", *flags)
        return done.code, done.out, done.err

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


def test_scores_are_log_probabilities_of_the_models(world):
    """Of an ensemble, of one line that is nothing but its end, in many batches."""
    paths = [world.lstm, world.transformer]
    texts = [[text for text, _ in row] for row in world.lists]
    texts[3][0] = ""
    ((_, scorer),) = load_scorers({"own": paths}, world.folder, torch.device("cpu"))
    lists = Lists(world.moses, world.folder / "source")
    lists.texts = [text for row in texts for text in row]
    assert lists.add("own", scorer, 30) == []
    rest = iter(lists.features["own"])
    found = [np.array([next(rest) for _ in row]) for row in texts]
    for i in (0, 3, 4, 13):
        expected = [alone(paths, world.folder, world.sources[i], text) for text in texts[i]]
        np.testing.assert_allclose(found[i], expected, atol=1e-4)
    assert len({round(float(score), 3) for row in found for score in row}) > 20


def test_models_of_the_other_direction_score_its_lists_alone(world, rescore):
    state, backwards = load_checkpoint(world.lstm), world.folder / "backwards.pt"
    state["task_state"] |= {"languages": ["de", "en"]}
    save_checkpoint(state, backwards)
    assert rescore(system=f"backwards={backwards}")[0] == 0
    code, _, err = rescore("--system", f"backwards={backwards}")
    assert code == 1 and "--system backwards: checkpoints of de-en and en-de: give those" in err


def bleu(texts: list[str], references: list[str]) -> float:
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(texts, [references]).score


def test_the_table_with_searched_weights(world, rescore, tmp_path):
    """Baseline, each system, the oracle; the numbers are sacreBLEU's of what was chosen."""
    five = ":".join([str(world.lstm)] * 4 + [str(world.transformer)])
    flags = [*world.dev, "--system", f"five={five}", "--output", tmp_path / "best"]
    code, out, err = rescore(*flags, "--format", "json")
    assert code == 0, err
    rows = {row["system"]: row for row in json.loads(out)["rows"]}
    names = ["baseline", "baseline + words", "baseline + lstm", "baseline + five", "oracle"]
    assert list(rows) == names
    first = [max(row, key=lambda entry: entry[1])[0] for row in world.lists]
    assert rows["baseline"]["test_bleu"] == pytest.approx(bleu(first, world.references))
    chosen = (tmp_path / "best").read_text(encoding="utf-8").splitlines()
    assert rows["baseline + five"]["test_bleu"] == pytest.approx(bleu(chosen, world.references))
    scores = {name: row["test_bleu"] for name, row in rows.items()}
    assert scores["baseline"] < scores["baseline + five"] <= scores["oracle"]
    assert scores["baseline"] <= scores["baseline + words"] <= scores["oracle"]
    assert list(rows["baseline + five"]["weights"]) == ["score", "five", "words"]
    assert f"{scores['oracle']:.2f}" in rescore(*flags)[1].splitlines()[-1]
    code, out, err = rescore(*flags[:-1], "-")
    assert out.splitlines() == chosen and f"{scores['oracle']:.2f}" in err


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_and_the_search_beside_enumeration(tmp_path, seed):
    rng = random.Random(seed)
    texts = [" ".join(rng.choices("abc", k=rng.randint(5, 9))) for _ in range(16)]
    rows = [f"{i // 3} ||| {t} ||| ||| {rng.gauss(0, 1)}\n" for i, t in enumerate(texts[:12])]
    (tmp_path / "lists").write_text("".join(rows))
    (tmp_path / "golds").write_text("".join(f"{text}\n" for text in texts[12:]))
    lists = Lists(tmp_path / "lists", tmp_path / "golds", [tmp_path / "golds"])
    every = [lists.bleu(np.array(choice)) for choice in product(*lists.places)]
    assert every[0] == pytest.approx(bleu(texts[:12:3], texts[12:]))
    found = lists.bleu(lists.oracle())
    assert lists.bleu(lists.best(lists.features["score"])) <= found <= max(every) + 1e-9
    assert found == pytest.approx(max(every), rel=0.1)


class Peak:
    """Lists whose BLEU is a cone over the weights of "told" and "words", in standard deviations."""

    def __init__(self, *place: float) -> None:
        self.place, self.deviations = place, {"score": 0.5, "told": 2.0, "words": 4.0}
        self.features = {n: np.array([-s, s]) for n, s in self.deviations.items()}
        self.scores = self.best = lambda weights: weights

    def bleu(self, weights: dict[str, float]) -> float:
        held = {n: self.deviations[n] * weight for n, weight in weights.items()}
        assert sum(held.values()) - held["words"] == pytest.approx(1)
        return 99 - abs(held.get("told", 0) - self.place[0]) - abs(held["words"] - self.place[1])


@pytest.mark.parametrize(
    ("place", "found"),  # steps of 0.05 and 0.1; around the best point, of a tenth of that
    [((0.333, -0.277), (0.335, -0.28)), ((2, 9), (1, 1.1)), ((-2, -9), (0, -1.1))],
)
def test_the_grid_of_weights(place, found):
    score, told, words = (1 - found[0]) / 0.5, found[0] / 2, found[1] / 4
    total = abs(score) + abs(told) + abs(words)
    weights = search_weights(Peak(*place), ["score", "told", "words"])
    assert list(weights.values()) == pytest.approx([score / total, told / total, words / total])
    flat = Peak(0, 0)
    flat.bleu = lambda weights: 7.0
    assert search_weights(flat, ["score", "words"]) == {"score": 1, "words": 0}


FAULTS = {
    "line 6: must be ID |||": (5, "no list at all"),
    "line 6: must be ID ||| HYPOTHESIS": (5, "3 ||| a ||| F= 1 ||| nan"),
    "line 6: sentence 0 comes again": (5, "0 ||| a ||| F= 1 ||| 1"),
    "no hypotheses of sentence 0 (1 of 14": (0, "1 ||| a ||| F= 1 ||| 1"),
    "the hypothesis of sentence 0 has 31 tokens with its end, and the model takes 24": (
        0,
        f"0 ||| {'a ' * 30}||| ||| 1",
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_faults_of_lists(world, rescore, tmp_path, message):
    place, line = FAULTS[message]
    lines = world.as_moses()
    lines[place] = line
    path, output = world.write("broken", lines), tmp_path / "best"
    code, out, err = rescore("--nbest", path, "--output", output)
    assert code == 1 and message in err and str(path) in err and len(err.splitlines()) == 1
    assert out == "" and not output.exists()


def test_the_page_makes_lists_from_the_output_of_fairseq_generate(world, rescore, tmp_path):
    """The command line of docs/how-to/rescore.md."""
    lines = [
        line
        for i, row in reversed(list(enumerate(world.lists)))
        for text, score in row
        for line in (f"H-{i}\t{score}\t{text}", f"D-{i}\t{score}\tplain {text}", f"P-{i}\t-1 -1")
    ]
    (tmp_path / "valid.out").write_text("2026 | INFO | log\n" + "\n".join(lines) + "\n")
    page = (REPO / "docs/how-to/rescore.md").read_text(encoding="utf-8")
    command = next(line for line in page.splitlines() if line.startswith("awk "))
    subprocess.run(["bash", "-c", command.split("#")[0]], cwd=tmp_path, check=True)
    lines = (tmp_path / "valid.nbest").read_text(encoding="utf-8").splitlines()
    found = [[field.strip() for field in line.split("|||")] for line in lines]
    given = [(str(i), text) for i, row in enumerate(world.lists) for text, _ in row]
    assert [(fields[0], fields[1]) for fields in found] == given
    scores = [score * math.log(2) for row in world.lists for _, score in row]
    assert [float(fields[3]) for fields in found] == pytest.approx(scores, rel=1e-4)
    code, out, _ = rescore("--nbest", tmp_path / "valid.nbest", "--format", "json")
    assert code == 0, "without a development set both scores count the same"
    assert json.loads(out)["rows"][1]["weights"] == {"score": 0.5, "lstm": 0.5, "words": 0.0}


def test_codes_split_words_and_bpe_text_alike(world, tmp_path):
    codes, words = world.folder / "codes", (world.folder / "words").read_text().splitlines()[0]
    units = bpe.make_encoder(str(codes))(words)
    for line in words, units:
        paths = world.write("list", [f"0 ||| {line} ||| ||| 1"]), world.write("line", [line])
        lists = Lists(*paths, codes=codes)
        assert (lists.texts, lists.sources, lists.words) == ([units], [units], [words])


def test_given_weights_are_applied_and_unknown_words_counted(world, rescore, tmp_path):
    lines = [line.replace(" ||| ", " ||| zz@@ z ", 1) for line in world.as_moses()]
    flags = ("--nbest", world.write("list", lines), "--output", tmp_path / "best")
    code, _, err = rescore(*flags, "--weights", "score=-1")
    assert code == 0 and f"0 tokens of the sources and {2 * len(lines)} of the hypotheses" in err
    best = (tmp_path / "best").read_text(encoding="utf-8").splitlines()
    worst = [min(row, key=lambda entry: entry[1])[0] for row in world.lists]
    assert best == [f"zzz {text}" for text in worst]
