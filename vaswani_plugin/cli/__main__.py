"""The `vaswani` command: a table of commands, each a function of a module of this package.

A module is imported only when one of its commands runs or is listed.
"""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module

from vaswani_plugin import __version__
from vaswani_plugin.cli.command import make_parser, summary
from vaswani_plugin.errors import UserError
from vaswani_plugin.files.programs import exit_code

COMMANDS = {
    **dict.fromkeys(("archs", "user-dir"), "archs"),
    **dict.fromkeys(("bleu", "evalb", "rouge", "rescore"), "scores"),
    **dict.fromkeys(("complexity", "positions", "cost", "curves"), "paper"),
    **dict.fromkeys(("translate", "serve", "attention"), "translation"),
    **dict.fromkeys(("summarize", "parse", "lm", "complete"), "language"),
    **dict.fromkeys(("average", "import", "export", "card"), "models"),
}
"""By command, in the order of the listing: its module of vaswani_plugin.cli."""
PROGRAM = "vaswani"
NEEDS_FAIRSEQ = (
    "this command needs fairseq, which is not installed: run `bash recipes/lib/env.sh` in a "
    "checkout and use its .venv, or run `pip install '.[train]'` and then "
    "`READTHEDOCS=1 pip install --no-deps --no-build-isolation fairseq-fixed`"
)


def load_command(name: str) -> Callable[..., None]:
    """The function of a command that is in `COMMANDS`."""
    module = import_module(f"vaswani_plugin.cli.{COMMANDS[name]}")
    return getattr(module, "import_" if name == "import" else name.replace("-", "_"))


def overview() -> str:
    """The text of ``vaswani --help``: every command with its first sentence."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {summary(load_command(name))}" for name in COMMANDS]
    usage = f"usage: {PROGRAM} <command> [arguments], {PROGRAM} --version"
    details = f"'{PROGRAM} <command> --help' shows a command's arguments and an example."
    return "\n".join([usage, "", "commands:", *rows, "", details])


def command_parser(name: str) -> argparse.ArgumentParser:
    """The argument parser of a command."""
    return make_parser(f"{PROGRAM} {name}", load_command(name))


def main(argv: list[str] | None = None) -> int:
    """Run ``vaswani argv`` (None: the arguments of the process), and return the exit code.

    It is 0, 1 for an error that the user can correct, 2 for a wrong command line (which argparse
    raises as SystemExit), 130 after Ctrl-C, 141 after a closed pipe.
    """
    argv = sys.argv[1:] if argv is None else argv
    name, is_help = argv[0] if argv else "", argv[:1] in (["-h"], ["--help"])
    if name == "--version":
        print(PROGRAM, __version__)
        return 0
    if not is_help and name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"{name!r}: did you mean {close[0]!r}?" if close else f"{name!r}:"
        error = f"{PROGRAM}: error: unknown command {hint} The commands are {', '.join(COMMANDS)}"
        print(error if argv else overview(), file=sys.stderr)
        return 2

    def work() -> None:
        args = None if is_help else command_parser(name).parse_args(argv[1:])
        # Importing fairseq sets the root logger to DEBUG, and every library then logs.
        level = (os.environ.get("LOGLEVEL") or "WARNING").upper()
        if level not in logging.getLevelNamesMapping():
            raise UserError(f"LOGLEVEL={level}: must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
        logging.getLogger().setLevel(level)
        if args is None:
            print(overview())
            return
        try:
            load_command(name)(**vars(args))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "fairseq":
                raise
            raise UserError(NEEDS_FAIRSEQ) from error

    return exit_code(work, f"{PROGRAM} {name}")


if __name__ == "__main__":
    sys.exit(main())
