"""`vaswani complexity`: its frozen keys, real layers against their plain twins, the fit, errors."""

import json
from pathlib import Path

import pytest
import torch

from vaswani_plugin.cli import _layer_timing as timing
from vaswani_plugin.cli import complexity
from vaswani_plugin.cli.__main__ import command_parser, main
from vaswani_plugin.modules.attention import scaled_dot_product_attention
from vaswani_plugin.modules.masks import neighbourhood_mask

SMALL = ["--measure", "--lengths", "32", "16", "--widths", "8", "16", "--r", "4", "--k", "3"]


def test_flags_are_frozen() -> None:
    flags = {f for action in command_parser("complexity")._actions for f in action.option_strings}
    assert flags == {
        *("-h", "--help", "--n", "--d", "--k", "--r", "--measure", "--lengths", "--widths"),
        *("--plot", "--format"),
    }


def test_json_has_the_frozen_keys(capsys: pytest.CaptureFixture) -> None:
    sizes = ["--n", "100", "--d", "512", "--k", "3", "--r", "10"]
    assert main(["complexity", *sizes, "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["n", "d", "k", "r", "layers"]
    assert [list(layer) for layer in result["layers"]] == 4 * [
        ["layer", "operations_formula", "operations", "sequential_formula"]
        + ["sequential_operations", "path_formula", "path_length"]
    ]
    operations = {layer["layer"]: layer["operations"] for layer in result["layers"]}
    assert operations["self-attention"] == 100 * 100 * 512
    assert operations["recurrent"] == 100 * 512 * 512


def test_text_shows_formulas_with_numbers(capsys: pytest.CaptureFixture) -> None:
    assert main(["complexity", "--n", "100", "--d", "200", "--k", "3", "--r", "10"]) == 0
    shown = capsys.readouterr().out
    for part in ("n^2 d = 2,000,000", "n d^2 = 4,000,000", "k n d^2 = 12,000,000", "n = 100"):
        assert part in shown
    for part in ("r n d = 200,000", "log_k n = 4.19", "n/r = 10", "costs 0.5 times", "5 layers"):
        assert part in shown


def test_measured_keys_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    plot = tmp_path / "layers.png"
    assert main(["complexity", *SMALL, "--plot", str(plot), "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]
    assert list(measured) == ["n", "d", "lengths", "widths", "layers"]
    assert (measured["lengths"], measured["widths"]) == ([16, 32], [8, 16])
    assert (measured["n"], measured["d"]) == (32, 16)
    assert len(measured["layers"]) == 6
    for layer in measured["layers"]:
        assert all(value > 0 for value in layer["seconds_over_n"] + layer["seconds_over_d"])
        assert len(layer["seconds_over_n"]) == len(layer["seconds_over_d"]) == 2
    assert plot.read_bytes().startswith(b"\x89PNG") and list(tmp_path.iterdir()) == [plot]


def test_fitted_powers_come_from_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    # Times after the formulas themselves must give the formulas' powers back.
    def pretend(sizes: list[tuple[int, int]], k: int, r: int) -> list[list[float]]:
        return [[1e-9 * n ** (layer.power_of_n or 1) * d ** (layer.power_of_d or 3)
                 for layer in timing.LAYERS] for n, d in sizes]  # fmt: skip

    monkeypatch.setattr(timing, "measure", pretend)
    for layer in complexity.measured([64, 128, 256], [32, 64], 3, 4)["layers"]:
        assert layer["fitted_power_of_n"] == pytest.approx(layer["power_of_n"] or 1)
        assert layer["fitted_power_of_d"] == pytest.approx(layer["power_of_d"] or 3)


@pytest.mark.parametrize(("length", "window"), [(9, 1), (9, 2), (9, 3), (12, 4), (5, 5), (7, 9)])
def test_window_gives_what_the_mask_gives(length: int, window: int) -> None:
    x = torch.randn(2, length, 6, dtype=torch.float64)
    expected, _ = scaled_dot_product_attention(x, x, x, neighbourhood_mask(length, window))
    torch.testing.assert_close(timing.windowed_attention(x, window), expected)


@pytest.mark.parametrize("layer", timing.LAYERS, ids=lambda layer: layer.name)
def test_each_layer_keeps_length_and_width(layer: timing.TimedLayer) -> None:
    out = layer.make(11, 8, 3, 4)(torch.randn(1, 11, 8))
    if layer.name == "convolutional":
        out = out.transpose(1, 2)
    assert out.shape == (1, 11, 8)


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert len(list(timing.measure([(8, 8)], 3, 2))[0]) == len(timing.LAYERS)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--r", "99", "--n", "50"], "--r 99 is no restriction of --n 50"),
        (["--k", "1"], "--k is 1; it must be at least 2"),
        (["--plot", "x.png"], "--plot draws measured times: give --measure too"),
        (["--measure", "--lengths", "64"], "--lengths: give at least two different sizes"),
        (["--measure", "--widths", "8", "8"], "--widths: give at least two different sizes"),
        (["--measure", "--lengths", "0", "9", "--r", "1"], "--n is 0"),
        (["--measure", "--lengths", "8", "99"], "--r 16 is no restriction of --n 8"),
        (["--measure", "--plot", "x.docx"], "x.docx: a plot ends in .png or .svg"),
        (["--measure", "--plot", "nowhere/x.png"], "nowhere: No such folder"),
    ],
)
def test_bad_input_is_one_line(
    flags: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["complexity", *flags]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("vaswani complexity: error: ") and message in captured.err


@pytest.mark.slow
def test_real_layers_follow_the_table() -> None:
    times = complexity.measured([256, 512, 1024, 2048], [128, 256, 512, 1024], 3, 16)
    for layer in times["layers"]:
        # A matrix product's rate depends on its size: half a power either way is what is seen.
        for axis in "nd":
            if (power := layer[f"power_of_{axis}"]) is not None:
                fitted = layer[f"fitted_power_of_{axis}"]
                assert fitted == pytest.approx(power, abs=0.5), (layer["layer"], axis)
