"""Commands as users run them, without a new interpreter: in this process, or in a fork of it.

    vaswani("bleu", ...)                       `main(argv)` in this process
    in_fork("-m", "fairseq_cli.train", ...)    a module, a script or a program (-c) in a fork
    Fork(function)                             a function in a fork, to be watched or killed
    run_python(...)                            a new Python, which takes seconds to import torch

A fork has arguments, environment, folder and streams of its own, and leaves nothing behind here.
"""

import gc
import importlib
import logging
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO
from unittest.mock import patch

from vaswani_plugin.cli.__main__ import main

REPO = Path(__file__).resolve().parents[2]
WARNING_FILTERS = list(warnings.filters)


@dataclass(frozen=True)
class Ended:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of a command that ended with 1, without its newline."""
        assert self.code == 1, (self.code, self.err)
        assert self.err.count("\n") == 1 and self.err.startswith("vaswani "), self.err
        assert ": error: " in self.err
        return self.err[:-1]


def vaswani(*arguments: object, stdin: bytes = b"", stdout: BinaryIO | None = None) -> Ended:
    """Run `vaswani` here on these arguments and bytes; `stdout` gets the output, such as a pipe."""
    before = logging.getLogger().level
    with _files(stdin) as (given, out, err):
        try:
            with _streams(given, stdout or out, err):
                code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            logging.getLogger().setLevel(before)
        return Ended(code, _text(out), _text(err))


@contextmanager
def _files(stdin: bytes) -> Iterator[list[BinaryIO]]:
    """Three files: the first holds `stdin`, the others are empty."""
    files = [tempfile.TemporaryFile() for _ in range(3)]
    files[0].write(stdin)
    files[0].seek(0)
    try:
        yield files
    finally:
        for file in files:
            file.close()


@contextmanager
def _streams(*files: BinaryIO) -> Iterator[None]:
    """Python's standard streams are these files."""
    modes = zip(files, ("rb", "wb", "wb"), strict=True)
    new = [os.fdopen(os.dup(file.fileno()), mode) for file, mode in modes]
    text = [TextIOWrapper(file, encoding="utf-8", errors="surrogateescape") for file in new]
    with patch.multiple(sys, stdin=text[0], stdout=text[1], stderr=text[2]):
        try:
            yield
        finally:
            for stream in text:
                try:
                    stream.close()
                except OSError:  # a full disk or a closed pipe, which the command has reported
                    continue


def _text(file: BinaryIO) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode("utf-8", errors="surrogateescape")


class Fork:
    """A fork that calls one function, as a program would; `files`: its standard streams."""

    def __init__(
        self,
        work: Callable[..., None],
        *arguments: object,
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        files: list[BinaryIO] | None = None,
    ) -> None:
        self._opened = nullcontext(files) if files else _files(stdin)
        self.files = self._opened.__enter__()
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # the fork's collector would copy every page that it looks at
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=self._begin, args=(work, arguments, cwd, env))
        self.process.start()
        self.pid = self.process.pid

    def _begin(self, work: Callable[..., None], arguments: tuple, cwd: object, env: object) -> None:
        os.setsid()
        for number, file in enumerate(self.files):
            os.dup2(file.fileno(), number)
        with _streams(*self.files):
            if cwd is not None:
                os.chdir(cwd)
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            _forget_pytest()
            if "torch" in sys.modules:  # OpenMP waits for ever for threads that a fork lacks
                sys.modules["torch"].set_num_threads(1)
            code = _exit_code(work, arguments)
        sys.exit(code)

    def wait(self, timeout: float = 300) -> subprocess.CompletedProcess:
        """Wait for its end: the exit code, negative for a signal, and its output; or kill it."""
        try:  # `join` with a timeout would wait for its children, too
            wait_for(lambda: self.process.exitcode is not None, timeout, self.output)
        except AssertionError:
            self.kill()
            raise
        _, out, err = self.files
        ended = subprocess.CompletedProcess([], self.process.exitcode, _text(out), _text(err))
        self._opened.__exit__(None, None, None)
        return ended

    def kill(self) -> None:
        """End it and what it has started."""
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()

    def wait_for(self, text: str, timeout: float = 120) -> None:
        """Wait until it has printed something."""
        wait_for(lambda: text in self.output(), timeout, self.output)

    def output(self) -> str:
        """What it has printed, errors at the end."""
        return _text(self.files[1]) + _text(self.files[2])


def wait_for(
    condition: Callable[[], object], seconds: float = 120, said: Callable[[], object] = str
) -> None:
    """Wait until a condition holds; otherwise fail with what `said` returns."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain: {said()}"
        time.sleep(0.005)


def python_command(*arguments: object) -> list[str]:
    """The command line of a new Python."""
    return [sys.executable, *map(str, arguments)]


def run_python(*arguments: object, **options) -> subprocess.CompletedProcess:
    """A new Python, as `subprocess.run` starts it: for tests of a start or a clean process."""
    return subprocess.run(python_command(*arguments), **options)


def in_fork(*arguments: object, timeout: float = 300, **options) -> subprocess.CompletedProcess:
    """Run in a `Fork` what ``python ARGUMENTS`` would: ``-m MODULE``, ``-c PROGRAM``, a script."""
    words = [str(argument) for argument in arguments]
    if words[0] == "-m" and words[1].startswith("fairseq_cli"):
        import_fairseq()
    return Fork(run_program, words, **options).wait(timeout)


def import_fairseq() -> None:
    """Import here, once, what each fork would import anew: fairseq's commands and the plugin."""
    import torch._dynamo  # noqa: F401 the first optimizer of a process imports it

    import vaswani_plugin

    level, handlers = logging.root.level, list(logging.root.handlers)
    for name in ("eval_lm", "generate", "hydra_train", "interactive", "preprocess", "train"):
        importlib.import_module(f"fairseq_cli.{name}")
    vaswani_plugin.register()
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers


def _forget_pytest() -> None:
    """In the fork: logs, warnings and errors go where Python sends them."""
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    importlib.reload(warnings)  # pytest records them
    warnings.filters[:] = WARNING_FILTERS
    sys.excepthook = sys.__excepthook__
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_code(work: Callable[..., None], arguments: tuple) -> int:
    try:
        work(*arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def run_program(words: list[str]) -> None:
    """In a fork: run what ``python WORDS`` would run."""
    if words[0] == "-m":
        for name in [name for name in sys.modules if name.startswith("fairseq_cli")]:
            del sys.modules[name]  # run as __main__, it sets up its log
        sys.argv = words[1:]
        if words[1].startswith("fairseq_cli"):
            install_plugin(words[1])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")


def install_plugin(command: str) -> None:
    """In a fork: what importing the plugin does in a process of this name, and nowhere else."""
    import torch

    from vaswani_plugin.fairseq_plugin import patches, trainer

    torch.set_num_threads(1)
    sys.argv[0] = str(Path("fairseq_cli") / command.rpartition(".")[2])
    patches.apply()
    trainer.install()
