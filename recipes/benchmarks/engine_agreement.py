"""How a bundle translates when CTranslate2 runs it: agreement with our own search, and BLEU.

    engine_agreement.py --model WORK/model --input test.en --reference test.de --work DIR

Exports the bundle (float32 and int8), translates the input with fairseq's engine and with each
export, all at the same beam and length penalty, and prints one JSON object: how many lines are the
same before detokenization, how many of the others CTranslate2 scored higher or lower, sacreBLEU of
each, and CPU seconds of the translating alone. Expected: 99% or more of float32 the same, int8
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
from vaswani_plugin.cli._engine import Engine, Hypothesis
from vaswani_plugin.cli._translating import make_engine
from vaswani_plugin.interchange.bundle import FairseqBundle
from vaswani_plugin.text.corpus_io import read_lines

EXPORTS = {"float32": [], "int8": ["--quantization", "int8"]}
TIE = 1e-4  # scores that differ by less are float32's noise


def engine_of(folder: Path, beam: int) -> tuple[Engine, FairseqBundle]:
    """The engine that `vaswani translate` takes for a folder, on one thread of the CPU."""
    flags = ["--model", str(folder), "--cpu", "--threads", "1", "--beam", str(beam)]
    bundle = FairseqBundle.load(folder)
    return make_engine(cli.command_parser("translate").parse_args(flags), bundle), bundle


def translate(
    folder: Path, lines: list[str], beam: int
) -> tuple[list[Hypothesis], list[str], float]:
    """The best hypothesis of each line, the same as running text, and the CPU seconds."""
    engine, bundle = engine_of(folder, beam)
    encoded = [bundle.pipeline.encode(line) for line in lines]
    start = time.process_time()
    best = [hypotheses[0] for hypotheses in engine.translate(encoded)]
    seconds = time.process_time() - start
    return best, [bundle.pipeline.decode(" ".join(h.tokens)) for h in best], seconds


def compare(ours: list[Hypothesis], theirs: list[Hypothesis]) -> dict[str, int]:
    """Counts of equal lines, and of the others by who scored higher."""
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
    lowercase = FairseqBundle.load(args.model).pipeline.settings.lowercase
    report = {}
    ours, text, seconds = translate(args.model, lines, args.beam)
    rows = {"fairseq": (ours, text, seconds)}
    for name, flags in EXPORTS.items():
        folder = args.work / name
        if not folder.exists():
            export = ["export", "--to", "ctranslate2", "--model", str(args.model)]
            if code := cli.main([*export, "--output", str(folder), *flags]):
                return code
        rows[f"ctranslate2 {name}"] = translate(folder, lines, args.beam)
    for name, (best, text, seconds) in rows.items():
        bleu = sacrebleu.corpus_bleu(text, [references], lowercase=lowercase)
        report[name] = {**compare(ours, best), "bleu": bleu.score, "cpu_seconds": seconds}
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
