"""The table of peers.sh: medians and spreads, and where a peer is ahead of ours."""

import math
import statistics
from typing import Any

LARGEST_RATIO = 1.5
"""Of the mean lengths of two toolkits' outputs whose speeds of decoding can be compared."""

Reports = dict[str, dict[str, list[dict[str, Any]]]]
Figure = dict[str, float]


def figure(values: list[float]) -> Figure:
    """Median, lowest and highest."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def training_figures(reports: list[dict[str, Any]], warm_up: int) -> dict[str, Figure]:
    """Target tokens a second (by the clock, by processor time) and peak memory in MiB."""
    speeds, by_cpu = [], []
    for report in reports:
        rows = report["updates"][warm_up:]
        tokens = sum(row["target"] for row in rows)
        speeds.append(tokens / sum(row["seconds"] for row in rows))
        by_cpu.append(tokens / sum(row["cpu_seconds"] for row in rows))
    peak = [report["peak_bytes"] / 2**20 for report in reports]
    names = ("tokens_per_second", "tokens_per_cpu_second", "peak_mib")
    return {n: figure(v) for n, v in zip(names, (speeds, by_cpu, peak), strict=True)}


def decoding_figures(reports: list[dict[str, Any]]) -> dict[str, Figure]:
    """Sentences a second (by the clock, by processor time), subwords a sentence, memory in MiB."""
    count = [report["sentences"] for report in reports]
    seconds = [report["seconds"] for report in reports]
    cpu = [report["cpu_seconds"] for report in reports]
    return {
        "sentences_per_second": figure([n / s for n, s in zip(count, seconds, strict=True)]),
        "sentences_per_cpu_second": figure([n / s for n, s in zip(count, cpu, strict=True)]),
        "tokens_per_sentence": figure([r["tokens"] / r["sentences"] for r in reports]),
        "peak_mib": figure([r["peak_bytes"] / 2**20 for r in reports]),
    }


def rows_of(
    reports: Reports, bleu: dict[str, float], sizes: dict[str, tuple[int, int, int]]
) -> dict[str, dict[str, dict[str, Figure]]]:
    """Figures by peer and measurement; what was not measured is absent.

    Args:
        reports: by measurement and peer: `training SIZE`, `model`, `batch`, `one`, `start`.
        bleu: by peer.
        sizes: of Plan: the second number is that of updates that don't count.
    """
    rows: dict[str, dict[str, dict[str, Figure]]] = {}

    def put(peer: str, measurement: str, figures: dict[str, Figure]) -> None:
        rows.setdefault(peer, {})[measurement] = figures

    for measurement, by_peer in reports.items():
        for peer, found in by_peer.items():
            if not found:
                continue
            if measurement.startswith("training "):
                warm_up = sizes[measurement.removeprefix("training ")][1]
                put(peer, measurement, training_figures(found, warm_up))
            elif measurement == "model":
                perplexity = [math.exp(r["nll"] / r["valid_tokens"]) for r in found]
                seen = [float(sum(row["target"] for row in r["updates"])) for r in found]
                put(peer, "model", {"perplexity": figure(perplexity), "target": figure(seen)})
            elif measurement == "start":
                put(peer, "start", {"seconds": figure([report["wall"] for report in found])})
            else:
                put(peer, measurement, decoding_figures(found))
    for peer, score in bleu.items():
        put(peer, "bleu", {"bleu": figure([score])})
    return rows


def shown(found: Figure | None) -> str:
    """A figure of the table: the median and, where runs differ, lowest and highest."""
    if found is None:
        return "-"
    median = found["median"]
    digits = 0 if median >= 100 else 1 if median >= 10 else 2

    def text(value: float) -> str:
        return f"{value:,.{digits}f}"

    ends = [text(found[name]) for name in ("lowest", "highest")]
    same = ends[0] == ends[1] == text(median)
    return text(median) if same else f"{text(median)} ({ends[0]} to {ends[1]})"


def columns(sizes: list[str]) -> list[tuple[str, str, str]]:
    """Heading, measurement and figure of each column."""
    found = []
    for size in sizes:
        found.append((f"training {size}, target tokens/s", f"training {size}", "tokens_per_second"))
        cpu = "tokens_per_cpu_second"
        found.append((f"training {size}, target tokens a CPU second", f"training {size}", cpu))
        found.append((f"training {size}, peak MiB", f"training {size}", "peak_mib"))
    found.append(("validation perplexity", "model", "perplexity"))
    found.append(("BLEU", "bleu", "bleu"))
    for mode, heading in (("batch", "in batch"), ("one", "one at a time")):
        found.append((f"sentences/s {heading}", mode, "sentences_per_second"))
        found.append((f"sentences a CPU second {heading}", mode, "sentences_per_cpu_second"))
    found.append(("subwords an output", "batch", "tokens_per_sentence"))
    found.append(("decoding, peak MiB", "batch", "peak_mib"))
    found.append(("start to first sentence, s", "start", "seconds"))
    return found


def ahead_of_ours(result: dict[str, Any]) -> list[str]:
    """A line for each peer that is better than ours somewhere: by how much, at what."""
    rows, lines = result["rows"], []
    for peer in rows:
        better = []
        for heading, measurement, name in columns(list(result["plan"]["sizes"])):
            ours = rows.get("ours", {}).get(measurement, {}).get(name)
            theirs = rows[peer].get(measurement, {}).get(name)
            if peer == "ours" or ours is None or theirs is None or name == "tokens_per_sentence":
                continue
            more = "_per_" in name or name == "bleu"
            a, b = theirs["median"], ours["median"]
            if (a > b) if more else (a < b):
                better.append(f"{heading} {shown(theirs)} against {shown(ours)}")
        if better:
            lines.append(f"- {result['titles'][peer]}: {'; '.join(better)}")
    return lines


def unequal_outputs(result: dict[str, Any]) -> list[str]:
    """A line if one model writes half as much again as another: then speeds can't be compared."""
    lengths = {
        peer: rows["batch"]["tokens_per_sentence"]["median"]
        for peer, rows in result["rows"].items()
        if "batch" in rows
    }
    if not lengths or max(lengths.values()) <= LARGEST_RATIO * min(lengths.values()):
        return []
    ends = " to ".join(
        f"{lengths[peer]:.2f} ({result['titles'][peer]})"
        for peer in (min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__))
    )
    return [
        f"- Outputs have {ends} subwords on average. A model that writes less decodes sooner, so "
        f"the speeds of decoding tell little: train longer, by --target-tokens."
    ]


