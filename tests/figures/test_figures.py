"""Plots: written whole, in the format of their name, through links."""

import numpy as np
import pytest

from vaswani_plugin.figures.attention_report import draw_heads, draw_lines
from vaswani_plugin.figures.figures import new_figure, save_figure

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("ending", BEGINNINGS)
def test_a_link_keeps_its_target(tmp_path, ending):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / f"link.{ending}"
    link.symlink_to(target)
    figure = new_figure(1, 1)
    figure.subplots().plot([1, 2])
    for _ in range(2):
        save_figure(figure, link)
        assert link.is_symlink() and target.read_bytes().startswith(BEGINNINGS[ending])
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["target"]


def test_a_weight_above_1_by_rounding_is_drawn(tmp_path):
    """As a sum of merged weights may be."""
    weights = np.array([[[np.nextafter(np.float32(1), np.float32(2)), 0]]], dtype=np.float32)
    assert weights.max() > 1
    draw_lines(weights, [1], ["a"], ["b", "c"], "title", tmp_path / "lines.svg")
    assert (tmp_path / "lines.svg").read_bytes().startswith(BEGINNINGS["svg"])


@pytest.mark.parametrize("draw", [draw_heads, draw_lines])
def test_long_labels_leave_room_for_the_picture(tmp_path, monkeypatch, draw):
    """matplotlib warns, which is an error here, where labels leave none; all stand inside."""
    seen = []
    monkeypatch.setattr(f"{draw.__module__}.save_figure", lambda figure, path: seen.append(figure))
    weights = np.full((4, 1, 3), 1 / 3)
    draw(weights, [1, 2, 3, 4], ["q" * 300], ["k" * 300, "of", "w" * 30], "title", tmp_path / "p")
    (figure,) = seen
    figure.draw_without_rendering()
    width, height = figure.canvas.get_width_height()
    for panel in figure.axes:
        for text in panel.texts or [*panel.get_xticklabels(), *panel.get_yticklabels()]:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        assert panel.get_window_extent().width > 0.1 * width


def test_a_plot_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "plot.png"
    path.write_text("old")
    figure = new_figure(1, 1)
    figure.subplots().set_title("$\\nothing$")  # no command of matplotlib's mathematics
    with pytest.raises(ValueError, match="nothing"):
        save_figure(figure, path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["plot.png"]
