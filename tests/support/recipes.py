"""Recipes from end to end at --scale tiny, their Pythons (`FORKED`) forks of this process.

A program on PATH sends its arguments and streams through a socket, and ends as its fork does.
"""

import json
import os
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.commands import REPO, Fork, import_fairseq, run_program
from tests.support.scripts import quick_environment
from tests.support.toy_text import write_toy

SECONDS = 1500
"""A recipe's time."""
WITH_PLUGIN = {"fairseq_cli.train", "fairseq_cli.generate", "fairseq_cli.eval_lm"}
"""They must name the plugin, which a fork knows already."""
FORKED = {
    "python": [],
    "vaswani": ["-m", "vaswani_plugin.cli"],
    **{
        f"fairseq-{name}": ["-m", f"fairseq_cli.{name.replace('-', '_')}"]
        for name in ("preprocess", "train", "generate", "eval-lm")
    },
}
# sentencepiece's threads crash in a fork of a process that ran an engine.
NEW = f'case "$1" in *wordpiece.py) exec {shlex.quote(sys.executable)} "$@" ;; esac'
CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(sys.argv[1])
    request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [request], [0, 1, 2])
    sys.exit(int(server.recv(9) or 1))
"""


def run_in_forks(
    command: list[str], env: dict[str, str], seconds: float = SECONDS, **added: str
) -> subprocess.CompletedProcess:
    """Run a command of bash; its programs of `FORKED`, with flags added, are our forks."""
    import_fairseq()
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        server.bind(f"{folder}/socket")
        server.listen()
        for name, words in FORKED.items():
            client = shlex.join([sys.executable, "-SEc", CLIENT, f"{folder}/socket", *words])
            program = Path(folder) / name
            program.write_text(f'#!/bin/sh\n{NEW}\nexec {client} "$@" {added.get(name, "")}\n')
            program.chmod(0o755)
        env = env | {"PATH": f"{folder}{os.pathsep}{env['PATH']}"}
        with subprocess.Popen(command, stdout=out, stderr=err, env=env) as bash:
            _serve(server, bash, time.monotonic() + seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(command, bash.returncode, *texts)


def _serve(server: socket.socket, bash: subprocess.Popen, end: float) -> None:
    """Fork for each client, and tell it the end of its fork, until bash ends."""
    forks: list[tuple[socket.socket, Fork]] = []
    try:
        while bash.poll() is None:
            assert time.monotonic() < end, "the script has not ended in its time"
            if select.select([server], [], [], 0.01)[0]:
                client, _ = server.accept()
                request, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)
                words, folder, environment = json.loads(request)
                assert not set(words[:2]) & WITH_PLUGIN or "--user-dir" in words, words
                files = [os.fdopen(n, m) for n, m in zip(streams, ("rb", "wb", "wb"), strict=True)]
                fork = Fork(run_program, words, cwd=folder, env=environment, files=files)
                for file in files:  # the reader of a pipe waits until nobody holds its other end
                    file.close()
                forks.append((client, fork))
            for client, fork in [each for each in forks if each[1].process.exitcode is not None]:
                client.send(str(fork.process.exitcode % 256).encode())
                client.close()
                forks.remove((client, fork))
    finally:
        bash.kill()
        for client, fork in forks:
            fork.kill()
            client.close()


def run_recipe(name: str, work: Path, *args: object) -> subprocess.CompletedProcess:
    """Run it to its end."""
    script = REPO / "recipes" / f"{name}.sh"
    command = [str(word) for word in (script, "--scale", "tiny", "--cpu", "--work", work, *args)]
    done = run_in_forks(["bash", *command], quick_environment())
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def result_of(work: Path) -> dict:
    """What holds of every result.json and its bundle; returns the result."""
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    assert result["updates"] > 0 and result["parameters"] > 1000
    assert result["versions"]["torch"] and result["versions"]["fairseq"]
    assert all(entry["lines"] > 0 for entry in result["data"])
    assert "not recorded" not in (work / "model" / "README.md").read_text("utf-8").lower()
    return result


def own(folder: Path) -> tuple:
    """Two files of 600 pairs, as flags of own_text.sh; a name with a script instead of de."""
    write_toy(folder, train=600)
    target = (folder / "train.de").rename(folder / "train.sr-Latn")
    return ("--train", folder / "train.en", target)
