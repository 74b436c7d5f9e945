"""Does Hugging Face's transformers compute with our export what we compute?

    huggingface_agreement.py --model WORK/model --input test.en --reference test.de \\
        --text train.en --work DIR

Exports the bundle and prints one JSON object:

    tokenizer  how many of 10,000 lines of --text both split into the same numbers, and how many
               both join to the same text again
    logits     the greatest difference on the first 200 pairs of --input and --reference
    generate   how many translations of --input have the same tokens, and for the others which
               side's score is higher

Both searches follow fairseq's rules, which are those of `generate` with early_stopping: the first
W hypotheses that end are kept, and log P is divided by |Y|^0.6. Translations that differ at the
limit of 100 tokens are counted apart: there, Hugging Face takes the end of sentence as certain.
Expected: all lines, less than 1e-4, at least 99%.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoint_models import Loaded
from vaswani_plugin.search.models import TransformerModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.pipeline import Pipeline

LINES, PAIRS, BATCH = 10_000, 200, 50
ALPHA, LIMIT = 0.6, 100
TIE = 1e-4  # smaller differences of scores are rounding errors of float32


def numbers_of(line: str, pipeline: Pipeline, loaded: Loaded, side: str) -> list[int]:
    """The numbers of a raw line's subwords on one side, with the end of sentence."""
    dictionary = getattr(loaded, side)
    return [*map(dictionary.index, pipeline.encode(line).split()), dictionary.eos()]


def padded(rows: list[list[int]], pad: int) -> Tensor:
    """(B, T), padded on the right."""
    length = max(map(len, rows))
    return torch.tensor([row + [pad] * (length - len(row)) for row in rows])


def compare_tokenizers(
    bundle: Bundle, loaded: Loaded, tokenizer: PreTrainedTokenizerBase, lines: list[str]
) -> dict[str, int]:
    """Counts of lines with equal numbers, and of those with equal text after the way back.

    Numbers behind the dictionary's belong to pieces that the model reads as <unk>.
    """
    same = joined = 0
    unknown, size = loaded.source.unk(), len(loaded.source)
    for line in lines:
        numbers = numbers_of(line, bundle.pipeline, loaded, "source")
        found = tokenizer(line).input_ids
        same += [number if number < size else unknown for number in found] == numbers
        known = [number for number in numbers[:-1] if number != unknown]
        text = bundle.pipeline.decode(" ".join(loaded.source[number] for number in known))
        joined += tokenizer.decode(known) == text
    return {"lines": len(lines), "same": same, "joined_the_same": joined}


def greatest_difference(
    loaded: Loaded, theirs: Any, sources: list[list[int]], targets: list[list[int]]
) -> float:
    """Between two logits of the same token."""
    pad, eos, model = loaded.source.pad(), loaded.source.eos(), loaded.model
    found = 0.0
    for first in range(0, len(sources), BATCH):
        source = padded(sources[first : first + BATCH], pad)
        shifted = padded([[eos, *row[:-1]] for row in targets[first : first + BATCH]], pad)
        mask = source.ne(pad)
        memory = model.encoder(source).features
        ours = model.decoder.project(model.decoder(shifted, memory, mask[:, None, None]).features)
        logits = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=shifted).logits
        difference = (logits[..., : ours.size(2)] - ours)[shifted.ne(pad)]
        found = max(found, difference.abs().max().item())
    return found


def compare_search(
    loaded: Loaded, theirs: Any, sources: list[list[int]], beam: int
) -> dict[str, int]:
    """Counts of equal translations, and of the others by the side that scored higher."""
    rules = {"lenpen": ALPHA, "length_penalty": "fairseq", "max_len_a": 0, "max_len_b": LIMIT}
    search = Search(
        [TransformerModel(loaded.model)], loaded.target, SearchOptions(beam=beam, **rules)
    )
    pad, eos = loaded.source.pad(), loaded.source.eos()
    counts = dict.fromkeys(("sentences", "same", "at_the_limit", "higher_score", "lower_score"), 0)
    for first in range(0, len(sources), BATCH):
        source = padded(sources[first : first + BATCH], pad)
        result = theirs.generate(
            input_ids=source,
            attention_mask=source.ne(pad),
            num_beams=beam,
            length_penalty=ALPHA,
            early_stopping=True,
            max_new_tokens=LIMIT + 1,
            forced_eos_token_id=eos,
            return_dict_in_generate=True,
            output_scores=True,
        )
        found = zip(result.sequences[:, 1:], result.sequences_scores, strict=True)
        for (best, *_), (row, score) in zip(search.run(source), found, strict=True):
            expected = best["tokens"].tolist()
            gain = score.item() - best["score"].item()
            same = row[row.ne(pad)].tolist() == expected
            at_limit = not same and max(len(expected), int(row.ne(pad).sum())) > LIMIT
            counts["sentences"] += 1
            counts["same"] += same
            counts["at_the_limit"] += at_limit
            counts["higher_score"] += not same and not at_limit and gain > TIE
            counts["lower_score"] += not same and not at_limit and gain < -TIE
    return counts


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a bundle")
    parser.add_argument("--input", required=True, help="raw text, no line empty")
    parser.add_argument("--reference", required=True, help="raw text")
    parser.add_argument("--text", help="raw text for the tokenizers (default: --input)")
    parser.add_argument("--work", type=Path, required=True, help="folder for the export")
    parser.add_argument("--beam", type=int, default=4)
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = args.work / "huggingface"
    shutil.rmtree(folder, ignore_errors=True)  # of another model
    export = ["export", "--to", "huggingface", "--model", str(args.model)]
    if code := cli.main([*export, "--output", str(folder)]):
        return code
    bundle = Bundle.load(args.model)
    loaded = bundle.load_transformer()
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = list(read_lines(args.text or args.input))[:LINES]
    lines, references = list(read_lines(args.input)), list(read_lines(args.reference))
    sources = [numbers_of(line, bundle.pipeline, loaded, "source") for line in lines]
    target = bundle.pipeline.of_target()
    targets = [numbers_of(line, target, loaded, "target") for line in references[:PAIRS]]
    with torch.no_grad():
        report = {
            "tokenizer": compare_tokenizers(bundle, loaded, tokenizer, text),
            "logits": greatest_difference(loaded, theirs, sources[:PAIRS], targets),
            "generate": compare_search(loaded, theirs, sources, args.beam),
        }
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
