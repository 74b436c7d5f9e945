"""`vaswani cost`: its frozen flags and keys, the paper's figures, runs in Table 2, errors."""

import json
import re
from pathlib import Path

import pytest

from vaswani_plugin.cli.__main__ import command_parser, main

LOG = """2026 | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 1}, \
'model': {'_name': 'vaswani_debug', 'd_model': 32, 'd_ff': 64, 'encoder_layers': 2, \
'decoder_layers': 2, 'heads': 4, 'd_k': None, 'd_v': None, 'positions': sinusoidal}}
2026 | INFO | fairseq.tasks.translation | [en] dictionary: 90 types
2026 | INFO | fairseq.tasks.translation | [de] dictionary: 100 types
2026 | INFO | fairseq_cli.train | num. shared model params: 12,345 (num. trained: 12,345)
2026 | INFO | fairseq_cli.train | training on 2 devices (GPUs/TPUs)
2026 | INFO | train_inner | epoch 001:  10 / 12 wps=500, wpb=1000, bsz=50, num_updates=10, wall=36
"""
# Source and target of 20 tokens: projections, Eq. 1 and feed-forward network of both stacks, then
# the projection to 100 types; 50 sentences, 2 FLOPs, 3 passes, 10 updates.
ENCODER = 2 * 20 * (4 * 32 * 32 + 2 * 20 * 32 + 2 * 32 * 64)
DECODER = 2 * 20 * (8 * 32 * 32 + 4 * 20 * 32 + 2 * 32 * 64) + 20 * 32 * 100
COUNTED = (ENCODER + DECODER) * 50 * 2 * 3 * 10


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The work folder of a recipe that has ended."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_text(LOG, encoding="utf-8")
    bleu = {"tokenized": 31.25, "compound_split": 32.5, "sacrebleu": 30.0, "signature": "x"}
    result = {"recipe": "toy", "arch": "vaswani_debug", "bleu": bleu}
    (tmp_path / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return tmp_path


def as_json(arguments: list[str], capsys: pytest.CaptureFixture) -> dict:
    assert main(["cost", *arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_flags_are_frozen() -> None:
    flags = {f for action in command_parser("cost")._actions for f in action.option_strings}
    assert flags == {
        *("-h", "--help", "--hours", "--devices", "--device", "--teraflops", "--arch", "--vocab"),
        *("--sentences", "--source-length", "--target-length", "--updates", "--run", "--format"),
    }


def test_json_has_the_frozen_keys(work: Path, capsys: pytest.CaptureFixture) -> None:
    assert list(as_json([], capsys)) == ["paper", "runs", "table_2", "devices"]
    flags = ["--hours", "1", "--device", "P100", "--arch", "vaswani_tiny", "--run", str(work)]
    result = as_json(flags, capsys)
    keys = ["paper", "by_time", "by_counting", "runs", "table_2", "devices"]
    assert list(result) == keys
    assert [list(result[key][0]) for key in ("paper", "runs", "table_2", "devices")] == [
        ["model", "hours", "devices", "device", "teraflops", "flops", "printed_flops"],
        ["run", "arch", "pair", "parameters", "updates", "hours", "devices", "device"]
        + ["teraflops", "kind", "flops_counted", "flops_by_time", "bleu"],
        ["model", "bleu_en_de", "bleu_en_fr", "flops_en_de", "flops_en_fr", "remark"],
        ["name", "teraflops", "kind", "source"],
    ]
    assert list(result["by_time"]) == ["hours", "devices", "device", "teraflops", "kind", "flops"]
    assert list(result["by_counting"]) == [
        *("arch", "vocabulary", "sentences", "source_length", "target_length", "updates"),
        *("forward_flops", "flops_per_update", "flops"),
    ]


def test_the_papers_figures(capsys: pytest.CaptureFixture) -> None:
    assert main(["cost"]) == 0
    shown = capsys.readouterr().out
    assert "12 h x 8 P100 x 9.5 TFLOP/s = 3.28e+18 (printed: 3.3e18)" in shown
    assert "84 h x 8 P100 x 9.5 TFLOP/s = 2.30e+19 (printed: 2.3e19)" in shown
    rows = [line.split("  ") for line in shown.splitlines()]
    (gnmt,) = [[cell.strip() for cell in r if cell] for r in rows if r[0] == "GNMT + RL"]
    assert gnmt[1:] == ["24.6", "39.92", "2.3e19", "1.4e20"]


def test_by_time(capsys: pytest.CaptureFixture) -> None:
    flags = ["--hours", "84", "--devices", "8", "--device", "P100"]
    found = as_json(flags, capsys)["by_time"]
    assert found["flops"] == pytest.approx(2.298e19, rel=1e-3) and found["kind"] == "sustained"
    found = as_json(["--hours", "0.5", "--teraflops", "2"], capsys)["by_time"]
    assert found["flops"] == pytest.approx(1800 * 2e12) and found["devices"] == 1
    assert main(["cost", "--hours", "1", "--device", "H100"]) == 0
    assert "= at most 3.56e+18 FLOPs" in capsys.readouterr().out


def test_by_counting(capsys: pytest.CaptureFixture) -> None:
    flags = ["--arch", "vaswani_debug", "--vocab", "100", "--sentences", "50", "--updates", "10"]
    flags += ["--source-length", "20", "--target-length", "20"]
    found = as_json(flags, capsys)["by_counting"]
    assert found["flops"] == COUNTED and found["flops_per_update"] * 10 == COUNTED
    assert found["forward_flops"] * 3 * 10 == COUNTED
    updates = [
        as_json(["--arch", arch], capsys)["by_counting"]["updates"]
        for arch in ("vaswani_base", "vaswani_big", "vaswani_big_en_fr")
    ]
    assert updates == [100_000, 300_000, 300_000]


@pytest.mark.parametrize("given", ["", "result.json", "logs/train.log"])
def test_a_run_stands_in_table_2(given: str, work: Path, capsys: pytest.CaptureFixture) -> None:
    path = str(work / given)
    (run,) = as_json(["--run", path, "--teraflops", "0.01"], capsys)["runs"]
    assert run["flops_counted"] == pytest.approx(COUNTED)
    assert run["flops_by_time"] == pytest.approx(36 * 2 * 1e10)
    assert (run["pair"], run["updates"], run["devices"]) == ("en-de", 10, 2)
    assert main(["cost", "--run", path, "--teraflops", "0.0001"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert f"  of which counting finds {100 * COUNTED / 7.2e9:.1f}%" in shown
    (row,) = [line.split() for line in shown if line.startswith("ours: ")]
    # The score that papers print for English-German is the compound-split one.
    expected = [] if given.endswith(".log") else ["32.5"]
    assert row[row.index("*") + 1 :] == [*expected, "3.1e9"]
    assert 3.05e9 < COUNTED < 3.15e9


def test_the_log_names_its_device(work: Path, capsys: pytest.CaptureFixture) -> None:
    log = work / "logs" / "train.log"
    name = "2026 | INFO | fairseq.utils | rank   0: capabilities = 9.0 ; name = NVIDIA H100 80GB\n"
    log.write_text(name + LOG, encoding="utf-8")
    (run,) = as_json(["--run", str(log)], capsys)["runs"]
    assert (run["device"], run["teraflops"], run["kind"]) == ("H100", 989.0, "peak")
    (run,) = as_json(["--run", str(log), "--device", "P100", "--devices", "8"], capsys)["runs"]
    assert (run["device"], run["devices"]) == ("P100", 8)
    (run,) = as_json(["--run", str(log), "--teraflops", "3"], capsys)["runs"]
    assert (run["device"], run["teraflops"]) == (None, 3.0)


LSTM = "'_name': 'vaswani_attention_lstm_tiny', 'd_model': 12, 'layers': 2, 'dropout': 0.1, "
TEXT_MODEL = "'_name': 'vaswani_lm_debug', 'd_model': 32, 'd_ff': 64, 'decoder_layers': 2, "


@pytest.mark.parametrize("fed", [False, True])
def test_a_run_of_an_lstm_is_counted(work: Path, capsys: pytest.CaptureFixture, fed: bool) -> None:
    """An LSTM's four gates see its input and its state; attention, W [c; s], the projection."""
    log, model = work / "logs" / "train.log", LSTM + f"'input_feeding': {fed}"
    log.write_text(re.sub("'_name': 'vaswani_debug'[^}]*", model, LOG), encoding="utf-8")
    (run,) = as_json(["--run", str(log)], capsys)["runs"]
    reading = 2 * 2 * 4 * 6 * (12 + 6)
    writing = 4 * 12 * (24 + 12 * fed) + 4 * 12 * 24
    attention = 2 * 12 * 20 + 2 * 12 * 12
    sentence = 20 * (reading + writing + attention + 12 * 100)
    assert run["flops_counted"] == pytest.approx(sentence * 50 * 2 * 3 * 10)


def test_a_run_of_a_language_model_is_counted(work: Path, capsys: pytest.CaptureFixture) -> None:
    log, model = work / "logs" / "train.log", TEXT_MODEL + "'heads': 4, 'd_k': None, 'd_v': None"
    text = re.sub("'_name': 'vaswani_debug'[^}]*", model, LOG)
    text = text.replace("[de] dictionary", "dictionary").replace("[en] dictionary", "words")
    log.write_text(text, encoding="utf-8")
    (run,) = as_json(["--run", str(log)], capsys)["runs"]
    layers = 2 * 20 * (4 * 32 * 32 + 2 * 20 * 32 + 2 * 32 * 64)
    expected = (layers + 20 * 32 * 100) * 50 * 2 * 3 * 10
    assert run["flops_counted"] == pytest.approx(expected)
    assert run["pair"] is None
    assert main(["cost", "--run", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "vaswani_lm_debug, 12,345 parameters" in shown and "by counting: 1.33e+09" in shown
    assert "\nours: " not in shown and "None" not in shown  # Table 2 is of two pairs of languages


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ("'d_model': 32", "'d_model': None"),
        ("'decoder_layers': 2", "'decoder_layers': many"),
        ("'heads': 4", "'heads': 0"),
        ("'d_ff': 64", f"'d_ff': {10**400}"),
    ],
)
def test_other_models_are_not_counted(
    work: Path, capsys: pytest.CaptureFixture, settings: str, others: str
) -> None:
    log = work / "logs" / "train.log"
    assert settings in LOG
    log.write_text(LOG.replace(settings, others), encoding="utf-8")
    (run,) = as_json(["--run", str(log)], capsys)["runs"]
    assert run["flops_counted"] is None and run["flops_by_time"] is None
    assert main(["cost", "--run", str(log)]) == 0
    assert "by counting: not known for this kind of model" in capsys.readouterr().out


def test_bad_input_is_one_line(work: Path, capsys: pytest.CaptureFixture) -> None:
    text, broken = work / "text", work / "broken.json"
    text.write_text("just a text\n", encoding="utf-8")
    broken.write_text("[1]", encoding="utf-8")
    for name in ("wpb", "bsz"):
        content = re.sub(f"{name}=[0-9]+", f"{name}=0", LOG)
        (work / f"no-{name}.log").write_text(content, encoding="utf-8")
    for flags, message in (
        (["--hours", "1"], "--hours needs a rate: give --device or --teraflops"),
        (["--device", "P100"], "need --hours or --run"),
        (["--devices", "0"], "need --hours or --run"),
        (["--updates", "5"], "--updates need --arch"),
        (["--vocab", "7", "--hours", "1", "--device", "P100"], "--vocab, --sentences, "),
        (["--hours", "-1", "--teraflops", "1"], "time is -3600.0; it must be a number"),
        (["--hours", "inf", "--device", "P100", "--format", "json"], "time is inf"),
        (["--run", str(work), "--teraflops", "0"], "TFLOP/s is 0.0"),
        (["--run", str(work), "--teraflops", "inf"], "TFLOP/s is inf"),
        (["--hours", "1", "--teraflops", "1", "--devices", "0"], "devices is 0"),
        (["--arch", "transformer"], "transformer: can't be counted; these can: vaswani_base"),
        (["--arch", "vaswani_base", "--updates", "0"], "--updates is 0"),
        (["--arch", "vaswani_base", "--sentences", "0"], "--sentences is 0"),
        (["--run", str(text)], "is this a log of fairseq-train"),
        (["--run", str(work / "no-wpb.log")], "no-wpb.log: its tokens, sentences, speed or time"),
        (["--run", str(work / "no-bsz.log")], "no-bsz.log: its tokens, sentences, speed or time"),
        (["--run", str(broken)], "broken.json: no result.json of a recipe"),
        (["--run", str(work / "absent")], "absent: No such file"),
    ):
        assert main(["cost", *flags]) == 1, flags
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1, flags
        assert captured.err.startswith("vaswani cost: error: ") and message in captured.err, flags
    (work / "logs" / "train.log").unlink()
    assert main(["cost", "--run", str(work)]) == 1
    assert "no logs/train.log beside it" in capsys.readouterr().err
