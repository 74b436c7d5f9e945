"""Compares the trainings that recipes/ancestors.sh has finished.

    ancestors_report.py --work W --data-bin D --data-key K --title "Multi30k en-de" ...

Writes ancestors.md, .csv and .png, and result.json. The folders raw/ and tok/ beside the binarized
data have the test set as raw text and as tokens.
"""

import argparse
import csv
import io
import logging
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from ancestors_models import (
    MODELS,
    SWEEP,
    Training,
    add_settings,
    find_test_texts,
    settings_of,
    trainings_of,
)
from result import provenance
from tabulate import tabulate
from trainings import over_seeds

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.figures.flops import LENGTH_SUMS
from vaswani_plugin.metrics.bleu_report import by_bucket, score
from vaswani_plugin.metrics.segments import Segments, read_generate_output, read_lines
from vaswani_plugin.text.binary import read_sizes
from vaswani_plugin.text.moses import make_detokenizer
from vaswani_plugin.text.outputs import write_atomically, write_json

COLUMNS = {
    "title": ("model", ""),
    "seed": ("seed", ""),
    "parameters": ("parameters", ","),
    "updates": ("updates", ","),
    "seconds": ("wall time, s", ".0f"),
    "tokens_per_second": ("target tokens/s", ",.0f"),
    "flops": ("training FLOPs", ".1e"),
    "ppl": ("validation PPL", ".2f"),
    "tokenized": ("BLEU", ".2f"),
    "compound_split": ("compound-split", ".2f"),
    "sacrebleu": ("sacreBLEU", ".2f"),
    "sentences_per_second": ("sentences/s, beam 4", ".1f"),
}
BUCKETS = {
    "by_length": "source length in words",
    "by_average_rank": "average frequency rank of the source words",
    "by_rarest_word": "frequency of the rarest source word",
}
LEVELS = (5, 10, 15, 20, 25, 30, 35, 40)
"""Columns of the table of costs: BLEU of the validation set, translated greedily."""
Line = dict[str, Any]


class Corpus:
    """The references for scoring translations, and the sizes that determine the cost of training.

    Args:
        data_bin: the binarized data of a recipe.

    Raises:
        UserError: no recipe binarized the data.
    """

    def __init__(self, data_bin: Path) -> None:
        self.source, self.target, paths = find_test_texts(data_bin)
        prefix = f"{data_bin}/train.{self.source}-{self.target}"
        self.sizes = [read_sizes(f"{prefix}.{side}") for side in (self.source, self.target)]
        self.training = data_bin.parent / "tok" / f"train.{self.source}"
        self.words, self.references, self.running = map(read_lines, paths)
        self.lowercase = all(line == line.lower() for line in self.references)

    def lengths(self) -> dict[str, int]:
        """Sums of the lengths of all training sentences, by the names of `LENGTH_SUMS`."""
        s, t = self.sizes
        sums = (s.sum(), t.sum(), (s * s).sum(), (t * t).sum(), (s * t).sum())
        return {name: int(value) for name, value in zip(LENGTH_SUMS, sums, strict=True)}

    def score(self, output: Path) -> dict[str, Any]:
        """Computes three kinds of BLEU, and scores by length and by rare words.

        Args:
            output: the output of fairseq-generate.

        Raises:
            UserError: a sentence has no translation.
        """
        words = read_generate_output(output).hypotheses
        if len(words) != len(self.words):
            raise UserError(f"{output}: {len(words)} translations of {len(self.words)} sentences")
        text = list(map(make_detokenizer(self.target), words))
        split = self.target == "de"
        tokens = Segments(words, [self.references], sources=self.words, tokenized=True)
        running = Segments(text, [self.running])
        # As in published results: lower-cased text, in the words that the model was trained on.
        if self.lowercase:
            scores = score(tokens, compound_split=split)
            plain = score(running, lowercase=True)
            scores |= {name: plain[name] for name in ("sacrebleu", "signature")}
        else:
            scores = score(running, language=self.target, compound_split=split)
        names = ("tokenized", "compound_split", "sacrebleu", "signature")
        found = {name: scores[name] for name in names}
        return found | by_bucket(tokens, self.lowercase, self.training)


