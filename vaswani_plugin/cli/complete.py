"""`vaswani complete`: a language model continues prompts.

The model reads an end of sentence before the prompt, as before each line in training. So an empty
prompt begins a text.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._types import finite_float, non_negative_int, positive_int, probability
from vaswani_plugin.decoding import MAX_NEW_TOKENS
from vaswani_plugin.errors import message_line
from vaswani_plugin.text.lines import LocatedLines

if TYPE_CHECKING:
    from vaswani_plugin.inference.completion import CompletedPrompt

HELP = "complete texts with a language model"
EXAMPLE = 'vaswani complete --model work/lm/model --sampling --top-p 0.9 "The history of"'
BUFFER = 64
OPTIONS = "beam sampling top_k top_p seed temperature stop max_new_tokens min_new_tokens".split()
PROMPT = "the beginning of a text, one or more lines (default: each line of standard input)"
BEAM = "beam size (default: %(default)s, greedy search)"
TOP_K = "sample from the K most probable tokens"
TOP_P = "sample from the fewest tokens whose probabilities sum to P or more"
TEMPERATURE = "divides the logits before sampling (default: 1)"
SAMPLES = "completions of each prompt: N samples, or without --sampling the N best of the beam"
MOST = f"most tokens of a completion (default: {MAX_NEW_TOKENS}, at most half of the positions)"
FORMAT = """json: one object per prompt with line, prompt, prompt_tokens (those that were read) and
completions (text, tokens, log_probabilities, score, ended); the logarithms are natural and after
--temperature, the last one is that of </s> if the model ended the text"""
DATA = """with a checkpoint: the folder of its dictionary; without a preprocessing.json in it,
prompts are tokens separated by spaces"""
SEED = """random seed; the samples of a prompt then depend only on the seed, the prompt and its
number, and prompts are completed one by one (default: a new seed each time)"""
STOP = """end: stop at the end of a line; never: continue with further lines up to --max-new-tokens
(default: %(default)s)"""
LONG = """if a prompt leaves no positions for new tokens: read only its end, with a warning, or stop
with an error (default: %(default)s)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("prompts", nargs="*", metavar="PROMPT", help=PROMPT)
    add("--model", type=Path, required=True, metavar="PATH", help="a bundle or a checkpoint")
    add("--data-bin", type=Path, metavar="DIR", help=DATA)
    search = parser.add_mutually_exclusive_group()
    search.add_argument("--beam", type=positive_int, default=1, metavar="N", help=BEAM)
    search.add_argument("--sampling", action="store_true", help="sample each token at random")
    flags.add_length_penalty(parser, 0.0, "with --beam: ")
    top = parser.add_mutually_exclusive_group()
    top.add_argument("--top-k", type=positive_int, metavar="K", help=TOP_K)
    top.add_argument("--top-p", type=probability, metavar="P", help=TOP_P)
    add("--temperature", type=finite_float, metavar="T", help=TEMPERATURE)
    add("--seed", type=int, help=SEED)
    add("--samples", type=positive_int, default=1, metavar="N", help=SAMPLES)
    add("--max-new-tokens", type=positive_int, metavar="N", help=MOST)
    for name, what in (
        ("--min-new-tokens", "fewest tokens of a completion (default: 0)"),
        ("--no-repeat-ngram-size", "never repeat N successive tokens (default: 0, no limit)"),
    ):
        add(name, type=non_negative_int, default=0, metavar="N", help=what)
    add("--stop", choices=["end", "never"], default="end", help=STOP)
    add("--long-prompt", choices=["cut", "error"], default="cut", help=LONG)
    flags.add_format(parser, FORMAT)
    flags.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Complete; returns 0.

    Raises:
        ValueError: flags that don't fit, a model or a prompt that can't be used.
        OSError: a file can't be read.
    """
    from vaswani_plugin.inference.language_model import LanguageModel

    options = {name: getattr(args, name) for name in OPTIONS}
    options |= {"nbest": args.samples, "length_penalty": args.lenpen, "long": args.long_prompt}
    options |= {"no_repeat_ngram": args.no_repeat_ngram_size}
    model = LanguageModel.from_pretrained(
        args.model, data=args.data_bin, device=flags.chosen_device(args)
    )
    prompts = args.prompts or LocatedLines(["-"])
    if max(args.beam, args.samples) == 1 and args.format == "text" and sys.stdout.isatty():
        for number, prompt in enumerate(prompts, start=1):
            _write(prompt)
            completed = model.write(prompt, _write, number=number, **options)
            _write("\n")
            _warn(completed)
        return 0
    is_typed = not args.prompts and sys.stdin.isatty()
    found = model.stream(prompts, buffer=1 if is_typed else BUFFER, **options)
    for number, completed in enumerate(found, start=1):
        _warn(completed)
        lines = [completed.prompt + one.text for one in completed.continuations]
        lines = [_as_json(number, completed)] if args.format == "json" else lines
        _write("".join(f"{line}\n" for line in lines))
    return 0


def _write(text: str) -> None:
    print(text, end="", flush=True)


def _warn(completed: "CompletedPrompt") -> None:
    for warning in completed.warnings:
        print(message_line(f"vaswani complete: {warning}"), file=sys.stderr)


def _as_json(number: int, completed: "CompletedPrompt") -> str:
    keys = {"text": "text", "tokens": "tokens", "log_probabilities": "token_scores"}
    keys |= {"score": "score", "ended": "ended"}
    found = [{key: getattr(x, name) for key, name in keys.items()} for x in completed.continuations]
    entry = {"line": number, "prompt": completed.prompt, "prompt_tokens": completed.prompt_tokens}
    return json.dumps(entry | {"completions": found})
