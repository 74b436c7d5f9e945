"""`vaswani archs`, `complexity`, `positions`, `cost` and `curves`: the numbers of the paper."""

import json
import math
import re
from pathlib import Path

import pytest

from tests.conftest import ancestors
from tests.support.commands import vaswani
from vaswani_plugin import register
from vaswani_plugin.figures.flops import by_counting

PNG = b"\x89PNG"
TABLE_2 = """\
ByteNet                     23.75  -      -       -
Deep-Att + PosUnk           -      39.2   -       1.0e20
GNMT + RL                   24.6   39.92  2.3e19  1.4e20
ConvS2S                     25.16  40.46  9.6e18  1.5e20
MoE                         26.03  40.56  2.0e19  1.2e20
Deep-Att + PosUnk, ensemble -      40.4   -       8.0e20
GNMT + RL, ensemble         26.30  41.16  1.8e20  1.1e21
ConvS2S, ensemble           26.36  41.29  7.7e19  1.2e21
Transformer (base)          27.3   38.1   3.3e18  -
Transformer (big)           28.4   41.8   2.3e19  -
"""
FOOTNOTE_5 = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}


def as_json(*arguments: object) -> dict:
    return json.loads(vaswani(*arguments, "--format", "json").out)


@ancestors
def test_every_printed_count_agrees_but_that_of_big() -> None:
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY

    rows = {row["arch"]: row for row in as_json("archs")}
    printed = {n: r["printed_parameters"] for n, r in rows.items() if r["printed_parameters"]}
    assert printed["vaswani_seq2seq_lstm"] == 384_000_000  # Sutskever et al. (2014), section 3.4
    assert len(printed) == 12  # Table 3's are in tests/model/test_architectures.py
    for name in printed:
        agrees = abs(rows[name]["difference"] / 1e6) <= 0.5
        assert rows[name]["agrees"] is agrees is (name != "vaswani_big")
    register()
    known = {arch for arch in ARCH_MODEL_NAME_REGISTRY if arch.startswith("vaswani")}
    assert known - set(rows) == {"vaswani_transformer", "vaswani_lm"}  # base, by another name


def test_one_architecture_has_its_values_and_flags() -> None:
    assert "big: +5.3M against the printed count" in vaswani("archs", "vaswani_big").out
    text = vaswani("archs", "vaswani_b_dk16", "--vocab", 1000).out
    for flag, value in (("d-k", "16"), ("d-v", "64"), ("d-model", "512"), ("dropout", "0.1")):
        assert re.search(rf"^--{flag} +{value} ", text, re.MULTILINE)
    row = as_json("archs", "vaswani_base", "--vocab", 1000)
    assert row["parameters"] == 65_110_016 - 512 * (40_960 - 1000)  # one shared matrix
    assert "encoder_layers" not in as_json("archs", "vaswani_lm_tiny")["values"]


def test_table_1_by_formula() -> None:
    shown = vaswani("complexity", "--n", 100, "--d", 200, "--k", 3, "--r", 10).out
    for part in ("n^2 d = 2,000,000", "n d^2 = 4,000,000", "k n d^2 = 12,000,000", "n = 100"):
        assert part in shown
    for part in ("r n d = 200,000", "log_k n = 4.19", "n/r = 10", "costs 0.5 times", "5 layers"):
        assert part in shown
    for n, k, layers in ((125, 5, 3), (128, 2, 7), (126, 5, 4)):  # k times as many in each
        assert f"after {layers} layers" in vaswani("complexity", "--n", n, "--k", k, "--r", 1).out


def test_positions_are_the_papers_formula(tmp_path: Path) -> None:
    shown = as_json("positions", "--length", 7, "--d-model", 6)
    for pos in range(7):
        for i in range(3):
            angle = pos / 10000 ** (2 * i / 6)
            expected = pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-12)
            assert shown["table"][pos][2 * i : 2 * i + 2] == expected
    expected = sum(math.cos(2 / 10000 ** (2 * i / 6)) for i in range(3)) / 6
    assert shown["product_by_distance"]["2"] == pytest.approx(expected)
    plot = tmp_path / "positions.png"
    text = vaswani("positions", "--length", 30, "--d-model", 16, "--plot", plot).out
    assert "k   0  0.5000" in text and "k  20  " in text and "k  50" not in text
    assert plot.read_bytes().startswith(PNG)