def as_markdown(result: dict[str, Any]) -> str:
    """The table, a column a toolkit; then what differs, what is better than ours, what failed."""
    plan, titles = result["plan"], result["titles"]
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    lines = [
        f"{result['machine']}, {result['threads']} threads; {plan['rounds']} interleaved rounds: "
        f"median (lowest to highest). {versions}.",
        "",
        f"Perplexity and BLEU after {plan['target_tokens']:,} target tokens; decoding: beam 4, "
        f"{plan['sentences']:,} sentences in batch, {plan['singles']:,} one at a time.",
        "",
        f"| | {' | '.join(titles.values())} |",
        f"|---|{'---|' * len(titles)}",
    ]
    for heading, measurement, name in columns(list(plan["sizes"])):
        cells = [
            shown(result["rows"].get(peer, {}).get(measurement, {}).get(name)) for peer in titles
        ]
        lines.append(f"| {heading} | {' | '.join(cells)} |")
    sections = {
        "Not to be compared": unequal_outputs(result),
        "Better than ours": ahead_of_ours(result),
        "Departures from the paper's recipe": [
            f"- {title}: {text}" for title, text in result["differs"].items()
        ],
        "Not measured": [
            f"- {titles[each['peer']]}, {each['what']}: {each['reason']}"
            for each in result["failures"]
        ],
    }
    for heading, entries in sections.items():
        if entries:
            lines += ["", f"{heading}:", "", *entries]
    return "\n".join(lines)
