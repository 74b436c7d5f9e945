"""Compares another engine with our own: equal translations, BLEU, log P and CPU time.

    engine_agreement.py --model WORK/model --input test.en --reference test.de --work DIR

Exports the bundle to CTranslate2 (with `--to onnx` to ONNX) as float32 and int8, and translates the
input with our engine and with each export, at the same beam size and length penalty. Prints one
JSON object: the number of lines that are equal before detokenization, the number of different lines
that the export scored higher or lower, the sacreBLEU of each, the greatest difference of a token's
log P in the first 200 pairs, and CPU seconds without loading the model. Expected: at least 99%
equal lines for float32, and int8 within 0.5 BLEU.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import NamedTuple

import sacrebleu
import torch

from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.export.foreign import load_translator
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.results import Translation
from vaswani_plugin.text.lines import read_lines

EXPORTS = {"float32": [], "int8": ["--quantization", "int8"]}
PAIRS = 200  # scored token by token
TIE = 1e-4  # smaller differences of scores are rounding errors of float32


class Run(NamedTuple):
    """What one engine gives, on one thread of the CPU.

    Attributes:
        translations: of all lines.
        log_p: of the tokens of the first pairs.
        seconds: of the CPU, for the translations.
    """

    translations: list[Translation]
    log_p: list[tuple[float, ...]]
    seconds: float


def translate(folder: Path, lines: list[str], references: list[str], beam: int) -> Run:
    """The translations of the lines, and the scores of the first references."""
    translator = load_translator(folder, threads=1)
    start = time.process_time()
    translations = translator.translate(lines, beam=beam, one_sentence=True)
    seconds = time.process_time() - start
    pairs = list(zip(lines, references, strict=True))[:PAIRS]
    return Run(translations, [s.token_scores for s in translator.score(pairs)], seconds)


def greatest_difference(ours: Run, theirs: Run) -> float:
    """Between two engines' log P of a token."""
    rows = zip(ours.log_p, theirs.log_p, strict=True)
    return max(abs(a - b) for one, other in rows for a, b in zip(one, other, strict=True))


def compare(ours: list[Translation], theirs: list[Translation]) -> dict[str, int]:
    """Counts of equal lines, and of the other lines by the side that scored higher."""
    gains = [b.score - a.score for a, b in zip(ours, theirs, strict=True) if a.tokens != b.tokens]
    return {
        "lines": len(ours),
        "same": len(ours) - len(gains),
        "higher_score": sum(gain > TIE for gain in gains),
        "lower_score": sum(gain < -TIE for gain in gains),
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a bundle")
    parser.add_argument("--input", required=True, help="raw source text without empty lines")
    parser.add_argument("--reference", required=True, help="raw reference text")
    parser.add_argument("--work", type=Path, required=True, help="folder of the exports")
    parser.add_argument("--beam", type=int, default=4, help="beam size (default: 4)")
    engines = "the export to compare (default: ctranslate2)"
    parser.add_argument(
        "--to", choices=["ctranslate2", "onnx"], default="ctranslate2", help=engines
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines, references = list(read_lines(args.input)), list(read_lines(args.reference))
    lowercase = Bundle.load(args.model).pipeline.settings.lowercase
    report = {}
    ours = translate(args.model, lines, references, args.beam)
    rows = {"torch": ours}
    for name, flags in EXPORTS.items():
        folder = args.work / f"{args.to}-{name}"
        shutil.rmtree(folder, ignore_errors=True)  # of another model
        export = ["export", "--to", args.to, "--model", str(args.model)]
        if code := cli.main([*export, "--output", str(folder), *flags]):
            return code
        rows[f"{args.to} {name}"] = translate(folder, lines, references, args.beam)
    for name, row in rows.items():
        texts = [translation.text for translation in row.translations]
        bleu = sacrebleu.corpus_bleu(texts, [references], lowercase=lowercase)
        report[name] = compare(ours.translations, row.translations) | {
            "bleu": bleu.score,
            "log_p_difference": greatest_difference(ours, row),
            "cpu_seconds": row.seconds,
        }
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
