"""How a bundle translates when CTranslate2 runs it: agreement with our own search, and BLEU.

    engine_agreement.py --model WORK/model --input test.en --reference test.de --work DIR

Exports the bundle (float32 and int8), translates the input with our own search and with each
export, all at the same beam and length penalty, and prints one JSON object: how many lines are the
same before detokenization, how many of the others CTranslate2 scored higher or lower, sacreBLEU of
each, and CPU seconds without loading the model. Expected: 99% or more of float32 the same, int8
within 0.5 BLEU.
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
    parser.add_argument("--input", required=True, help="raw text, no line empty")
    parser.add_argument("--reference", required=True, help="raw text")
    parser.add_argument("--work", type=Path, required=True, help="folder for the exports")
    parser.add_argument("--beam", type=int, default=4)
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
