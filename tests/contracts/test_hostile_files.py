"""Broken and hostile files through every reader: no code run, no hang, no escape.

VASWANI_EXAMPLES=1000 is the long run (5 by default).
"""

import importlib
import io
import json
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts.conftest import COMMANDS, arguments
from tests.support.commands import Fork, vaswani
from tests.support.scripts import Runs

EXAMPLES = int(os.environ.get("VASWANI_EXAMPLES", "5"))
EVERY_FILE = {"suppress_health_check": list(HealthCheck), "max_examples": EXAMPLES}
QUICK = settings(settings.get_profile("tests"), **EVERY_FILE)
SECONDS = 10 + 2 * EXAMPLES
MORE_MEMORY = 1 << 30
BUNDLES = {
    "translate": ("bundle", "model.pt", "preprocessing.json", "codes", "dict.de.txt"),
    "parse": ("parser", "model.pt", "preprocessing.json", "codes", "dict.symbols.txt"),
    "lm": ("lm", "model.pt", "preprocessing.json", "dict.txt"),
    "complete": ("lm", "dict.txt"),
    "summarize": ("summarizer", "preprocessing.json"),
    "export": ("bundle", "model.pt", "preprocessing.json"),
    "card": ("bundle", "preprocessing.json"),
}
TARGETS = [
    *((name, file, "") for name, command in COMMANDS.items() for file in command.texts),
    *((name, folder, file) for name, (folder, *files) in BUNDLES.items() for file in files),
    *(("average", "checkpoint", ""), ("import", "stock", ""), ("rescore", "checkpoint", "")),
    *(("import", "data", "dict.en.txt"), ("card", "result", "")),
]
TARGETS = [target for target in TARGETS if target[0] != "serve"]  # its other files would serve
ODD = [b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r", b"\x1b]0;title\x07", b"\n", b"\t", b"|||"]
ODD += [x.encode() for x in ("\u2028", "\x85", "\ufeff", "\u200b", "\U0001f600", "@@ ", "</s>")]
ODD += [b"&#1114112;", b"%s%n", b"{0}", b"../secret", b"$(touch canary)", b"(" * 3000, b"a" * 9000]
NUMBERS = [0, -1, 2**31, 2**64, 10**30, 1e308, float("nan"), float("inf")]
LEAVES = [None, True, [], {}, "", "\0", "../secret", "/etc/passwd", "x" * 5000, "moses", *NUMBERS]


def changed(content: bytes) -> st.SearchStrategy[bytes]:
    """Variants of a file, by bytes; of JSON and checkpoints also by a leaf of their tree."""
    place, random = st.integers(0, len(content)), st.randoms(use_true_random=False)
    numbers = [str(number).encode() for number in NUMBERS]
    odd = st.sampled_from([b"", *ODD, *numbers]) | st.binary(min_size=1, max_size=1)
    lengths = st.sampled_from([0, 1, len(content)]) | place
    # Hypothesis counts an object that is given twice once.
    ways = [
        st.builds(lambda n, m, new: content[:n] + new + content[n + m :], place, lengths, odd)
        for _ in range(3)
    ]
    ways += [st.sampled_from([b"", b"\n", b"null", b"[]", b"{}", b"\xef\xbb\xbf", b"[" * 20_000])]
    try:
        tree, write = as_tree(content)
    except (ValueError, pickle.UnpicklingError, RuntimeError):
        return st.one_of(ways)
    values = st.sampled_from([*LEAVES, torch.zeros(0), torch.zeros(3, 3)])
    # More often than not: most changes of bytes stop at a check sum.
    for _ in range(8):
        ways += [st.builds(lambda *given: write(grafted(tree, *given)), random, values)]
    return st.one_of(ways)


def as_tree(content: bytes):
    """Nested dictionaries and lists, and how they become bytes again."""
    if content.startswith(b"PK"):
        return torch.load(io.BytesIO(content), weights_only=True), saved
    tree = json.loads(content)
    return tree, lambda new: json.dumps(new, skipkeys=True, default=str).encode()


