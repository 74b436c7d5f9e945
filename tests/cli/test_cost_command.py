"""`vaswani cost`: its frozen flags and keys, the paper's figures, errors."""

import json

import pytest

from tests.support.commands import vaswani

# Source and target of 20 tokens: projections, Eq. 1 and feed-forward network of both stacks, then
# the projection to 100 types; 50 sentences, 2 FLOPs, 3 passes, 10 updates.
ENCODER = 2 * 20 * (4 * 32 * 32 + 2 * 20 * 32 + 2 * 32 * 64)
DECODER = 2 * 20 * (8 * 32 * 32 + 4 * 20 * 32 + 2 * 32 * 64) + 20 * 32 * 100
COUNTED = (ENCODER + DECODER) * 50 * 2 * 3 * 10


def as_json(*arguments: object) -> dict:
    return json.loads(vaswani("cost", *arguments, "--format", "json").out)


def test_the_papers_figures() -> None:
    shown = vaswani("cost").out
    assert "12 h x 8 P100 x 9.5 TFLOP/s = 3.28e+18 (printed: 3.3e18)" in shown
    assert "84 h x 8 P100 x 9.5 TFLOP/s = 2.30e+19 (printed: 2.3e19)" in shown
    rows = [line.split("  ") for line in shown.splitlines()]
    (gnmt,) = [[cell.strip() for cell in r if cell] for r in rows if r[0] == "GNMT + RL"]
    assert gnmt[1:] == ["24.6", "39.92", "2.3e19", "1.4e20"]


def test_by_time() -> None:
    flags = ["--hours", "84", "--devices", "8", "--device", "P100"]
    found = as_json(*flags)["by_time"]
    assert found["flops"] == pytest.approx(2.298e19, rel=1e-3) and found["kind"] == "sustained"
    found = as_json("--hours", 0.5, "--teraflops", 2)["by_time"]
    assert found["flops"] == pytest.approx(1800 * 2e12) and found["devices"] == 1
    assert "= at most 3.56e+18 FLOPs" in vaswani("cost", "--hours", 1, "--device", "H100").out


def test_by_counting() -> None:
    flags = ["--arch", "vaswani_debug", "--vocab", "100", "--sentences", "50", "--updates", "10"]
    flags += ["--source-length", "20", "--target-length", "20"]
    found = as_json(*flags)["by_counting"]
    assert found["flops"] == COUNTED and found["flops_per_update"] * 10 == COUNTED
    assert found["forward_flops"] * 3 * 10 == COUNTED
    updates = [
        as_json("--arch", arch)["by_counting"]["updates"]
        for arch in ("vaswani_base", "vaswani_big", "vaswani_big_en_fr")
    ]
    assert updates == [100_000, 300_000, 300_000]


def test_bad_input_is_one_line() -> None:
    for flags, message in (
        (["--hours", "1"], "--hours needs a rate: give --device or --teraflops"),
        (["--device", "P100"], "need --hours"),
        (["--updates", "5"], "--updates need --arch"),
        (["--vocab", "7", "--hours", "1", "--device", "P100"], "--vocab, --sentences, "),
        (["--arch", "transformer"], "transformer: can't be counted; these can: vaswani_base"),
        (["--arch", "vaswani_base", "--updates", "0"], "--updates is 0"),
    ):
        assert message in vaswani("cost", *flags).error
