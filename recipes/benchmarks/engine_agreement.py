"""Compares a bundle in CTranslate2 with our own search: equal translations, BLEU and CPU time.

    engine_agreement.py --model WORK/model --input test.en --reference test.de --work DIR

Exports the bundle as float32 and int8, and translates the input with our search and with each
export, at the same beam size and length penalty. Prints one JSON object: the number of lines that
are equal before detokenization, the number of different lines that CTranslate2 scored higher or
lower, the sacreBLEU of each, and CPU seconds without loading the model. Expected: at least 99%
equal lines for float32, and int8 within 0.5 BLEU.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import sacrebleu
import torch

from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.results import Translation
from vaswani_plugin.interchange.translation import load_translator
from vaswani_plugin.text.corpus_io import read_lines

EXPORTS = {"float32": [], "int8": ["--quantization", "int8"]}
TIE = 1e-4  # smaller differences of scores are rounding errors of float32


def translate(folder: Path, lines: list[str], beam: int) -> tuple[list[Translation], float]:
    """The translations of the lines, on one thread of the CPU, and the CPU seconds."""
    translator = load_translator(folder, threads=1)
    start = time.process_time()
    return translator.translate(lines, beam=beam), time.process_time() - start


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
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines, references = list(read_lines(args.input)), list(read_lines(args.reference))
    lowercase = Bundle.load(args.model).pipeline.settings.lowercase
    report = {}
    ours, seconds = translate(args.model, lines, args.beam)
    rows = {"torch": (ours, seconds)}
    for name, flags in EXPORTS.items():
        folder = args.work / name
        if not folder.exists():
            export = ["export", "--to", "ctranslate2", "--model", str(args.model)]
            if code := cli.main([*export, "--output", str(folder), *flags]):
                return code
        rows[f"ctranslate2 {name}"] = translate(folder, lines, args.beam)
    for name, (best, seconds) in rows.items():
        texts = [translation.text for translation in best]
        bleu = sacrebleu.corpus_bleu(texts, [references], lowercase=lowercase)
        report[name] = {**compare(ours, best), "bleu": bleu.score, "cpu_seconds": seconds}
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