def line_of(training: Training, result: Line, corpus: Corpus, work: Path) -> Line:
    """Makes a line of the table, by the names of `COLUMNS`, and the values for the picture."""
    model, lengths = training.model, corpus.lengths()
    passes = result["updates"] * result["tokens_per_update"] / lengths["target"]
    kept = ("parameters", "updates", "seconds", "tokens_per_second", "ppl", "points")
    line = {"model": model.name, "title": model.title, "seed": training.seed}
    line |= {name: result[name] for name in (*kept, "sentences_per_second", "command")}
    line["epochs"] = passes
    line["flops"] = passes * model.flops(result["vocabulary"], lengths)
    share = line["flops"] / result["updates"]
    line["points"] = [point | {"flops": point["updates"] * share} for point in result["points"]]
    return line | corpus.score(training.folder(work) / "test.txt")


def as_markdown(lines: list[Line], heading: str) -> str:
    """Formats the table; a column without figures is left out."""
    columns = [name for name in COLUMNS if any(line[name] is not None for line in lines)]
    rows = [[format(line[name], COLUMNS[name][1]) for name in columns] for line in lines]
    align = ("left", *["right"] * (len(columns) - 1))
    heads = [COLUMNS[name][0] for name in columns]
    return f"{heading}\n\n{tabulate(rows, heads, 'github', disable_numparse=True, colalign=align)}"


def reached(points: list[dict[str, float]], level: float, cost: str) -> float | None:
    """Computes at what cost a training reached a BLEU, between its points in proportion.

    Args:
        points: of the training, in their order.
        level: the BLEU.
        cost: "flops" or "seconds".

    Returns:
        The cost; None if no point reaches the level.
    """
    before = {"bleu": 0.0, cost: 0.0}
    for point in points:
        if point["bleu"] >= level:
            share = (level - before["bleu"]) / (point["bleu"] - before["bleu"])
            return before[cost] + share * (point[cost] - before[cost])
        before = point
    return None


def costs(lines: list[Line]) -> str:
    """Formats the second table: a line for each model, with standard errors over its seeds.

    The last columns tell the FLOPs and minutes at which all of its seeds had reached a BLEU.
    """
    models: dict[str, list[Line]] = {}
    for line in lines:
        models.setdefault(line["title"], []).append(line)
    levels = [n for n in LEVELS if any(reached(x["points"], n, "flops") for x in lines)]
    rows = []
    for title, own in models.items():
        row = [title, len(own)]
        row += [over_seeds([x[name] for x in own], 2) for name in ("ppl", "tokenized")]
        for level in levels:
            found = [[reached(x["points"], level, c) for x in own] for c in ("flops", "seconds")]
            if None in found[0]:
                row.append("")
            else:
                row.append(f"{mean(found[0]):.1e}, {mean(found[1]) / 60:.0f}")
        rows.append(row)
    heads = ["model", "seeds", "validation PPL", "BLEU"]
    heads += [f"{level} BLEU: FLOPs, min" for level in levels]
    align = ("left", *["right"] * (len(heads) - 1))
    table = tabulate(rows, heads, "github", disable_numparse=True, colalign=align)
    return f"Costs to reach a BLEU are of the validation set, translated greedily:\n\n{table}"


def average(lines: list[Line]) -> dict[str, float]:
    """Returns each model's tokenized BLEU, averaged over its seeds, in the table's order."""
    names = dict.fromkeys(line["model"] for line in lines)
    return {n: mean(line["tokenized"] for line in lines if line["model"] == n) for n in names}


def reversal(lines: list[Line]) -> dict[str, Any]:
    """Returns the change in BLEU from reversing the source: by seed with both models, and mean."""
    found = {(line["model"], line["seed"]): line["tokenized"] for line in lines}
    seeds = sorted(s for model, s in found if model == "seq2seq" and ("forwards", s) in found)
    gains = {seed: found["seq2seq", seed] - found["forwards", seed] for seed in seeds}
    return {"bleu": gains, "mean": mean(gains.values()) if gains else None}


