"""Pictures of attention."""

import numpy as np
import pytest

from vaswani_plugin.figures.attention_report import draw_heads, draw_lines


def test_a_weight_above_1_by_rounding_is_drawn(tmp_path):
    """As a sum of merged weights may be."""
    weights = np.array([[[np.nextafter(np.float32(1), np.float32(2)), 0]]], dtype=np.float32)
    assert weights.max() > 1
    draw_lines(weights, [1], ["a"], ["b", "c"], "title", tmp_path / "lines.svg")
    assert (tmp_path / "lines.svg").read_bytes().startswith(b"<?xml")


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