def saved(state: object) -> bytes:
    """A checkpoint."""
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def grafted(tree, random, value):
    """A copy in which one place is `value`, or missing."""
    if not isinstance(tree, (dict, list)) or not tree:
        return value
    copy = tree.copy()
    key = random.choice(list(tree)) if isinstance(tree, dict) else random.randrange(len(tree))
    if random.random() < 0.2:
        del copy[key]
    else:
        copy[key] = grafted(tree[key], random, value)
    return copy


def limited() -> None:
    """In the fork: little memory, and an end."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)


class Watch:
    """An audit hook: what a reader has no use for, or a file outside its folder."""

    FORBIDDEN = re.compile(r"socket\.|subprocess\.|os\.(system|exec|posix_spawn|fork|spawn)|ctypes")

    def __init__(self, secret: Path) -> None:
        self.secret, self.seen = str(secret), []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple) -> None:
        opened = event == "open" and isinstance(arguments[0], (str, bytes))
        if self.FORBIDDEN.match(event) or opened and os.path.realpath(arguments[0]) == self.secret:
            self.seen.append(f"{event} {arguments!r}")


@pytest.mark.parametrize(("name", "file", "inside"), TARGETS)
def test_a_changed_file_is_read_or_refused(world, tmp_path, name, file, inside):
    (tmp_path / "secret").write_text("nobody may read this\n")
    place = tmp_path / file
    copy = shutil.copytree if world[file].is_dir() else shutil.copyfile
    copy(world[file], place)
    place = place / inside if inside else place
    content = place.read_bytes()
    words = arguments(name, world, tmp_path, **{file: tmp_path / file})
    is_text = file in COMMANDS[name].texts
    if name == "curves":  # the first import of all starts programs that list the fonts
        importlib.import_module("matplotlib.font_manager")

    @settings(QUICK)
    @given(changed(content))
    def check(bad: bytes) -> None:
        place.write_bytes(bad)
        try:
            done = vaswani(*words)
        except Exception:
            assert not is_text, "a traceback"
            assert not watch.seen and not (tmp_path / "canary").exists()
            return
        assert done.code in (0, 1) and "Traceback" not in done.err
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.err), "a control character"
        last = done.err.rstrip("\n").rpartition("\n")[2]
        if done.code:
            assert last.startswith(f"vaswani {name}: error: ") and len(last) < 1000, done.err
        assert not watch.seen and not (tmp_path / "canary").exists()

    def work() -> None:
        nonlocal watch
        os.chdir(tmp_path)
        watch = Watch(tmp_path / "secret")
        limited()
        check()

    watch: Watch
    done = Fork(work).wait(300 + 3 * EXAMPLES)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("inside", ["whole", "model", "extra_state"])
@pytest.mark.parametrize(
    ("name", "file"),
    [
        *(("translate", "bundle"), ("lm", "lm"), ("parse", "parser"), ("export", "bundle")),
        *(("average", "checkpoint"), ("import", "stock"), ("rescore", "checkpoint")),
    ],
)
def test_a_pickle_runs_no_code(world, tmp_path, name, file, inside):
    copy = shutil.copytree if world[file].is_dir() else shutil.copyfile
    copy(world[file], tmp_path / file)
    checkpoint = tmp_path / file / "model.pt" if world[file].is_dir() else tmp_path / file
    evil = Runs(tmp_path / "canary")
    state = evil if inside == "whole" else torch.load(checkpoint) | {inside: evil}
    members = zipfile.ZipFile(io.BytesIO(checkpoint.read_bytes()))
    with zipfile.ZipFile(checkpoint, "w") as archive:
        for member in members.namelist():
            is_pickle = member.endswith("/data.pkl")
            archive.writestr(member, dumped(state) if is_pickle else members.read(member))
    done = vaswani(*arguments(name, world, tmp_path, **{file: tmp_path / file}))
    assert "refused: it would call" in done.error and not (tmp_path / "canary").exists()
    pickle.loads(dumped(evil))
    assert (tmp_path / "canary").exists(), "the payload does run where it is believed"


def dumped(state: object) -> bytes:
    """A pickle without the tensors, whose bytes lie elsewhere."""
    if isinstance(state, dict):
        state = {key: value for key, value in state.items() if isinstance(value, Runs)}
    return pickle.dumps(state, protocol=2)  # the one of torch.save
