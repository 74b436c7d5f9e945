"""What every command does with broken files, a full disk, a closed pipe, Ctrl-C and bad flags."""

import os
import re
import resource
import select
import signal
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import fairseq_environment
from tests.contracts.conftest import COMMANDS, arguments
from tests.support.commands import Ended, Fork, run_python, vaswani, wait_for
from vaswani_plugin.cli.__main__ import main

TEXTS = [(name, text) for name, command in COMMANDS.items() for text in command.texts]
INPUTS = [(name, file) for name, c in COMMANDS.items() for file in c.texts + c.files]
WRITERS = [name for name, command in COMMANDS.items() if command.outputs]
ENDING = [name for name in COMMANDS if name != "serve"]


@pytest.fixture
def run(world, tmp_path):
    """Runs a command of the table, with other inputs by name; the new folder is `tmp_path`/new."""

    def run(name: str, **other: object) -> Ended:
        return vaswani(*arguments(name, world, tmp_path, **other))

    return run


@pytest.fixture(scope="module")
def undisturbed(world, tmp_path_factory):
    """What a command prints and writes over its own files."""

    @cache
    def run(name: str) -> tuple[Ended, dict[str, bytes]]:
        folder = tmp_path_factory.mktemp(name)
        return vaswani(*arguments(name, world, folder)), written(folder)

    return run


def as_named(output: str, file: Path) -> str:
    """Without paths, of which some are outputs and differ from run to run."""
    return re.sub(r"(/[^/\s]+)+/", "", output.replace(str(file), file.name))


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "new").iterdir()}


@pytest.mark.parametrize("name", ENDING)
def test_it_writes_its_files_and_nothing_else(undisturbed, name):
    done, files = undisturbed(name)
    assert done.code == 0, done.err
    assert files.keys() == set(COMMANDS[name].outputs) and all(files.values())


@pytest.mark.parametrize("name", ["lm", "parse"])
def test_models_of_ours_need_no_fairseq(world, tmp_path, name):
    command = ("-X", "importtime", "-m", "vaswani_plugin.cli", *arguments(name, world, tmp_path))
    done = run_python(*command, capture_output=True, text=True, env=fairseq_environment())
    assert done.returncode == 0, done.stderr
    assert re.search(r"\| +torch$", done.stderr, re.MULTILINE)
    assert not re.search(r"\| +(fairseq|hydra|omegaconf)$", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(("name", "file"), INPUTS)
def test_a_missing_file_is_named(run, tmp_path, name, file):
    done = run(name, **{file: tmp_path / "gone"})
    assert f"{tmp_path / 'gone'}" in done.error and done.error.startswith(f"vaswani {name}: error:")
    assert done.out == "" and all(left.endswith(".part") for left in written(tmp_path))


@pytest.mark.parametrize(("name", "file"), [row for row in TEXTS if row[1] not in ("log", "prm")])
def test_bytes_that_are_no_utf_8_are_named_with_their_line(world, run, tmp_path, name, file):
    """Logs and EVALB's parameters are read whatever they hold."""
    lines = world[file].read_bytes().split(b"\n")
    (tmp_path / "bad").write_bytes(b"\n".join([lines[0], lines[1] + b" \xff", *lines[2:]]))
    done = run(name, **{file: tmp_path / "bad"})
    assert re.search(f"{tmp_path}/bad(:2: invalid|: not) UTF-8", done.error)
    # What took long to make stays, under another name.
    assert all(name.endswith(".part") for name in written(tmp_path))


@pytest.mark.parametrize(("name", "file"), [pair for pair in TEXTS if pair[0] in ENDING])
def test_a_byte_order_mark_and_other_line_ends_change_nothing(
    world, run, undisturbed, tmp_path, name, file
):
    changed = tmp_path / world[file].name
    changed.write_bytes(b"\xef\xbb\xbf" + world[file].read_bytes().replace(b"\n", b"\r\n"))
    done, (expected, files) = run(name, **{file: changed}), undisturbed(name)
    assert (done.code, as_named(done.out, changed)) == (0, as_named(expected.out, world[file]))
    assert written(tmp_path) == files or name == "curves"  # a picture, with the log's name


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT CHECKED: no /dev/full here")
@pytest.mark.parametrize("name", ENDING)
def test_a_full_disk_behind_standard_output_is_an_error(undisturbed, tmp_path, world, name):
    if not undisturbed(name)[0].out:
        return
    with open("/dev/full", "wb") as full:
        done = vaswani(*arguments(name, world, tmp_path), stdout=full)
    last = f"vaswani {name}: error: standard output: No space left on device\n"
    assert done.code == 1 and done.err.endswith(last)


@pytest.mark.parametrize("name", ENDING)
def test_a_reader_that_leaves_is_no_error(undisturbed, tmp_path, world, name):
    if not undisturbed(name)[0].out:
        return
    read, write = os.pipe()
    os.close(read)
    expected, _ = undisturbed(name)
    with open(write, "wb") as pipe:
        done = vaswani(*arguments(name, world, tmp_path), stdout=pipe)
    assert done.code == 141
    assert as_named(expected.err, Path("none")).startswith(as_named(done.err, Path("none")))


@pytest.mark.parametrize("name", WRITERS)
def test_files_appear_whole_or_not_at_all(world, tmp_path, name):
    """No file of this process may be longer than a few bytes: the same as a full disk."""
    given = arguments(name, world, tmp_path)
    for output in COMMANDS[name].outputs:
        (tmp_path / "new" / output).write_bytes(b"old")

    def limited() -> None:
        sys.stdout = open(os.devnull, "w")
        resource.setrlimit(resource.RLIMIT_FSIZE, (900, resource.RLIM_INFINITY))
        sys.exit(main(given))

    done = Fork(limited).wait()
    error = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and error.startswith(f"vaswani {name}: error: ")
    assert "File too large" in error and str(tmp_path / "new") in error
    left = written(tmp_path)
    assert {left.pop(output) for output in COMMANDS[name].outputs} == {b"old"}
    assert all(other.endswith(".part") for other in left)


@pytest.mark.parametrize("name", [name for name in ENDING if COMMANDS[name].texts])
def test_ctrl_c_ends_quietly(world, tmp_path, name):
    """While it waits for input: for its last text, which is a pipe here."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = arguments(name, world, tmp_path, **{COMMANDS[name].texts[-1]: pipe})
    fork = Fork(lambda: sys.exit(main(given)))
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"a")
    wait_for(lambda: not select.select([writer], [], [], 0)[0], said=fork.output)
    time.sleep(0.5)  # Python acts on a signal between two reads only after the second
    os.kill(fork.pid, signal.SIGINT)
    done = fork.wait()
    os.close(writer)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == f"vaswani {name}: interrupted"
    assert "Traceback" not in done.stderr
    assert all(other.endswith(".part") for other in written(tmp_path))
