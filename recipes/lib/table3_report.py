"""Prints Table 3 of the rows that are finished: table3.md, table3.csv, table3.png, result.json.

    table3_report.py --work W --data-key K --title "Multi30k en-de" ...

Beside each figure of ours stands the paper's, and of both the difference to base: of the perplexity
as a ratio, since those of two data sets lie far apart, of BLEU in points.
"""

import argparse
import csv
import io
import math
from pathlib import Path
from typing import Any

from result import versions, write_json
from scipy.stats import spearmanr
from table3_rows import (
    ROWS,
    Row,
    Settings,
    add_settings,
    printed_parameters,
    read_result,
    row_key,
    settings_of,
)
from tabulate import tabulate

from vaswani_plugin.analysis.figures import new_figure, save_figure
from vaswani_plugin.text.corpus_io import InputError, run, write_atomically

COLUMNS = {
    **{"row": "", "layers": "N", "d_model": "d_model", "d_ff": "d_ff", "heads": "h"},
    **{"d_k": "d_k", "d_v": "d_v", "dropout": "P_drop", "label_smoothing": "eps_ls"},
    **{"positions": "positions", "updates": "train steps"},
    **{"ppl": "PPL (dev)", "paper_ppl": "paper"},
    **{"bleu": "BLEU (dev)", "paper_bleu": "paper"},
    **{"parameters": "params x10^6", "paper_parameters": "paper"},
    **{"ppl_ratio": "PPL / base", "paper_ppl_ratio": "paper"},
    **{"bleu_change": "BLEU - base", "paper_bleu_change": "paper"},
}
SAME_AS_BASE_IS_BLANK = tuple(COLUMNS)[1:11]


def lines_of_table(work: Path, settings: Settings, data_key: str) -> list[dict[str, Any]]:
    """Makes a line for each finished row, by the keys of `COLUMNS`; None for a missing figure.

    Raises:
        InputError: a result is broken, or no row is finished.
    """
    lines = []
    for row in ROWS:
        result = read_result(row, work, row_key(row, settings, data_key))
        if result is not None:
            lines.append(_line(row, result))
    if not lines:
        raise InputError(f"{work / 'rows'}: no row is finished with these settings and data")
    base, paper = lines[0], ROWS[0]
    for line in lines:
        line["paper_ppl_ratio"] = line["paper_ppl"] / paper.ppl
        line["paper_bleu_change"] = line["paper_bleu"] - paper.bleu
        of_base = base["row"] == paper.name
        line["ppl_ratio"] = line["ppl"] / base["ppl"] if of_base else None
        line["bleu_change"] = line["bleu"] - base["bleu"] if of_base else None
    return lines


def _line(row: Row, result: dict[str, Any]) -> dict[str, Any]:
    sizes = result["sizes"]
    figures = {name: result[name] for name in ("updates", "ppl", "bleu", "seconds")}
    return {
        "row": row.name,
        "layers": sizes["encoder_layers"],
        **{name: sizes[name] for name in ("d_model", "d_ff", "heads", "d_k", "d_v", "dropout")},
        "positions": sizes["positions"],
        "label_smoothing": row.label_smoothing,
        **figures,
        "parameters": result["parameters"],
        "paper_ppl": row.ppl,
        "paper_bleu": row.bleu,
        "paper_parameters": printed_parameters(row) if row.label_smoothing == 0.1 else None,
    }


def as_markdown(lines: list[dict[str, Any]], heading: str) -> str:
    """Formats the table as in the paper: values equal to those of base are left blank."""
    rows = []
    for line in lines:
        shown = {name: _shown(name, line[name]) for name in COLUMNS}
        if line is not lines[0]:
            for name in SAME_AS_BASE_IS_BLANK:
                if line[name] == lines[0][name]:
                    shown[name] = ""
        rows.append([shown[name] for name in COLUMNS])
    aligned = ("left", *["right"] * (len(COLUMNS) - 1))
    table = tabulate(
        rows, list(COLUMNS.values()), "github", disable_numparse=True, colalign=aligned
    )
    return f"{heading}\n\n{table}\n"


