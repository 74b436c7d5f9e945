"""Turns text into a language model's training data: a folder that fairseq's task reads.

The folder has dict.txt, train.bin, train.idx and so on, the codes of `bpe`, and preprocessing.json.
"""

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from vaswani_plugin.text.binary import binarize, build_dictionary, type_code
from vaswani_plugin.text.coding import (
    CODES,
    SEPARATOR,
    LineFunction,
    bpe_units,
    learn_codes,
    make_coding,
)
from vaswani_plugin.text.dictionary import (
    SPECIAL_SYMBOLS,
    TEXT_DICTIONARY,
    UNK,
    write_dictionary,
)
from vaswani_plugin.text.lines import read_pairs
from vaswani_plugin.text.outputs import new_data_folder, write_atomically
from vaswani_plugin.text.parallel import process_file
from vaswani_plugin.text.settings import SETTINGS, TextSettings


def _encoder(coding: str, codes: str | None) -> LineFunction:
    return make_coding(coding, codes)[0]


def _code_split(
    split: str, files: list[str], settings: TextSettings, parts: Path, workers: int
) -> str:
    """Codes a split; returns the path of the units. Two files become `article <sep> summary`."""
    codes = settings.codes and str(parts / settings.codes)
    coded = [str(parts / f"{split}.{number}") for number in range(len(files))]
    for source, target in zip(files, coded, strict=True):
        process_file(partial(_encoder, settings.coding, codes), source, target, workers)
    if len(coded) == 1:
        return coded[0]
    joined = str(parts / f"{split}.joined")
    with write_atomically(joined) as write:
        for article, summary in read_pairs(*coded):
            units = article.split()[: settings.article_tokens]
            write(" ".join([*units, SEPARATOR, *summary.split()[: settings.summary_tokens]]))
    return joined


def code_text(
    splits: dict[str, list[str]],
    settings: TextSettings,
    output: Path,
    operations: int,
    min_frequency: int,
    threshold: int,
    padding_factor: int,
    workers: int,
) -> list[str]:
    """Writes the data folder into a temporary folder and moves it into place.

    Args:
        splits: by split, its raw file, or its files of articles and of summaries.
        settings: the content of preprocessing.json.
        output: the folder to make.
        operations: number of BPE merges.
        min_frequency: BPE does not merge pairs of units that are rarer than this.
        threshold: rarer units become <unk>; not used with BPE.
        padding_factor: the number of rows of the dictionary becomes a multiple of it.
        workers: number of processes.

    Returns:
        A line for people about each split.

    Raises:
        UserError: a file is empty or no text, two files don't correspond, or `output` holds other
            files.
        OSError: a file can't be read or written.
    """
    inputs: list[str | Path] = [path for files in splits.values() for path in files]
    with new_data_folder(output, inputs) as (folder, parts):
        if settings.codes:
            learn_codes(splits["train"], operations, min_frequency, parts, workers)
            shutil.copyfile(parts / CODES, folder / CODES)
        coded = {
            split: _code_split(split, files, settings, parts, workers)
            for split, files in splits.items()
        }
        also = bpe_units(str(parts / CODES)) if settings.codes else ()
        entries = build_dictionary([coded["train"]], threshold, padding_factor, workers, also)
        write_dictionary(entries, folder / TEXT_DICTIONARY)
        rows = len(SPECIAL_SYMBOLS) + len(entries)
        report = []
        for split, path in coded.items():
            lines = binarize(path, folder / split, [symbol for symbol, _ in entries], workers)
            units = np.fromfile(folder / f"{split}.bin", dtype=type_code(rows))
            unknown = int(np.count_nonzero(units == UNK))
            report.append(f"{split}: {lines:,} lines, {len(units):,} units, {unknown:,} unknown")
        with write_atomically(folder / SETTINGS) as write:
            write(settings.to_json())
    return [*report, f"{output}: {rows:,} rows in the dictionary"]
