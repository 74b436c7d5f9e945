"""`vaswani complete`: a language model goes on where a prompt stops.

The model reads a prompt behind the end of sentence that begins a line in training, so that an empty
prompt begins a text.
"""

import argparse
import sys
from pathlib import Path

import torch

from vaswani_plugin.cli._completer import MAX_NEW_TOKENS, Completer
from vaswani_plugin.cli._flags import add_length_penalty, add_processor, count, processor, share
from vaswani_plugin.cli._lm_model import load_model
from vaswani_plugin.cli._sentences import in_buffers, read_raw
from vaswani_plugin.search.options import SearchOptions

HELP = "complete texts with a language model"
EXAMPLE = 'vaswani complete --model work/lm/model --sampling --top-p 0.9 "The history of"'
BUFFER = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "prompts",
        nargs="*",
        metavar="PROMPT",
        help="beginning of a text, of one line or more (default: each line of standard input is a "
        "prompt)",
    )
    parser.add_argument(
        "--model", type=Path, required=True, metavar="PATH", help="a bundle, or a checkpoint"
    )
    parser.add_argument(
        "--data-bin",
        type=Path,
        metavar="DIR",
        help="with a checkpoint: the folder of its dictionary; without a preprocessing.json in it, "
        "prompts are tokens with blanks between them",
    )
    search = parser.add_mutually_exclusive_group()
    search.add_argument(
        "--beam", type=count, default=1, metavar="W", help="width; 1 is greedy (default: 1)"
    )
    search.add_argument("--sampling", action="store_true", help="draw each token by chance")
    add_length_penalty(parser, 0.0, "of a beam, ")
    of_sampling = parser.add_mutually_exclusive_group()
    of_sampling.add_argument("--top-k", type=count, metavar="K", help="of the K likeliest alone")
    of_sampling.add_argument(
        "--top-p",
        type=share,
        metavar="P",
        help="of the fewest likeliest whose probabilities reach P together",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="below 1 makes likely tokens likelier, above 1 less so (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="makes the samples of the n-th prompt depend on this, n and the prompt alone; prompts "
        "are then completed one by one, not in batches (default: by chance)",
    )
    parser.add_argument(
        "--samples",
        type=count,
        default=1,
        metavar="N",
        help="draw N completions of each prompt; without --sampling, the N best of the beam",
    )
    parser.add_argument(
        "--max-new-tokens",
        type=count,
        metavar="N",
        help=f"after which a text is cut (default: {MAX_NEW_TOKENS}, or half of the model's "
        "positions where these are fewer)",
    )
    parser.add_argument(
        "--stop",
        choices=["end", "never"],
        default="end",
        help="end: at the end of a line, as the training text has them; never: go on with the next "
        "line until the text is cut (default: %(default)s)",
    )
    parser.add_argument(
        "--long-prompt",
        choices=["cut", "error"],
        default="cut",
        help="of a prompt that leaves no positions for the new tokens, read the last tokens that "
        "do, with a warning; or stop (default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="json: an object a line with line, prompt, prompt_tokens (those read) and completions "
        "(text, tokens, log_probabilities, score, ended); natural logarithms, under the "
        "temperature, that of the end last where the model ended the text",
    )
    add_processor(parser)


def run(args: argparse.Namespace) -> int:
    """Complete; returns 0.

    Raises:
        ValueError: flags that don't fit, a model or a prompt that can't be used.
        OSError: a file can't be read.
    """
    options = search_options(args)
    device = processor(args)
    model = load_model(args.model, args.data_bin, device)
    if model.loss_after is not None:
        raise ValueError(
            f"{args.model} learned only what follows {model.loss_after} in a line: "
            "give its bundle to vaswani summarize"
        )
    completer = Completer(model, args, options)
    torch.seed()
    texts = args.prompts or (line for _, line in read_raw(["-"]))
    prompts = (completer.prompt(*numbered) for numbered in enumerate(texts, start=1))
    if options.beam == 1 and args.format == "text" and sys.stdout.isatty():
        for prompt in prompts:
            completer.stream(prompt, sys.stdout)
        return 0
    one_by_one = args.seed is not None or (not args.prompts and sys.stdin.isatty())
    for group in in_buffers(prompts, 1 if one_by_one else BUFFER):
        for prompt, found in zip(group, completer.complete(group), strict=True):
            for line in completer.shown(prompt, found[: args.samples]):
                print(line)
        sys.stdout.flush()
    return 0


def search_options(args: argparse.Namespace) -> SearchOptions:
    """What the flags ask of the search.

    Raises:
        ValueError: they don't fit together.
    """
    if not args.sampling:
        for name in ("top_k", "top_p", "temperature", "seed"):
            if getattr(args, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} goes with --sampling")
        if args.samples > args.beam:
            raise ValueError(
                f"--samples {args.samples}: a beam of {args.beam} finds no more than {args.beam}; "
                f"give --beam {args.samples} or --sampling"
            )
    return SearchOptions(
        beam=args.samples if args.sampling else args.beam,
        nbest=args.samples,
        lenpen=args.lenpen,
        min_len=0,
        sampling=args.sampling,
        sampling_topk=args.top_k or -1,
        sampling_topp=args.top_p or -1.0,
        temperature=1.0 if args.temperature is None else args.temperature,
    )
