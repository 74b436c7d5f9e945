"""`vaswani complete`: a language model continues prompts.

The model reads an end of sentence before the prompt, as before each line in training. So an empty
prompt begins a text.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli._flags import add_length_penalty, add_processor, count, processor, share
from vaswani_plugin.cli._lines import RawLines
from vaswani_plugin.decoding import MAX_NEW_TOKENS
from vaswani_plugin.text.messages import message_line

if TYPE_CHECKING:
    from vaswani_plugin.inference.completion import CompletedPrompt

HELP = "complete texts with a language model"
EXAMPLE = 'vaswani complete --model work/lm/model --sampling --top-p 0.9 "The history of"'
BUFFER = 64
PROMPT = "beginning of a text, of a line or more (default: each line of standard input is a prompt)"
TEMPERATURE = "below 1 makes likely tokens likelier, above 1 less so (default: 1)"
SAMPLES = "draw N completions of each prompt; without --sampling, the N best of the beam"
FORMAT = """json: an object a line with line, prompt, prompt_tokens (those read) and completions
(text, tokens, log_probabilities, score, ended); natural logarithms, under the temperature, that of
the end last where the model ended the text"""
DATA = """with a checkpoint: the folder of its dictionary; without a preprocessing.json in it,
prompts are tokens with blanks between them"""
SEED = """makes the samples of the n-th prompt depend on this, n and the prompt alone; prompts are
then completed one by one, not in batches (default: by chance)"""
STOP = """end: at the end of a line, as the training text has them; never: go on with the next line
until the text is cut (default: %(default)s)"""
LONG = """of a prompt that leaves no positions for the new tokens, read the last tokens that do,
with a warning; or stop (default: %(default)s)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("prompts", nargs="*", metavar="PROMPT", help=PROMPT)
    add("--model", type=Path, required=True, metavar="PATH", help="a bundle, or a checkpoint")
    add("--data-bin", type=Path, metavar="DIR", help=DATA)
    search = parser.add_mutually_exclusive_group()
    search.add_argument("--beam", type=count, default=1, metavar="W", help="width (1: greedy)")
    search.add_argument("--sampling", action="store_true", help="draw each token by chance")
    add_length_penalty(parser, 0.0, "of a beam, ")
    top = parser.add_mutually_exclusive_group()
    top.add_argument("--top-k", type=count, metavar="K", help="of the K likeliest alone")
    top.add_argument("--top-p", type=share, metavar="P", help="of the fewest that reach P")
    add("--temperature", type=float, metavar="T", help=TEMPERATURE)
    add("--seed", type=int, help=SEED)
    add("--samples", type=count, default=1, metavar="N", help=SAMPLES)
    add("--max-new-tokens", type=count, metavar="N", help=f"(default: {MAX_NEW_TOKENS}, or half of "
        "the model's positions where these are fewer)")  # fmt: skip
    add("--min-new-tokens", type=int, default=0, metavar="N", help="before a text may end")
    add("--no-repeat-ngram-size", type=int, default=0, metavar="N", help="repeat no N tokens")
    add("--stop", choices=["end", "never"], default="end", help=STOP)
    add("--long-prompt", choices=["cut", "error"], default="cut", help=LONG)
    add("--format", choices=["text", "json"], default="text", help=FORMAT)
    add_processor(parser)


def run(args: argparse.Namespace) -> int:
    """Complete; returns 0.

    Raises:
        ValueError: flags that don't fit, a model or a prompt that can't be used.
        OSError: a file can't be read.
    """
    from vaswani_plugin.interchange.language_model import load_language_model

    is_json = args.format == "json"
    options = {name: getattr(args, name) for name in ("beam", "sampling", "top_k", "top_p", "seed")}
    options |= {"temperature": args.temperature, "stop": args.stop, "long": args.long_prompt}
    options |= {"nbest": args.samples, "length_penalty": args.lenpen}
    options |= {"max_new_tokens": args.max_new_tokens, "min_new_tokens": args.min_new_tokens}
    options |= {"no_repeat_ngram": args.no_repeat_ngram_size}
    model = load_language_model(args.model, data=args.data_bin, device=processor(args))
    prompts = args.prompts or RawLines(["-"])
    if max(args.beam, args.samples) == 1 and not is_json and sys.stdout.isatty():
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
        _write("".join(f"{x}\n" for x in ([_as_json(number, completed)] if is_json else lines)))
    return 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _warn(completed: "CompletedPrompt") -> None:
    for warning in completed.warnings:
        print(message_line(f"vaswani complete: {warning}"), file=sys.stderr)


def _as_json(number: int, completed: "CompletedPrompt") -> str:
    entry = {"line": number, "prompt": completed.prompt, "prompt_tokens": completed.prompt_tokens}
    keys = {"text": "text", "tokens": "tokens", "log_probabilities": "token_scores"}
    keys |= {"score": "score", "ended": "ended"}
    found = [
        {key: getattr(one, name) for key, name in keys.items()} for one in completed.continuations
    ]
    return json.dumps(entry | {"completions": found})
