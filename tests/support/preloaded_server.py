"""The server of preloaded.py: imports packages once, then runs each program in a fork.

    preloaded_server.py SOCKET PACKAGE

PACKAGE is what it imports: "fairseq" with all that fairseq's commands import, "torch" alone, or
"text", the packages that data-prep/ needs. It ends when its standard input is closed.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from preloaded_client import read_line, start_settings


def _serve(path: str, package: str) -> None:
    """Fork a child for each request until standard input is closed. Returns in a child only."""
    given = dict(os.environ)
    _preload(package)
    _keep_compiled(str(Path(path).parent / "bytecode"))
    added = {name: value for name, value in os.environ.items() if name not in given}
    selector = selectors.DefaultSelector()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(8)
    os.rename(f"{path}.new", path)  # a client that finds it can connect
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    for stream in (listener, sys.stdin, awake):
        selector.register(stream, selectors.EVENT_READ)
    children: dict[socket.socket, int] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                for child in children.values():
                    os.kill(child, signal.SIGKILL)
                os._exit(0)
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                child = _fork(connection, [listener, *children], given, added)
                if child is None:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    selector.close()
                    return
                if child:
                    children[connection] = child
                    selector.register(connection, selectors.EVENT_READ)
            elif key.fileobj is awake:
                os.read(awake, 4096)
                _reap(children, selector)
            elif key.fileobj in children:  # the client has gone: so does the program
                connection = key.fileobj
                selector.unregister(connection)
                os.kill(children.pop(connection), signal.SIGKILL)
                connection.close()


def _fork(
    connection: socket.socket, others: list, given: dict[str, str], added: dict[str, str]
) -> int | None:
    """Read a request and fork: its process, 0 where the client wants none, None in the child.

    Args:
        connection: to the client.
        others: what the child closes besides.
        given: the environment at the server's start.
        added: what the imports have added to it, such as sklearn's settings of OpenMP.
    """
    connection.sendall(json.dumps([start_settings(given), added]).encode() + b"\n")
    byte, received, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(12))
    if not byte:
        connection.close()
        return 0
    streams = array.array("i")
    streams.frombytes(received[0][2])
    request = json.loads(read_line(connection, 65536))
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        connection.sendall(b"%d\n" % child)
        return child
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for other in (connection, *others):
        other.close()
    os.chdir(request["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    os.environ.clear()
    os.environ.update(added | request["environment"])
    sys.argv = request["arguments"]
    return None


def _reap(children: dict[socket.socket, int], selector: selectors.BaseSelector) -> None:
    """Tell the clients of all children that have ended how they ended."""
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not child:
            return
        for connection in [c for c, running in children.items() if running == child]:
            code = os.waitstatus_to_exitcode(status)
            connection.sendall(b"%d\n" % code)
            selector.unregister(connection)
            del children[connection]
            connection.close()


def _program() -> None:
    """In the child: run what `sys.argv` names as Python would."""
    place = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        sys.path[0:1] = ["" if sys.flags.safe_path else os.getcwd(), *place]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif sys.argv[0] == "-c":
        code = sys.argv.pop(1)
        sys.path[0:1] = ["", *place]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(code, "<string>", "exec"), main.__dict__)
    else:
        sys.path[0:1] = [str(Path(sys.argv[0]).resolve().parent), *place]
        runpy.run_path(sys.argv[0], run_name="__main__")


def _end(program: Callable[[], None]) -> NoReturn:
    """Run it, then end as Python does, but leave the memory to the system: that takes a second."""
    status = 0
    try:
        program()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 255)


def _keep_compiled(folder: str) -> None:
    """Let the children share what they compile, in a folder outside the checkout."""
    files = importlib._bootstrap_external
    usual = files.cache_from_source

    def cache_from_source(path: str, *args, **options) -> str:
        installed = path.startswith((sys.prefix, sys.base_prefix))  # that is compiled already
        sys.pycache_prefix = None if installed else folder
        return usual(path, *args, **options)

    files.cache_from_source = cache_from_source
    sys.dont_write_bytecode = False


def _preload(package: str) -> None:
    """Import the packages of `package`; what a command itself imports is left to the program."""
    if package == "text":
        import argparse  # noqa: F401
        import tempfile  # noqa: F401

        import numpy  # noqa: F401
        import sacrebleu  # noqa: F401
        import sacremoses  # noqa: F401
    elif package == "torch":
        import torch  # noqa: F401

        with contextlib.suppress(ImportError):
            import starlette  # noqa: F401 for the service
            import uvicorn  # noqa: F401
    else:
        _preload_fairseq()
    gc.freeze()  # the children share these objects and never collect them


def _preload_fairseq() -> None:
    import logging

    with contextlib.suppress(ImportError):  # half a second of each plot
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401
    import sacrebleu  # noqa: F401
    import sacremoses  # noqa: F401 half a second of each tokenization
    import torch._dynamo  # noqa: F401 the first optimizer of a process imports it, for a second

    logging.disable()
    with warnings.catch_warnings(action="ignore"):
        for name in ("eval_lm", "generate", "hydra_train", "interactive", "preprocess", "train"):
            importlib.import_module(f"fairseq_cli.{name}")
        _read_flags_once()
    for name in [name for name in sys.modules if name.startswith("fairseq_cli")]:
        del sys.modules[name]
    logging.disable(logging.NOTSET)
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)


def _read_flags_once() -> None:
    """Fill the caches of hydra's parser: without them flags take most of a small training."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parsers = (
        options.get_training_parser(),
        options.get_generation_parser(),
        options.get_interactive_generation_parser(),
        options.get_eval_lm_parser(),
    )
    for parser in parsers:
        flags = ["data", "--arch", "transformer_tiny"] if parser is parsers[0] else ["data"]
        convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, flags))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
    _end(_program)
