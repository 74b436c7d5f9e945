"""Makes Table 3 from the finished rows: table3.md, table3.csv, table3.png, result.json.

    table3_report.py --work W --data-key K --title "Multi30k en-de" --seeds 1,2 ...

Each of our figures is printed with the paper's, both also relative to base: perplexity as a ratio,
because it differs much between data sets, and BLEU as a difference in points. A row with several
seeds has the mean of its BLEU and the geometric mean of its perplexities. The standard error of a
change from base is s sqrt(1/n + 1/n_base), where s is the deviation of one training from its row's
mean, pooled over all rows, because two seeds of one row say too little of its own deviation.
"""

import argparse
import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from result import provenance
from scipy.stats import spearmanr
from table3_rows import (
    ROWS,
    Row,
    Settings,
    Training,
    add_seeds,
    add_settings,
    printed_parameters,
    settings_of,
    trainings_of,
)
from tabulate import tabulate

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.text.outputs import write_atomically, write_json

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


CHANGES = ("ppl_ratio", "bleu_change")
NEUTRAL = {"ppl_ratio": 1.0, "bleu_change": 0.0}
"""A row's change where it does as well as base."""


def lines_of_table(
    trainings: list[Training], work: Path, settings: Settings, data_key: str
) -> list[dict[str, Any]]:
    """Makes a line for each row with a finished training; None for a missing figure.

    The keys are those of `COLUMNS`, `seeds`, `seconds` of all its trainings, and for each change
    its standard error, `ppl_ratio_se` and `bleu_change_se`, where there are enough seeds.

    Raises:
        UserError: a result is broken, or no training is finished.
    """
    results: dict[Row, list[dict[str, Any]]] = {}
    for training in sorted(trainings, key=lambda training: ROWS.index(training.row)):
        result = training.result(work, settings, data_key)
        if result is not None:
            results.setdefault(training.row, []).append(result)
    if not results:
        raise UserError(f"{work / 'rows'}: no row is finished with these settings and data")
    deviations = {
        "ppl_ratio": pooled([math.log(r["ppl"]) for r in found] for found in results.values()),
        "bleu_change": pooled([r["bleu"] for r in found] for found in results.values()),
    }
    lines = [_line(row, found) for row, found in results.items()]
    base = lines[0] if lines[0]["row"] == ROWS[0].name else None
    for line in lines:
        line["paper_ppl_ratio"] = line["paper_ppl"] / ROWS[0].ppl
        line["paper_bleu_change"] = line["paper_bleu"] - ROWS[0].bleu
        line["ppl_ratio"] = line["ppl"] / base["ppl"] if base else None
        line["bleu_change"] = line["bleu"] - base["bleu"] if base else None
        for name in CHANGES:
            line[name + "_se"] = None
            if base and line is not base and deviations[name] is not None:
                error = deviations[name] * math.sqrt(1 / line["seeds"] + 1 / base["seeds"])
                scale = line["ppl_ratio"] if name == "ppl_ratio" else 1  # d exp(x) = exp(x) dx
                line[name + "_se"] = scale * error
    return lines


def pooled(groups: Iterable[list[float]]) -> float | None:
    """Standard deviation of a value from the mean of its group; None without two in a group."""
    squares, freedom = 0.0, 0
    for group in groups:
        squares += sum((value - fmean(group)) ** 2 for value in group)
        freedom += len(group) - 1
    return math.sqrt(squares / freedom) if freedom else None


def _line(row: Row, results: list[dict[str, Any]]) -> dict[str, Any]:
    sizes = results[0]["sizes"]
    return {
        "row": row.name,
        "layers": sizes["encoder_layers"],
        **{name: sizes[name] for name in ("d_model", "d_ff", "heads", "d_k", "d_v", "dropout")},
        "positions": sizes["positions"],
        "label_smoothing": row.label_smoothing,
        "updates": results[0]["updates"],
        "ppl": geometric_mean(result["ppl"] for result in results),
        "bleu": fmean(result["bleu"] for result in results),
        "seconds": sum(result["seconds"] for result in results),
        "seeds": len(results),
        "parameters": results[0]["parameters"],
        "paper_ppl": row.ppl,
        "paper_bleu": row.bleu,
        "paper_parameters": printed_parameters(row) if row.label_smoothing == 0.1 else None,
    }


