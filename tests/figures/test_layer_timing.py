"""The layers of Table 1, timed: the fit, the threads."""

import pytest
import torch

from vaswani_plugin.figures import layer_timing as timing


def test_fitted_powers_come_from_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times after the formulas themselves give the formulas' powers back."""

    def pretend(sizes: list[tuple[int, int]], k: int, r: int) -> list[list[float]]:
        return [[n**layer.power_of_n * d**layer.power_of_d for layer in timing.LAYERS]
                for n, d in sizes]  # fmt: skip

    monkeypatch.setattr(timing, "measure", pretend)
    for layer in timing.time_layers([64, 128, 256], [32, 64], 3, 4)["layers"]:
        for axis in "nd":
            assert layer[f"fitted_power_of_{axis}"] == pytest.approx(layer[f"power_of_{axis}"])


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert len(list(timing.measure([(8, 8)], 3, 2))[0]) == len(timing.LAYERS)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_real_layers_follow_the_table() -> None:
    times = timing.time_layers([256, 512, 1024, 2048], [128, 256, 512, 1024], 3, 16)
    for layer in times["layers"]:
        # A matrix product's rate depends on its size: half a power either way is what is seen.
        for axis in "nd":
            power, fitted = layer[f"power_of_{axis}"], layer[f"fitted_power_of_{axis}"]
            assert fitted == pytest.approx(power, abs=0.5), (layer["layer"], axis)
