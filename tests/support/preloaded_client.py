"""The client of preloaded.py: has a server run a Python program with this process's streams.

    preloaded_client.py SOCKET PYTHON ARGUMENTS...
    preloaded_client.py SOCKET,TEXT_SOCKET PYTHON ARGUMENTS...

The second form takes the server of TEXT_SOCKET for programs that work on text alone. Where a
variable that Python or torch reads at its start differs from the server's, it starts a new Python
instead. A test starts hundreds: it imports little.
"""

import array
import json
import os
import signal
import socket
import sys

READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "GLIBC_", "MALLOC_", "OMP_", "MKL_", "KMP_"),
    *("DNNL_", "ONEDNN_", "ATEN_", "LRU_", "TORCH", "CUDA_", "HYDRA_"),
)
TEXT_SCRIPTS = ("parsing_scores", "steps")
"""Scripts of recipes that import neither torch nor fairseq."""
TEXT_COMMANDS = ("archs", "bleu", "evalb", "rouge")
"""Commands of `vaswani` that import neither."""
READ_LATER = ("PYTHONPATH", "TORCHELASTIC_", "TORCH_NCCL_")  # torchrun sets the last two


def is_text_program(arguments: list[str]) -> bool:
    """Whether a program imports neither torch nor fairseq, as far as its name tells."""
    folder, _, name = arguments[0].rpartition("/") if arguments else ("", "", "")
    if folder.endswith("data-prep"):
        return name != "bundle.py"
    if folder.endswith("recipes/lib"):
        return name.removesuffix(".py") in TEXT_SCRIPTS
    return name == "vaswani" and arguments[1:2] != [] and arguments[1] in TEXT_COMMANDS


def start_settings(environment: dict[str, str]) -> dict[str, str]:
    """The variables that have to be the server's. PYTHONPATH is applied after the fork."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_START) and not name.startswith(READ_LATER)
    }


def read_line(connection: socket.socket, at_once: int = 1) -> str:
    """The next line, without its end. `at_once`: more than 1 where nothing follows the line."""
    read = b""
    while not read.endswith(b"\n"):
        more = connection.recv(at_once)
        if not more:
            break
        read += more
    return read.decode().rstrip("\n")


def request(path: str, python: str, arguments: list[str]) -> int:
    """Have the server run a program; returns its exit status."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")):
        os.execv(python, [python, *arguments])  # Python's own options, or a program on stdin
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    at_start, added = json.loads(read_line(connection, 65536))
    environment = dict(os.environ)
    own = start_settings(environment)
    for name in own.keys() | at_start.keys():
        # What imports add, such as sklearn's settings of OpenMP, this environment may have, too.
        if own.get(name) not in (at_start.get(name), added.get(name)):
            os.execv(python, [python, *arguments])
    streams = array.array("i", [0, 1, 2])
    connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    wanted = {"arguments": arguments, "environment": environment, "cwd": os.getcwd()}
    connection.sendall(json.dumps(wanted).encode() + b"\n")
    child = int(read_line(connection))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: os.kill(child, number))
    return int(read_line(connection) or 1)


if __name__ == "__main__":
    sockets = sys.argv[1].split(",")
    code = request(sockets[-1 if is_text_program(sys.argv[3:]) else 0], sys.argv[2], sys.argv[3:])
    if code < 0:  # ended by a signal: so does this process
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    sys.exit(code)