def as_markdown(lines: list[dict[str, Any]], heading: str) -> str:
    """Formats the table as in the paper: values equal to those of base are left blank."""
    rows = []
    for line in lines:
        shown = {name: _shown(name, line[name]) for name in COLUMNS}
        for name in CHANGES:
            if line[name + "_se"] is not None:
                shown[name] += f" \u00b1 {_shown(name, line[name + '_se']).lstrip('+')}"
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


def clear(lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Returns the rows whose change from base is larger than two standard errors."""
    return [
        line
        for line in lines[1:]
        if line[name + "_se"] is not None
        and abs(line[name] - NEUTRAL[name]) > 2 * line[name + "_se"]
    ]


def correlations(lines: list[dict[str, Any]]) -> dict[str, float | None]:
    """Computes Spearman's rank correlation of our changes with the paper's.

    Over all rows but base, by the names of the changes, and over the rows of `clear`, by the same
    names with `_clear`. None if there are fewer than three rows, or if all changes are equal.
    """
    found = {}
    for name in CHANGES:
        for key, chosen in ((name, lines[1:]), (name + "_clear", clear(lines, name))):
            pairs = [(line["paper_" + name], line[name]) for line in chosen]
            known = lines[0][name] is not None and len(pairs) >= 3
            value = float(spearmanr(*zip(*pairs, strict=True)).statistic) if known else math.nan
            found[key] = value if math.isfinite(value) else None
    return found


def agreement(lines: list[dict[str, Any]]) -> str:
    """Says which changes are clear, and on which side of base the paper has them; "" for none.

    A change of the paper's that is exactly base's is on neither side.
    """
    sentences = []
    for name, title in zip(CHANGES, ("perplexity", "BLEU"), strict=True):
        sides: dict[str, list[str]] = {"as in the paper": [], "on the other side": []}
        for line in clear(lines, name):
            product = (line[name] - NEUTRAL[name]) * (line["paper_" + name] - NEUTRAL[name])
            sides["as in the paper" if product > 0 else "on the other side"].append(line["row"])
        parts = [f"{kind}: {' '.join(rows)}" for kind, rows in sides.items() if rows]
        if parts:
            sentences.append(f"{title} differs from base's by over two standard errors, ")
            sentences[-1] += "; ".join(parts) + "."
    return "\n".join(sentences)


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
            colour = f"C{groups.index(line['row'][0])}"
            panel.errorbar(*place, yerr=line[name + "_se"], fmt="o", color=colour, capsize=2)
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
    if None not in (found[name] for name in CHANGES):
        text += "; rank correlation of the changes with the paper's: "
        text += f"PPL {found['ppl_ratio']:.2f}, BLEU {found['bleu_change']:.2f}"
    for name, title in zip(CHANGES, ("PPL", "BLEU"), strict=True):
        if found[name + "_clear"] is not None:
            count = len(clear(lines, name))
            text += f"; of the {count} clear changes of {title} {found[name + '_clear']:.2f}"
    return text


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_settings(parser)
    add_seeds(parser)
    parser.add_argument("--title", required=True, help="name of the data")
    args = parser.parse_args()
    settings = settings_of(args)
    trainings = trainings_of(list(ROWS), args.seeds, args.base_seeds)
    lines = lines_of_table(trainings, args.work, settings, args.data_key)
    found = correlations(lines)
    heading = (
        f"Table 3 on {args.title}: widths divided by {settings.width_divisor}, N by "
        f"{settings.depth_divisor}; batches of {settings.max_tokens:,} x {settings.update_freq} "
        f"tokens a device, seeds {args.seeds}, of base {args.base_seeds}. {summary(lines, found)}."
    )
    with write_atomically(args.work / "table3.md") as write:
        write("\n".join((as_markdown(lines, heading), agreement(lines))).rstrip("\n"))
    text = io.StringIO()
    fields = [*COLUMNS, "seconds", "seeds", *(name + "_se" for name in CHANGES)]
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: line[name] for name in fields} for line in lines)
    with write_atomically(args.work / "table3.csv") as write:
        write(text.getvalue().removesuffix("\n"))
    if len(lines) > 1 and lines[0]["row"] == ROWS[0].name:
        draw(lines, args.work / "table3.png")
    content = {"recipe": "table3", "title": args.title, "settings": vars(settings)}
    content |= {"seeds": args.seeds, "base_seeds": args.base_seeds}
    content |= {"rows": lines, "rank_correlation": found, **provenance()}
    content["summary"] = f"table3, {args.title}: {summary(lines, found)}"
    write_json(args.work / "result.json", content)


if __name__ == "__main__":
    run(main)
