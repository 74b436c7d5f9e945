"""Reading the log of fairseq-train: epochs, intervals, resumed runs, files that are none."""

import pytest

from vaswani_plugin.text.training_log import read_curves, read_training

SETUP = """2026 | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 1}, \
'model': {'_name': 'vaswani_tiny', 'd_model': 128}, 'task': {'_name': 'vaswani_translation'}}
2026 | INFO | fairseq_cli.train | num. shared model params: 2,568,192 (num. trained: 2,568,192)
"""
LOADED = "2026 | INFO | fairseq.trainer | Loaded checkpoint a.pt (epoch 1 @ {n} updates)\n"


def inner(n: int, wpb: object = 1000, wall: object = 20, wps: object = 500) -> str:
    fields = f'"wps": "{wps}", "wpb": "{wpb}", "num_updates": "{n}", "wall": "{wall}"'
    return f'2026 | INFO | train_inner | {{"epoch": 1, {fields}}}\n'


def epoch(n: int, wall: int = 70) -> str:
    fields = f'"train_wps": "900", "train_wpb": "9999", "train_num_updates": "{n}"'
    return f'2026 | INFO | train | {{"epoch": 1, {fields}, "train_wall": "{wall}"}}\n'


def read(log: str):
    return read_training(log.split("\n"), "x.log")


def test_setup_speed_and_time() -> None:
    valid = '2026 | INFO | valid | {"epoch": 1, "valid_ppl": "7.5", "valid_num_updates": "40"}\n'
    other = "2026 | INFO | valid | epoch 001 | loss 3\n" + inner(90)[:-9] + "\n" + inner("nan")
    log = SETUP + inner(10, wps=500) + inner(40, 3000, 61.5, wps=1500) + other + valid + epoch(50)
    run = read(log)
    assert [point["ppl"] for point in run.valid] == [7.5]
    assert (run.arch, run.parameters) == ("vaswani_tiny", 2_568_192)
    assert (run.updates, run.seconds) == (50, 70)
    # Ten updates of 1,000 tokens take 20 s, thirty of 3,000 tokens 60 s.
    assert run.tokens_per_second == pytest.approx((10 * 1000 + 30 * 3000) / (20 + 60))
    # A short run logs epochs alone.
    run = read(SETUP + epoch(8, wall=3))
    assert (run.updates, run.seconds, run.tokens_per_second) == (8, 3, 900)


JSON = """{"epoch": 1, "update": 0.5, "loss": "6", "wps": "50", "num_updates": "2", "wall": "3"}
{"epoch": 1, "valid_loss": "5.5", "valid_ppl": "45.2", "valid_num_updates": "4"}
{"epoch": 1, "valid1_loss": "nan", "valid1_num_updates": "4"}
{"epoch": 1, "train_loss": "5.8", "train_train_wall": "2", "train_num_updates": "4"}
"""
SIMPLE = """epoch 001:      2 / 4 loss=6, wps=50, num_updates=2, wall=3
epoch 001 | valid on 'valid' subset | loss 5.5 | ppl 45.2 | num_updates 4
epoch 001 | valid on 'valid1' subset | loss nan | num_updates 4
epoch 001 | loss 5.8 | train_wall 2 | num_updates 4
"""


@pytest.mark.parametrize("head", ["", "2026 | INFO | x | ", "[2026][x][INFO] - ", "INFO:x:"])
@pytest.mark.parametrize("log", [JSON, SIMPLE], ids=["json", "simple"])
def test_every_format_of_a_log_is_read(head, log) -> None:
    """As fairseq-train writes it, with --log-file, of Hydra and of Python's own logger."""
    curves = read_curves([f"{head}{line}" for line in log.split("\n")], "x.log")
    assert curves.pop("valid1")[0]["num_updates"] == 4
    kept = {k: {n: x for n, x in p.items() if n in "loss ppl wall"} for k, (p,) in curves.items()}
    valid, train = {"loss": 5.5, "ppl": 45.2}, {"loss": 5.8}
    assert kept == {"train_inner": {"loss": 6, "wall": 3}, "valid": valid, "train": train}
    assert curves["train_inner"][0]["seconds"] == 3 and curves["train"][0]["interval"] == 4


def test_a_resumed_run_goes_on_at_its_checkpoint_and_adds_its_times() -> None:
    log = SETUP + inner(9, wall=99) + "No existing checkpoint found x\n"  # --from threw it away
    log += inner(10) + inner(20, wall=40) + LOADED.format(n=15) + inner(25, 2000, 30, 250)
    log += inner(35, wall=45) + LOADED.format(n=35) + inner(36, wall=0.5)
    points = read_curves(log.split("\n"), "x.log")["train_inner"]
    # The point at 20 was lost with what followed the checkpoint; its time was spent all the same.
    assert [point["num_updates"] for point in points] == [10, 25, 35, 36]
    assert [point["interval"] for point in points] == [10, 10, 10, 1]
    assert [point["seconds"] for point in points] == [20, 40 + 30, 40 + 45, 85.5]
    run = read(log)
    assert (run.updates, run.seconds) == (36, 85.5)
    expected = (21 * 1000 + 10 * 2000) / (21 * 1000 / 500 + 10 * 2000 / 250)
    assert run.tokens_per_second == pytest.approx(expected)


def test_a_model_without_dataclass_has_a_name_only() -> None:
    line = "x | {'_name': None, 'common': {}, 'model': Namespace(seed=1, arch='transformer', d=1)}"
    assert read(line + "\n" + SETUP.split("\n", 1)[1] + epoch(8)).arch == "transformer"


@pytest.mark.parametrize("wps", ["0", "abc"])
def test_a_log_without_a_speed_is_refused(wps: str) -> None:
    with pytest.raises(ValueError, match="x.log: no size of a model or no speed"):
        read(SETUP + inner(10, wps=wps))
