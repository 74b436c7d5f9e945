"""Compares subword methods on one corpus: prints a table with one row per folder.

    subwords.py --pair en-fr work/unigram work/bpe work/moses-bpe

Each folder has {train,test}.LANG in subwords of both languages and, if a model was trained on
them, valid.LANG, `train.log` and the `bleu.json` of `vaswani bleu`. Run at the end of subwords.sh.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import run  # noqa: E402
from vaswani_plugin.text.lines import read_json, read_lines  # noqa: E402

RARE = 100


def bits_a_sentence(folder: Path, language: str) -> float | str:
    """Bits of the trained model for an average target sentence of the validation set.

    Unlike loss or perplexity per token, they do not depend on the segmentation into subwords.
    """
    log = folder / "train.log"
    losses = (
        re.findall(r"'valid' subset .*\| nll_loss ([\d.]+)", log.read_text())
        if log.is_file()
        else []
    )
    if not losses:
        return "-"
    lines = [line.split() for line in read_lines(folder / f"valid.{language}")]
    # fairseq's loss is in bits a token, the end of sentence included.
    return float(losses[-1]) * (sum(map(len, lines)) / len(lines) + 1)


def measure(folder: Path, pair: list[str]) -> dict[str, float | str]:
    """Counts of one folder: tokens a test sentence by language; tokens of the test that training
    never saw (`unseen`: <unk>, unless the dictionary lists them); types of the training text, and
    how many of them occur there less than 100 times, too seldom to learn a good embedding (`rare`).
    """
    row: dict[str, float | str] = {"kind": folder.name}
    types: Counter[str] = Counter()
    for language in pair:
        for line in read_lines(folder / f"train.{language}"):
            types.update(line.split())
    unseen = 0
    for language in pair:
        lines = [line.split() for line in read_lines(folder / f"test.{language}")]
        row[f"{language} tokens/sentence"] = sum(map(len, lines)) / len(lines)
        unseen += sum(token not in types for line in lines for token in line)
    row["unseen"] = unseen
    row["types"] = len(types)
    row["rare"] = sum(count < RARE for count in types.values())
    row["bits/sentence"] = bits_a_sentence(folder, pair[1])
    score = folder / "bleu.json"
    row["sacreBLEU"] = read_json(score, "score again")["sacrebleu"] if score.is_file() else "-"
    return row


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--pair", required=True, help="both languages, as in en-fr")
    args = parser.parse_args()
    rows = [measure(folder, args.pair.split("-")) for folder in args.folders]
    print(" | ".join(rows[0]))
    for row in rows:
        cells = (f"{x:.2f}" if isinstance(x, float) else str(x) for x in row.values())
        print(" | ".join(cells))


if __name__ == "__main__":
    run(main)