def _shown(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "parameters":
        return f"{value / 1e6:.2f}" if value < 1e7 else f"{value / 1e6:.0f}"
    if name in ("updates",):
        return f"{value:,}"
    formats = {"ppl": ".2f", "paper_ppl": ".2f", "ppl_ratio": ".3f", "paper_ppl_ratio": ".3f"}
    formats |= {"bleu": ".1f", "paper_bleu": ".1f"}
    formats |= {"bleu_change": "+.1f", "paper_bleu_change": "+.1f"}
    return format(value, formats.get(name, ""))


def correlations(lines: list[dict[str, Any]]) -> dict[str, float | None]:
    """Computes Spearman's rank correlation of our changes with the paper's, over all rows but base.

    None if there are fewer than three rows, or if all changes are equal.
    """
    found = {}
    for name in ("ppl_ratio", "bleu_change"):
        pairs = [(line["paper_" + name], line[name]) for line in lines[1:]]
        known = lines[0][name] is not None and len(pairs) >= 3
        value = float(spearmanr(*zip(*pairs, strict=True)).statistic) if known else math.nan
        found[name] = value if math.isfinite(value) else None
    return found


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Draws our change from base over the paper's, in perplexity and in BLEU; a point is a row.

    Raises:
        OSError: the picture can't be written.
    """
    figure = new_figure(11, 5)
    groups = sorted({line["row"][0] for line in lines[1:]})
    for panel, name, title in zip(
        figure.subplots(1, 2),
        ("ppl_ratio", "bleu_change"),
        ("perplexity / base's (left, below: better)", "BLEU - base's (right, above: better)"),
        strict=True,
    ):
        neutral = lines[0][name]
        panel.axhline(neutral, color="0.8", zorder=0)
        panel.axvline(neutral, color="0.8", zorder=0)
        for line in lines[1:]:
            place = (line["paper_" + name], line[name])
            panel.plot(*place, "o", color=f"C{groups.index(line['row'][0])}")
            panel.annotate(
                line["row"], place, xytext=(4, 3), textcoords="offset points", fontsize=7
            )
        panel.set(title=title, xlabel="paper", ylabel="ours")
    save_figure(figure, path)


def summary(lines: list[dict[str, Any]], found: dict[str, float | None]) -> str:
    """Formats the last line for people."""
    first = lines[0]
    text = f"{len(lines)} of {len(ROWS)} rows, {first['row']} PPL {first['ppl']:.2f}, "
    text += f"BLEU {first['bleu']:.1f}"
    if None not in found.values():
        ppl, bleu = found.values()
        text += "; rank correlation of the changes with the paper's: "
        text += f"PPL {ppl:.2f}, BLEU {bleu:.2f}"
    return text


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_settings(parser)
    parser.add_argument("--title", required=True, help="what was trained on")
    args = parser.parse_args()
    settings = settings_of(args)
    lines = lines_of_table(args.work, settings, args.data_key)
    found = correlations(lines)
    heading = (
        f"Table 3 on {args.title}: widths divided by {settings.width_divisor}, N by "
        f"{settings.depth_divisor}; batches of {settings.max_tokens:,} x {settings.update_freq} "
        f"tokens a device, seed {settings.seed}. {summary(lines, found)}."
    )
    with write_atomically(args.work / "table3.md") as write:
        write(as_markdown(lines, heading).removesuffix("\n"))
    text = io.StringIO()
    fields = [*COLUMNS, "seconds"]
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: line[name] for name in fields} for line in lines)
    with write_atomically(args.work / "table3.csv") as write:
        write(text.getvalue().removesuffix("\n"))
    if len(lines) > 1 and lines[0]["row"] == ROWS[0].name:
        draw(lines, args.work / "table3.png")
    content = {"recipe": "table3", "title": args.title, "settings": vars(settings)}
    content |= {"rows": lines, "rank_correlation": found, "versions": versions()}
    content["summary"] = f"table3, {args.title}: {summary(lines, found)}"
    write_json(content, str(args.work / "result.json"))


if __name__ == "__main__":
    run(main)