def summary(lines: list[Line]) -> str:
    """Formats the last line for people: the models from worst to best."""
    ranks = sorted(average(lines).items(), key=lambda item: item[1])
    text = "BLEU " + " < ".join(f"{name} {value:.1f}" for name, value in ranks)
    gain = reversal(lines)
    if gain["mean"] is not None:
        each = ", ".join(f"{value:+.1f}" for value in gain["bleu"].values())
        text += f"; reversing the source {gain['mean']:+.1f} (by seed: {each})"
    return text


def draw(lines: list[Line], path: Path) -> None:
    """Draws BLEU over FLOPs, wall time, sentence length and rarity of words.

    Each model has a colour, each seed a line.

    Raises:
        OSError: the picture can't be written.
    """
    figure = new_figure(28, 5)
    panels = figure.subplots(1, 2 + len(BUCKETS))
    names = list(dict.fromkeys(line["model"] for line in lines))
    for line in lines:
        first = line["seed"] == min(x["seed"] for x in lines if x["model"] == line["model"])
        style = {"color": f"C{names.index(line['model'])}", "marker": "o", "markersize": 4}
        style |= {"label": line["title"] if first else None, "linestyle": "-" if first else "--"}
        scores = [point["bleu"] for point in line["points"]]
        panels[0].semilogx([point["flops"] for point in line["points"]], scores, **style)
        panels[1].plot([point["seconds"] / 60 for point in line["points"]], scores, **style)
        for panel, name in zip(panels[2:], BUCKETS, strict=True):
            panel.plot([row["sacrebleu"] for row in line[name]], **style)
    panels[0].set(xlabel="training FLOPs", ylabel="validation BLEU, greedy")
    panels[1].set(xlabel="minutes of training", ylabel="validation BLEU, greedy")
    panels[0].legend(fontsize=8)
    for panel, (name, label) in zip(panels[2:], BUCKETS.items(), strict=True):
        ticks = [f"{row['bucket']}\n({row['sentences']})" for row in lines[0][name]]
        panel.set_xticks(range(len(ticks)), ticks, fontsize=8)
        panel.set(xlabel=f"{label} (sentences)", ylabel="test BLEU, beam 4")
    for panel in panels:
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    save_figure(figure, path)


def write_csv(lines: list[Line], path: Path) -> None:
    """Writes the table's figures, unrounded."""
    text = io.StringIO()
    fields = ["model", *COLUMNS, "epochs"]
    writer = csv.DictWriter(text, fields, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    with write_atomically(path) as write:
        write(text.getvalue().removesuffix("\n"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_settings(parser)
    parser.add_argument("--title", required=True, help="name of the data")
    args = parser.parse_args()
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq logs everything
    settings, corpus = settings_of(args), Corpus(args.data_bin)
    result_of = partial(Training.result, work=args.work, settings=settings, data_key=args.data_key)
    trainings = trainings_of([*MODELS, *SWEEP], [int(seed) for seed in args.seeds.split(",")])
    found = [(training, result_of(training)) for training in trainings]
    lines = [line_of(each, result, corpus, args.work) for each, result in found if result]
    if not lines:
        raise UserError(f"{args.work / 'models'}: no training is finished with these settings")
    heading = (
        f"{args.title}: {settings.budget}, {settings.max_tokens:,} tokens a batch, "
        f"{'GPUs: ' + str(settings.gpus) if settings.gpus else f'{settings.threads} CPU thread(s)'}"
        f". {summary(lines)}."
    )
    with write_atomically(args.work / "ancestors.md") as write:
        write(f"{as_markdown(lines, heading)}\n\n{costs(lines)}")
    write_csv(lines, args.work / "ancestors.csv")
    draw(lines, args.work / "ancestors.png")
    content = {"recipe": "ancestors", "title": args.title, "settings": vars(settings)}
    content |= {"rows": lines, "average_bleu": average(lines), "reversal": reversal(lines)}
    content |= provenance() | {"summary": f"ancestors, {args.title}: {summary(lines)}"}
    write_json(args.work / "result.json", content)


if __name__ == "__main__":
    run(main)