def test_the_papers_costs() -> None:
    shown = vaswani("cost").out
    assert "12 h x 8 P100 x 9.5 TFLOP/s = 3.28e+18 (printed: 3.3e18)" in shown
    assert "84 h x 8 P100 x 9.5 TFLOP/s = 2.30e+19 (printed: 2.3e19)" in shown
    found = as_json("cost", "--hours", 0.5, "--teraflops", 2)["by_time"]
    assert found["flops"] == pytest.approx(1800 * 2e12) and found["devices"] == 1
    said = {"--hours=-1": "at least 0", "--hours=1e300": "a finite number, below 1e20"}
    said |= {"--teraflops=-3": "above 0", "--teraflops=nan": "a finite number"}
    for flag, rule in (said | {"--vocab=99999999999": "from 1 to 1,000,000"}).items():
        name, _, value = flag.partition("=")
        assert f"argument {name}: {value}: must be {rule}" in vaswani("cost", flag).err
    assert "= at most 3.56e+18 FLOPs" in vaswani("cost", "--hours", 1, "--device", "H100").out


def test_table_2_and_the_rates_as_printed() -> None:
    found = as_json("cost")
    rows = [line.rsplit(maxsplit=4) for line in TABLE_2.splitlines()]
    printed = [[name, *(None if v == "-" else float(v) for v in cells)] for name, *cells in rows]
    assert [list(row.values())[:5] for row in found["table_2"]] == printed
    rates = {d["name"]: d["teraflops"] for d in found["devices"] if d["kind"] == "sustained"}
    assert rates == FOOTNOTE_5


def test_the_cost_of_an_architecture_by_counting() -> None:
    flags = ["--vocab", 100, "--sentences", 50, "--source-length", 20, "--target-length", 9]
    found = as_json("cost", "--arch", "vaswani_debug", *flags, "--updates", 10)["by_counting"]
    assert found == by_counting("vaswani_debug", 100, (50, 20, 9), 10)
    assert as_json("cost", "--arch", "vaswani_big")["by_counting"]["updates"] == 300_000


INNER = (
    '2026 | INFO | train_inner | {{"epoch": 1, "loss": "{1}", "ppl": "8", "wps": "500", '
    '"wpb": "100", "num_updates": "{0}", "lr": "0.003", "gnorm": "1.5", "wall": "{0}"}}\n'
)
VALID = (
    '2026 | INFO | valid | {{"epoch": 1, "valid_loss": "{1}", "valid_bleu": "{1}", '
    '"valid_num_updates": "{0}"}}\n'
)


@pytest.fixture
def log(tmp_path: Path):
    """Writes a log of losses by update, some of them of validation; returns its path."""

    def write(*losses: tuple, valid: tuple = (), name: str = "x.log") -> Path:
        text = "".join(INNER.format(*each) for each in losses)
        (tmp_path / name).write_text(text + "".join(VALID.format(*each) for each in valid))
        return tmp_path / name

    return write


def test_curves_have_a_first_a_best_and_a_last_value(log) -> None:
    path = log((1, 9), (2, 3), (3, "nan"), (4, 4), valid=[(4, 7)])
    found = as_json("curves", path)["runs"][0]["series"]
    loss = found["loss"]
    assert (loss["first"], loss["best"], loss["best_update"]) == (9, 3, 2)
    assert (loss["last"], loss["last_update"], loss["not_finite"]) == (4, 4, 1)
    assert (loss["updates"], loss["y"]) == ([1, 2, 3, 4], [9, 3, None, 4])
    assert found["valid loss"]["y"] == found["valid bleu"]["y"] == [7]
    assert found["lr"]["best"] is None
    text = vaswani("curves", path, "--label", "mine").out
    assert text.split("\n")[2].split() == ["mine", "loss", "9", "3", "2", "4", "4"]
    assert "mine: loss: 1 of 4 values are no finite numbers" in text


def test_curves_are_drawn_together(log, tmp_path, monkeypatch) -> None:
    from matplotlib.figure import Figure

    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: (drawn.append(f), save(f, *a, **k)))
    logs = [log((1, 9), (2, 8), valid=[(2, 7)], name="a"), log((1, 5), (3, 4), name="b")]
    picture = tmp_path / "c.png"
    flags = ["--label", "first", "second", "--series", "loss", "lr", "--output", picture]
    assert vaswani("curves", *logs, *flags).code == 0
    assert picture.read_bytes().startswith(PNG)
    loss, lr = drawn[0].axes
    lines = {line.get_label(): list(line.get_ydata()) for line in loss.lines}
    assert lines == {"first": [9, 8], "first, valid": [7], "second": [5, 4]}
    assert {line.get_label() for line in lr.lines} == {"first", "second"}


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["logs/train.log", "logs/train-old.log"], ["my run"]),
        (["logs/train-a.log", "logs/train-reversed.log"], ["train-a", "train-reversed"]),
        (["trainings/a-1/train.log", "trainings/b-1/train.log"], ["a-1", "b-1"]),
    ],
)
def test_curves_of_a_folder(log, names, labels, tmp_path) -> None:
    for name in names:
        path = tmp_path / "my run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        log((1, 9)).rename(path)
    assert [run["label"] for run in as_json("curves", tmp_path / "my run")["runs"]] == labels
