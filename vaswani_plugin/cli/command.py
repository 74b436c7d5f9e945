"""A command is a function; its parser is made from its signature, its help from its docstring.

    def average(*, inputs: list[Path], last: Count | None = None) -> None:
        '''Average the weights of several checkpoints.

        Example: vaswani average --inputs checkpoints --last 5

        Args:
            inputs: checkpoint files, or one folder.
            last: the checkpoints of the last epochs.
        '''

A parameter before the `*` is a positional argument, one after it a flag, which must be given where
the parameter has no default. `bool` is a switch, `Literal` a choice, `list` takes several values.
`Annotated` adds the function that reads a value, a metavar in capitals, other names of the flag
("--path"), "append" for a flag that may be repeated, or a tuple of metavars of several values.
"""

import argparse
import inspect
import json
import logging
import os
import re
import stat
import sys
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from vaswani_plugin import register
from vaswani_plugin.errors import COUNT, NATURAL, PROBABILITY, RANGES, Range, UserError
from vaswani_plugin.files.lines import decode_lines, open_binary, shown_name
from vaswani_plugin.files.programs import STANDARD_OUTPUT, message_line

if TYPE_CHECKING:
    import torch

Number = TypeVar("Number", int, float)
Function = TypeVar("Function", bound=Callable[..., None])


def _reader(name: str, allowed: Range) -> Callable[[str], Any]:
    """A type of flags. argparse shows its errors as one line that names the flag."""

    def read(text: str) -> Any:
        value: Any = text
        with suppress(ValueError):
            value = allowed.kind(text)
        if rule := allowed.refusal(value):
            raise argparse.ArgumentTypeError(f"{message_line(text)}: must be {rule}")
        return value

    read.__name__ = name
    return read


whole, finite = _reader("whole", Range(int)), _reader("finite", Range(float))
positive_int, probability = _reader("positive_int", COUNT), _reader("probability", PROBABILITY)
non_negative_int = _reader("non_negative_int", NATURAL)
non_negative = _reader("non_negative", Range(float, lambda x: x >= 0, "at least 0"))
fraction = _reader("fraction", Range(float, lambda x: 0 <= x <= 1, "from 0 to 1"))
positive = _reader("positive", Range(float, lambda x: x > 0, "above 0"))
perplexity = _reader("perplexity", Range(float, lambda p: p >= 1, "at least 1"))
size = _reader("size", Range(int, lambda n: 1 <= n <= 1_000_000, "from 1 to 1,000,000"))

Count = Annotated[int, positive_int]
Natural = Annotated[int, non_negative_int]
Folder = Annotated[Path, "DIR"]
Place = Annotated[Path, "PATH"]
Size = Annotated[int, size]
Format = Literal["text", "json"]

READERS: dict[type | Range, Callable[[str], Any]] = {int: whole, float: finite}
READERS |= {COUNT: positive_int, NATURAL: non_negative_int, PROBABILITY: probability}
METAVARS = {int: "N", float: "X", Path: "FILE", str: "TEXT"}
SHARED = {
    "model": "the bundle: a folder model/ of a recipe",
    "output": "write the results to this file, plain or .gz (default: standard output)",
    "format": "output format",
    "beam": "beam size (default: the bundle's; 4 if it names none)",
    "lenpen": "exponent alpha of the length penalty ((5 + length) / 6)^alpha",
    "buffer": "read N lines, fewer where no more come at once, then process them in batches of "
    "similar length (default: 256; of translate 1,000)",
    "cpu": "compute on the CPU even if a GPU exists",
    "top_k": "sample from the K most probable tokens",
    "top_p": "sample from the fewest tokens whose probabilities sum to P or more",
    "temperature": "divides the logits before sampling (default: 1)",
    "no_repeat_ngram_size": "never repeat N successive tokens (default: 0, no limit)",
    "threads": "CPU threads (default: PyTorch's choice)",
    "fp16": "compute in float16 (GPU only)",
    "bf16": "compute in bfloat16 (GPU, or PyTorch on a CPU with AVX512_BF16 or AMX)",
}
"""Help of flags that several commands share, where a docstring doesn't describe them."""


def read_number(flag: str, text: str, read: Callable[[str], Number]) -> Number:
    """The number of a part of a flag's value, as `read`, a type of flags, takes it."""
    try:
        return read(text)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{flag}: {error}") from None


