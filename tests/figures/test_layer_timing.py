"""The layers of Table 1, timed: restricted attention against its mask, the fit, the threads."""

import pytest
import torch

from vaswani_plugin.figures import layer_timing as timing


def test_fitted_powers_come_from_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    # Times after the formulas themselves must give the formulas' powers back.
    def pretend(sizes: list[tuple[int, int]], k: int, r: int) -> list[list[float]]:
        return [[1e-9 * n ** (layer.power_of_n or 1) * d ** (layer.power_of_d or 3)
                 for layer in timing.LAYERS] for n, d in sizes]  # fmt: skip

    monkeypatch.setattr(timing, "measure", pretend)
    for layer in timing.time_layers([64, 128, 256], [32, 64], 3, 4)["layers"]:
        assert layer["fitted_power_of_n"] == pytest.approx(layer["power_of_n"] or 1)
        assert layer["fitted_power_of_d"] == pytest.approx(layer["power_of_d"] or 3)


def test_blocks_give_what_the_mask_gives() -> None:
    layers = {layer.name: layer.make(9, 6, 3, 4) for layer in timing.LAYERS}
    x = torch.randn(2, 9, 6)
    masked = layers["restricted, by mask"](x)
    torch.testing.assert_close(layers["restricted, in blocks"](x), masked)


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
            if (power := layer[f"power_of_{axis}"]) is not None:
                fitted = layer[f"fitted_power_of_{axis}"]
                assert fitted == pytest.approx(power, abs=0.5), (layer["layer"], axis)
