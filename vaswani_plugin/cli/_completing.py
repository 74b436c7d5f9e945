"""What `vaswani complete` does once its flags are read: prompts in, completions out."""

import argparse
import sys

import torch

from vaswani_plugin.cli._completer import Completer
from vaswani_plugin.cli._flags import processor
from vaswani_plugin.cli._lines import read_raw
from vaswani_plugin.cli._lm_model import load_model
from vaswani_plugin.inference.batching import in_buffers
from vaswani_plugin.search.options import SearchOptions

BUFFER = 64


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
