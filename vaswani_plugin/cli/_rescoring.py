"""What `vaswani rescore` does once its flags are read: scores, tuned weights, the table."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabulate import tabulate

from vaswani_plugin.cli._forced import ForcedDecoder
from vaswani_plugin.cli._nbest import read_nbest, write_nbest
from vaswani_plugin.cli._rescoring_set import RescoringSet
from vaswani_plugin.cli.rescore import SCORE, WORDS
from vaswani_plugin.metrics.tuning import oracle, tune
from vaswani_plugin.text.corpus_io import write_atomically


def run(args: argparse.Namespace) -> int:
    """Rescore; returns 0.

    Raises:
        ValueError: flags that don't fit, a list or a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    systems, weights = _systems(args.system), _weights(args)
    _check(args, systems, weights)
    split = None
    if args.bpe_codes is not None:
        from vaswani_plugin.text import bpe

        split = bpe.make_encoder(str(args.bpe_codes))
    test = RescoringSet(read_nbest(args.nbest), args.source, args.reference, split)
    dev = None
    if args.dev_nbest is not None:
        dev = RescoringSet(read_nbest(args.dev_nbest), args.dev_source, args.dev_reference, split)
        if dev.references is None:
            raise ValueError(f"{args.dev_nbest} holds no references: give --dev-reference")
    _score(args, systems, [task for task in (dev, test) if task is not None])
    rows = _table(args, list(systems), weights, dev, test)
    _write_outputs(args, test, rows)
    if args.format == "json":
        lists = test.nbest.lists
        counts = {"sentences": len(lists), "hypotheses": sum(map(len, lists))}
        print(json.dumps({**counts, "rows": rows}, indent=2))
    else:
        table = [_cells(row) for row in rows]
        print(tabulate(table, headers="keys", tablefmt="github", disable_numparse=True))
    return 0


def _systems(given: list[str]) -> dict[str, list[Path]]:
    systems: dict[str, list[Path]] = {}
    for text in given:
        name, equals, paths = text.partition("=")
        if not (name and equals and paths):
            raise ValueError(f"--system {text}: must be NAME=CHECKPOINT[:CHECKPOINT...]")
        if name in (SCORE, WORDS) or name in systems or not name.isidentifier():
            raise ValueError(
                f"--system {text}: {name!r} is taken or no name (letters, digits and _); "
                "choose another"
            )
        systems[name] = [Path(path) for path in paths.split(":")]
        for path in systems[name]:  # known now, not after an hour with the systems before it
            if not path.exists():
                raise FileNotFoundError(f"--system {text}: {path} does not exist")
    return systems


def _weights(args: argparse.Namespace) -> dict[str, float]:
    weights = {}
    for text in args.weights or []:
        name, _, value = text.partition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            raise ValueError(f"--weights {text}: must be NAME=NUMBER") from None
    return weights


def _check(args: argparse.Namespace, systems: dict, weights: dict[str, float]) -> None:
    unknown = set(weights) - {SCORE, WORDS, *systems}
    if unknown:
        names = ", ".join((SCORE, WORDS, *systems))
        raise ValueError(f"--weights {unknown.pop()}: no feature of that name; there are {names}")
    if weights and args.dev_nbest is not None:
        raise ValueError("--weights fixes what --dev-nbest would tune: leave one out")
    if args.dev_nbest is None and (args.dev_source or args.dev_reference):
        raise ValueError("--dev-source and --dev-reference go with --dev-nbest")
    for flag, value, least in (
        ("--restarts", args.restarts, 0),
        ("--max-tokens", args.max_tokens, 1),
    ):
        if value < least:
            raise ValueError(f"{flag} {value}: must be at least {least}")


def _score(
    args: argparse.Namespace, systems: dict[str, list[Path]], tasks: list[RescoringSet]
) -> None:
    on_gpu = torch.cuda.is_available() and not args.cpu
    device = torch.device("cuda" if on_gpu else "cpu")
    for name, paths in systems.items():
        decoder = ForcedDecoder(paths, args.data, device)
        for task in tasks:
            title = f"{name}, {task.nbest.path}"
            task.features[name] = decoder.score(task.sources, task.texts, args.max_tokens, title)


def _table(
    args: argparse.Namespace,
    systems: list[str],
    fixed: dict[str, float],
    dev: RescoringSet | None,
    test: RescoringSet,
) -> list[dict[str, Any]]:
    rows = [_row("baseline", {SCORE: 1.0}, dev, test)]
    variants = {f"baseline + {name}": [SCORE, name, WORDS] for name in systems}
    if dev is not None:  # what tuning and the number of words do by themselves
        variants = {f"baseline + {WORDS}": [SCORE, WORDS], **variants}
    for title, names in variants.items():
        start = np.array([fixed.get(n, 0.0) if fixed else float(n != WORDS) for n in names])
        if dev is not None:
            start = tune(dev.pool(names), start, args.restarts, args.seed)
        rows.append(_row(title, dict(zip(names, start.tolist(), strict=True)), dev, test))
    if test.references is not None:
        best = {"dev_bleu": None if dev is None else _oracle(dev), "test_bleu": _oracle(test)}
        rows.append({"system": "oracle", "weights": None, **best})
    return rows


def _row(
    title: str, weights: dict[str, float], dev: RescoringSet | None, test: RescoringSet
) -> dict[str, Any]:
    return {
        "system": title,
        "weights": weights,
        "dev_bleu": None if dev is None else _bleu(dev, weights),
        "test_bleu": None if test.references is None else _bleu(test, weights),
    }


def _bleu(task: RescoringSet, weights: dict[str, float]) -> float:
    pool = task.pool(weights)
    return pool.bleu(pool.choose(np.array(list(weights.values()))))


def _oracle(task: RescoringSet) -> float:
    pool = task.pool([SCORE])
    return pool.bleu(oracle(pool))


def _cells(row: dict[str, Any]) -> dict[str, str]:
    weights = row["weights"] or {}
    cells = {"system": row["system"]}
    for part in ("dev", "test"):
        score = row[f"{part}_bleu"]
        cells[f"{part} BLEU"] = "" if score is None else f"{score:.2f}"
    return cells | {"weights": ", ".join(f"{k} {v:.4g}" for k, v in weights.items())}


def _write_outputs(
    args: argparse.Namespace, test: RescoringSet, rows: list[dict[str, Any]]
) -> None:
    weights = [row["weights"] for row in rows if row["weights"]][-1]
    features = test.rows(weights)
    scores = [part @ np.array(list(weights.values())) for part in features]
    if args.output is not None:
        with write_atomically(args.output) as write:
            for entries, totals in zip(test.nbest.lists, scores, strict=True):
                write(entries[int(totals.argmax())].output)
    if args.output_nbest is not None:
        with write_atomically(args.output_nbest) as write:
            write_nbest(write, test.nbest, list(weights), features, scores)
