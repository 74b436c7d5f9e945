"""BLEU by sentence length and by how rare the words are, as Sutskever et al. (2014) draw it."""

from pathlib import Path
from typing import Any

from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.metrics.bleu_report import TITLES


def draw_buckets(result: dict[str, Any], path: Path) -> None:
    """Draw a panel for each table of `bleu_report.by_bucket`: BLEU over buckets, a line a system.

    Args:
        result: has the tables under their keys.
        path: of the picture.

    Raises:
        OSError: the plot can't be written.
    """
    tables = [name for name in TITLES if name in result]
    figure = new_figure(5.5 * len(tables), 4)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    for panel, name in zip(panels, tables, strict=True):
        rows = result[name]
        for system, marker in (("sacrebleu", "o"), ("baseline", "s")):
            if system in rows[0]:
                label = "baseline" if system == "baseline" else "system"
                panel.plot([row[system] for row in rows], marker=marker, label=label)
        ticks = [f"{row['bucket']}\n({row['sentences']})" for row in rows]
        panel.set_xticks(range(len(rows)), ticks, fontsize=8)
        panel.set_xlabel(f"{TITLES[name][1]} (sentences)")
        panel.set_ylabel("sacreBLEU")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        if "baseline" in rows[0]:
            panel.legend()
    save_figure(figure, path)
