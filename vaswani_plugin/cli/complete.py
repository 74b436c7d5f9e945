"""`vaswani complete`: a language model goes on where a prompt stops.

The model reads a prompt behind the end of sentence that begins a line in training, so that an empty
prompt begins a text.
"""

import argparse
from pathlib import Path

from vaswani_plugin.cli._flags import add_length_penalty, add_processor, count, share
from vaswani_plugin.cli._start import start_fairseq

HELP = "complete texts with a language model"
EXAMPLE = 'vaswani complete --model work/lm/model --sampling --top-p 0.9 "The history of"'
MAX_NEW_TOKENS = 100


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
    start_fairseq()
    from vaswani_plugin.cli import _completing

    return _completing.run(args)
