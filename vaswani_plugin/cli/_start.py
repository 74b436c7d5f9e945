"""The start of a command that needs a model."""

import argparse
import logging
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vaswani_plugin import register
from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.processor import has_bfloat16

if TYPE_CHECKING:
    from vaswani_plugin.inference.translator import Translator

FASTER = (
    "vaswani: CTranslate2 is installed, which starts and decodes faster on a CPU: "
    "`vaswani export --to ctranslate2 --model MODEL --output NEW`, then --model NEW"
)


def start_fairseq() -> None:
    """Import fairseq with the plugin registered, and keep the level of the log."""
    root = logging.getLogger()
    level = root.level
    try:
        register()
    finally:
        root.setLevel(level)  # fairseq sets it to DEBUG for every library


def chosen_precision(args: argparse.Namespace, on_gpu: bool, by_torch: bool) -> str | None:
    """The name of the type that --fp16 or --bf16 asks for; None: the model's own.

    Args:
        args: of the command.
        on_gpu: whether a GPU computes.
        by_torch: whether PyTorch computes; on a CPU no other engine takes bfloat16.

    Raises:
        ValueError: a flag is given for a CPU that gains nothing from it.
    """
    if args.fp16 and not on_gpu:
        raise ValueError("--fp16 needs a GPU: leave it out on the CPU")
    if args.bf16 and not on_gpu and not (by_torch and has_bfloat16()):
        raise ValueError(
            "--bf16 needs a GPU, or PyTorch on a CPU with AVX512_BF16 or AMX: leave it out here"
        )
    return "float16" if args.fp16 else "bfloat16" if args.bf16 else None


def load_translator(args: argparse.Namespace, engine: str | None = None) -> "Translator":
    """Load the translator of --model that the flags of a device and a precision ask for.

    Importing torch takes a second, and CTranslate2 has no use for it.

    Args:
        args: of the command.
        engine: a value of --engine; None: the one that `vaswani export` made the bundle for.

    Raises:
        ValueError: flags that don't fit, or a bundle that can't be used.
        OSError: a file can't be read.
    """
    from vaswani_plugin.inference.engine import engine_of
    from vaswani_plugin.inference.translator import Translator

    chosen = {"fairseq": "torch"}.get(engine, engine) or engine_of(args.model)
    if chosen == "ctranslate2":
        from vaswani_plugin.inference.ctranslate2_engine import has_gpu

        device = "cuda" if not args.cpu and has_gpu() else "cpu"
    else:
        device = flags.chosen_device(args).type
        if chosen == "torch" and engine is None and device == "cpu":
            _suggest_ctranslate2()
    precision = chosen_precision(args, device == "cuda", chosen == "torch")
    return Translator.from_pretrained(
        args.model, device=device, dtype=precision, threads=args.threads, engine=chosen
    )


def _suggest_ctranslate2() -> None:
    """Tell a person at a terminal, who waits for PyTorch on the CPU, that CTranslate2 is here."""
    if sys.stderr.isatty() and find_spec("ctranslate2"):
        print(FASTER, file=sys.stderr)
