"""Reading the log of fairseq-train: both formats, epochs, resumed runs, and files that are none."""

import pytest

from vaswani_plugin.text.training_log import (
    read_curves,
    read_training,
    statistics,
)

SETUP = """2026 | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 1}, \
'model': {'_name': 'vaswani_tiny', 'd_model': 128, 'd_k': None, 'positions': sinusoidal}, \
'task': {'_name': 'vaswani_translation', 'source_lang': None}}
2026 | INFO | fairseq.tasks.translation | [en] dictionary: 9000 types
2026 | INFO | fairseq.tasks.translation | [de] dictionary: 9712 types
2026 | INFO | fairseq_cli.train | num. shared model params: 2,568,192 (num. trained: 2,568,192)
2026 | INFO | fairseq.utils | rank   0: capabilities =  9.0  ; total memory = 139.8 GB ; \
name = NVIDIA H200                             \n\
2026 | INFO | fairseq_cli.train | training on 4 devices (GPUs/TPUs)
"""
INNER = (
    "2026 | INFO | train_inner | epoch 001:     {n} / 124 loss=3.7, wps=6282.8, ups=1.83, "
    "wpb={wpb}, bsz={bsz}, num_updates={n}, lr=0.003, wall={wall}\n"
)
EPOCH = (
    "2026 | INFO | train | epoch 001 | loss 3.6 | wps 6599 | wpb {wpb} | bsz {bsz} | "
    "num_updates {n} | wall {wall}\n"
)
LOADED = "2026 | INFO | fairseq.trainer | Loaded checkpoint a.pt (epoch 1 @ {n} updates)\n"


def read(log: str):
    return read_training(log.split("\n"), "x.log")


def test_setup_and_means() -> None:
    log = SETUP + INNER.format(n=10, wpb=1000, bsz=50, wall=20)
    log += INNER.format(n=40, wpb=3000, bsz=90, wall=61.5)
    run = read(log + EPOCH.format(n=50, wpb=9999, bsz=9, wall=70))
    assert (run.arch, run.pair, run.target_vocabulary) == ("vaswani_tiny", "en-de", 9712)
    assert run.model["d_model"] == "128" and run.model["d_k"] == "None"
    assert (run.parameters, run.devices, run.device_name) == (2_568_192, 4, "NVIDIA H200")
    assert (run.updates, run.seconds) == (50, 70)
    assert run.tokens_per_second == pytest.approx(6282.8)
    # Ten updates of 1,000 tokens and thirty of 3,000.
    assert run.tokens == pytest.approx((10 * 1000 + 30 * 3000) / 40)
    assert run.sentences == pytest.approx((10 * 50 + 30 * 90) / 40)


def test_a_short_run_has_epochs_alone() -> None:
    run = read(SETUP + EPOCH.format(n=8, wpb=500, bsz=20, wall=3))
    assert (run.updates, run.tokens, run.sentences, run.seconds) == (8, 500, 20, 3)


def test_json_says_the_same() -> None:
    inner = SETUP + INNER.format(n=10, wpb=1000, bsz=50, wall=20)
    line = (
        '2026 | INFO | train_inner | {"epoch": 1, "wps": "6282.8", "wpb": "1000", "bsz": "50", '
        '"num_updates": "10", "wall": "20"}\n'
    )
    assert read(SETUP + line) == read(inner)
    epoch = '| train | {"epoch": 1, "train_wpb": "500", "train_num_updates": "8"}'
    kind, fields = statistics(epoch)
    assert kind == "train" and (fields["wpb"], fields["num_updates"]) == ("500", "8")
    assert statistics("2026 | INFO | valid | epoch 001 | loss 3") is None


def test_a_resumed_run_adds_its_starts() -> None:
    first = SETUP + INNER.format(n=10, wpb=1000, bsz=50, wall=20)
    first += INNER.format(n=20, wpb=1000, bsz=50, wall=40)
    # Cut off after 20 updates, taken up again at 15.
    again = SETUP + LOADED.format(n=15) + INNER.format(n=25, wpb=2000, bsz=50, wall=30)
    run = read(first + again)
    assert (run.updates, run.seconds) == (25, 40 + 30)
    assert run.tokens == pytest.approx((20 * 1000 + 10 * 2000) / 30)


def test_curves_go_on_where_the_resumed_run_does() -> None:
    log = SETUP + INNER.format(n=10, wpb=1000, bsz=50, wall=20)
    log += INNER.format(n=20, wpb=1000, bsz=50, wall=40)
    again = LOADED.format(n=15) + INNER.format(n=25, wpb=2000, bsz=50, wall=30)
    again += INNER.format(n=35, wpb=2000, bsz=50, wall=45)
    again += LOADED.format(n=35) + INNER.format(n=36, wpb=2000, bsz=50, wall=0.5)
    points = read_curves((log + again).split("\n"), "x.log")["train_inner"]
    # The point at 20 was lost with what followed the checkpoint; its time was spent all the same.
    assert [point["num_updates"] for point in points] == [10, 25, 35, 36]
    assert [point["seconds"] for point in points] == [20, 40 + 30, 40 + 45, 85.5]


def test_a_model_without_dataclass_has_a_name_only() -> None:
    line = "x | {'_name': None, 'common': {}, 'model': Namespace(seed=1, arch='transformer', d=1)}"
    run = read(line + "\n" + SETUP.split("\n", 1)[1] + EPOCH.format(n=8, wpb=5, bsz=2, wall=3))
    assert (run.arch, run.model) == ("transformer", {})


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="x.log: no model size in it"):
        read("just a text\n")
    with pytest.raises(ValueError, match="x.log: no training statistics in it: .* json or simple"):
        read_curves(["just a text"], "x.log")
    with pytest.raises(ValueError, match="x.log: no training statistics"):
        read(SETUP)
    with pytest.raises(ValueError, match=r"x.log: 10{19} updates: is the log damaged"):
        read(SETUP + INNER.format(n=10**400, wpb=1000, bsz=50, wall=20))
    damaged = dict(n=10, wpb=1000, bsz=50, wall=20)
    for change in ({"wpb": "nan"}, {"wpb": 0}, {"bsz": 0}, {"bsz": "nan"}, {"wall": "inf"}):
        with pytest.raises(ValueError, match="x.log: .* no numbers above 0: is the log damaged"):
            read(SETUP + INNER.format(**damaged | change))
    for change in ({"wpb": "abc"}, {"bsz": "abc"}):
        with pytest.raises(ValueError, match="x.log: no training statistics in it"):
            read(SETUP + INNER.format(**damaged | change))
    for count in ("nan", "inf", "-inf", 10**400, -3):
        log = SETUP + INNER.format(**damaged | {"n": count})
        with pytest.raises(ValueError, match="x.log: .* updates: is the log damaged"):
            read_curves(log.split("\n"), "x.log")