def one_of(*names: str, required: bool = False) -> Callable[[Function], Function]:
    """Decorates a command: at most one of these flags may be given; exactly one if `required`."""

    def mark(function: Function) -> Function:
        function.__dict__.setdefault("exclusive", []).append((names, required))
        return function

    return mark


def summary(function: Callable[..., None]) -> str:
    """The first sentence of a command's docstring, as the list of commands shows it."""
    return (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")


def make_parser(program: str, function: Callable[..., None]) -> argparse.ArgumentParser:
    """The parser of a command; its values are the function's keyword arguments."""
    described, example, texts = _read_docstring(function)
    parser = argparse.ArgumentParser(
        prog=program,
        description=described,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    places: dict[str, Any] = {}
    for names, required in vars(function).get("exclusive", []):
        places |= dict.fromkeys(names, parser.add_mutually_exclusive_group(required=required))
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        names, options = _argument(name, parameter, hints[name])
        text = " ".join((texts.get(name) or SHARED[name]).split())
        if "choices" in options and options["metavar"]:
            text += f": {', '.join(options['choices'])}"
        text = text.replace("%", "%%")
        if str(options.get("default")) not in ("None", "False", "") and "default:" not in text:
            text += " (default: %(default)s)"
        places.get(name, parser).add_argument(*names, **options, help=text)
    return parser


def _argument(name: str, parameter: inspect.Parameter, hint: Any) -> tuple[list[str], dict]:
    """The names and the other arguments of `ArgumentParser.add_argument`."""
    is_flag = parameter.kind is parameter.KEYWORD_ONLY
    is_required = parameter.default is parameter.empty
    options: dict[str, Any] = {} if is_required else {"default": parameter.default}
    kind, details = _plain(hint)
    several = typing.get_origin(kind) is list
    if several:
        kind, inner = _plain(typing.get_args(kind)[0])
        details += inner
    if kind is bool:
        options["action"] = "store_true"
    else:
        options |= {"type": READERS.get(kind, kind), "metavar": METAVARS[kind]}
    if "append" in details:
        options["action"] = "append"
    elif several:
        options["nargs"] = "+" if is_flag or is_required else "*"
    for detail in details:
        if callable(detail):
            options["type"] = detail
        elif isinstance(detail, tuple):  # metavars, one for each of as many values
            options |= {"metavar": detail, "nargs": len(detail)}
        elif isinstance(detail, list):
            options |= {"choices": detail, "metavar": None if len(detail) < 7 else "NAME"}
        elif detail.isupper() or "=" in detail:
            options["metavar"] = detail
    if name in RANGES and kind in (int, float):
        options["type"] = READERS.get(RANGES[name]) or _reader(name, RANGES[name])
    if not is_flag:
        options |= {} if is_required or several else {"nargs": "?"}
        return [name], options
    options |= {"dest": name, "required": is_required}
    flags = [detail for detail in details if isinstance(detail, str) and detail[:2] == "--"]
    return flags or [f"--{name.replace('_', '-')}"], options


def _plain(hint: Any) -> tuple[Any, list]:
    """The type itself, without None, and the details of `Annotated`; choices are one of these."""
    details: list[Any] = []
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
    if typing.get_origin(hint) is Annotated:
        hint, *details = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint, inner = _plain(hint)
        details = inner + details
    if typing.get_origin(hint) is Literal:
        return str, [list(typing.get_args(hint)), *details]
    return hint, details


def _read_docstring(function: Callable[..., None]) -> tuple[str, str, dict[str, str]]:
    """What is said of the command, its example, and what is said of each parameter."""
    text, *sections = re.split(r"\n\n(?=Args:|Raises:)", inspect.getdoc(function) or "")
    described, _, example = text.partition("\n\nExample: ")
    texts: dict[str, str] = {}
    for section in sections:
        if section.startswith("Args:"):
            for entry in re.split(r"\n {4}(?=\w+: )", section)[1:]:
                name, _, said = entry.partition(": ")
                texts[name] = said.rstrip(".")
    return described, example, texts


def chosen_device(cpu: bool, threads: int | None) -> "torch.device":
    """The device to compute on: a GPU if there is one, unless `cpu`; sets PyTorch's threads."""
    import torch  # not every command with these flags needs it

    if threads:
        torch.set_num_threads(threads)
    return torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")


class PipedLines:
    """The lines of a pipe or a terminal, as bytes; tells whether the next one is there."""

    AT_ONCE = 0.05  # seconds within which a line comes at once

    def __init__(self, stream: IO[bytes]) -> None:
        self.file, self.ended = stream.fileno(), False
        self.lines: deque[bytes] = deque()
        self.rest = b""

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines, and waits for each."""
        while self.lines or not self.ended:
            if self.lines:
                yield self.lines.popleft()
            else:
                self._read()

    def at_hand(self) -> bool:
        """Returns whether the next line, or the end, is there, or comes at once."""
        while not (self.lines or self.ended):
            if not select([self.file], [], [], self.AT_ONCE)[0]:
                return False
            self._read()
        return True

    def _read(self) -> None:
        data = os.read(self.file, 1 << 18)
        *whole, self.rest = (self.rest + data).split(b"\n")
        self.lines.extend(line + b"\n" for line in whole)
        self.ended = not data
        self.lines.extend([self.rest] if self.ended and self.rest else [])


def is_piped(stream: IO[bytes]) -> bool:
    """Returns whether a stream is that of a pipe, a terminal or a socket, no file's."""
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # of no file at all, as a test's standard input
        return False


class LocatedLines:
    """The lines of several files in order; knows the file and the line number of each."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self._starts: list[tuple[int, str]] = []
        """For each file so far: the number of lines before it, and its name."""
        self._piped: PipedLines | None = None

    def at_hand(self) -> bool:
        """Whether the next line is there: otherwise a stream answers those that it has."""
        return self._piped is None or self._piped.at_hand()

    def __iter__(self) -> Iterator[str]:
        """Yield the lines."""
        count = 0
        for path in self.paths:
            self._starts.append((count, shown_name(path)))
            with open_binary(path) as stream:
                self._piped = None
                if is_piped(stream) and not path.endswith(".gz"):
                    self._piped = PipedLines(stream)
                for line in decode_lines(self._piped or stream, shown_name(path)):
                    count += 1
                    yield line

    def place(self, number: int) -> str:
        """Return ``FILE:LINE`` of a yielded line; `number` counts over all files, from 1 on."""
        before, name = next(start for start in reversed(self._starts) if start[0] < number)
        return f"{name}:{number - before}"


def text_lines(inputs: list[str] | None, output: Path | None = None) -> LocatedLines:
    """The lines of text files, or of standard input; writing `output` must replace none of them."""
    from vaswani_plugin.files.outputs import check_outputs

    inputs = [path for path in inputs or ["-"] if path == "-" or os.stat(path)]  # or raise
    check_outputs("--output", [output, output and f"{output}.part"], inputs)  # see `open_output`
    return LocatedLines(inputs)


def write_results(
    lines: LocatedLines,
    output: Path | None,
    results: Iterable,
    shown: Callable[[int, Any], list[str]],
    remedy: str = "",
) -> None:
    """Write the results of lines, one of each, as they come, under a progress bar.

    `output` None is standard output. `shown` gives the lines to write for the number of a line
    (from 1 on) and its result, `remedy` says what to do about a line that is too long.
    """
    from vaswani_plugin.files.outputs import line_progress, open_output
    from vaswani_plugin.inference.runner import TextTooLong

    with open_output(output) as write, line_progress(lines.paths, output) as bar:
        try:
            for number, result in enumerate(results, start=1):
                write(shown(number, result))
                bar.update()
        except TextTooLong as error:
            raise UserError(
                f"{lines.place(error.number)}: a sentence of {error.count} subwords, the model "
                f"takes {error.longest}: {remedy}"
            ) from error


def start_fairseq() -> None:
    """Import fairseq with the plugin registered, and keep the level of the log."""
    root = logging.getLogger()
    level = root.level
    try:
        register()
    finally:
        root.setLevel(level)  # fairseq sets it to DEBUG for every library


def show(result: Any, text: str, format: str) -> None:
    """Print a result: as JSON, or this text; to stderr where the output itself has stdout."""
    taken = isinstance(result, dict) and result.get("output") in STANDARD_OUTPUT
    print(json.dumps(result) if format == "json" else text, file=sys.stderr if taken else None)
