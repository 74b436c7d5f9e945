"""Runs commands in forked children that are watched: limits, an audit hook, what came out.

A child runs many cases one after another, so that a case costs milliseconds; when it dies, the case
that it was in is to blame and another child goes on behind it.
"""

import json
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

CPU_SECONDS = 5
WALL_SECONDS = 300  # for what waits instead of computing, on a machine that does other work too
MORE_MEMORY = 1 << 30
LARGEST_FILE = 1 << 28
CASES_OF_A_CHILD = 50

# Audit events (docs.python.org/3/library/audit_events.html) that no reader has any use for.
_FORBIDDEN = re.compile(
    r"socket\.|subprocess\.|os\.(system|exec|posix_spawn|fork|startfile|spawn|putenv|kill)|pty\."
    r"|urllib\.Request|http\.client|ftplib\.|smtplib\.|webbrowser\.|code\.|pickle\.find_class"
    r"|ctypes\.(dlopen|dlsym)|shutil\.(unpack|chown)|sys\.(settrace|setprofile)|cpython\.run_"
)
_LOCAL = re.compile(r"(shutil\.|os\.)")  # allowed within the work folder
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ERROR = re.compile(r"[\w. -]+: error: \S.*")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@dataclass
class Outcome:
    """What a case came to.

    Args:
        code: exit code; None: the process died of it.
        errors: what went to stderr.
        events: forbidden things that were done.
        death: by what the process died.
    """

    code: int | None
    errors: str = ""
    events: list[str] = field(default_factory=list)
    death: str = ""

    def fault(self) -> str | None:
        """What is wrong with it; None for success and for a user's error, told as one."""
        if self.events:
            return f"forbidden: {self.events[0]}"
        if self.death:
            return self.death
        if "Traceback (most recent call last)" in self.errors:
            return "traceback: " + self.errors.strip().rpartition("\n")[2]
        if re.search(r"\bWarning: ", self.errors):
            return "warning: " + next(x for x in self.errors.split("\n") if "Warning: " in x)
        if found := _CONTROL.search(self.errors):
            return f"control character {found[0]!r} on stderr"
        if self.code == 0:
            return None
        last = self.errors.strip("\n").rpartition("\n")[2]
        if not _ERROR.fullmatch(last):
            return f"exit code {self.code} without a message: {last!r}"
        if len(last) > 1000:
            return f"a message of {len(last)} characters: {last[:80]}"
        return None


class _Watch:
    """The audit hook of a child."""

    def __init__(self, work: Path) -> None:
        self.inside = str(work) + os.sep
        self.outside = str(work.parent)
        self.events: list[str] = []
        self.on = False

    def __call__(self, event: str, arguments: tuple) -> None:
        if not self.on:
            return
        self.on = False
        try:
            if self._is_forbidden(event, arguments):
                self.events.append(f"{event} {arguments!r}"[:300])
        finally:
            self.on = True

    def _is_forbidden(self, event: str, arguments: tuple) -> bool:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, (str, bytes)):
                return False
            path = os.path.realpath(os.fsdecode(path))
            if flags & _WRITING:
                return not path.startswith(self.inside) and path != os.devnull
            return path.startswith(self.outside) and not (path + os.sep).startswith(self.inside)
        if event in ("os.listdir", "os.scandir", "os.chdir", "shutil.which"):
            return False
        if _LOCAL.match(event):
            paths = [os.fsdecode(a) for a in arguments if isinstance(a, (str, bytes, os.PathLike))]
            paths = [os.path.realpath(path) + os.sep for path in paths]
            # To make a folder that is there fails, and is how others are made below it.
            return (
                not all(path.startswith(self.inside) for path in paths)
                or _FORBIDDEN.match(event) is not None
            )
        return _FORBIDDEN.match(event) is not None


@contextmanager
def quiet(errors: Path) -> Iterator[None]:
    """No input and no output within, but what goes to stderr, to the file `errors`."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(descriptor) for descriptor in range(3)]
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        _redirect(errors)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
        for descriptor, copy in enumerate(before):
            os.dup2(copy, descriptor)
            os.close(copy)


def _redirect(errors: Path) -> None:
    to_errors = os.open(errors, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDWR)
    for target, descriptor in enumerate((null, null, to_errors)):
        os.dup2(descriptor, target)
    os.close(null)
    os.close(to_errors)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _limit() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_MEMORY, size + MORE_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _timers(cpu: float, wall: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, wall)


def _run(case: Callable[[], int], watch: _Watch) -> Outcome:
    """Runs one case in this process; what it prints on stderr is read back from the descriptor."""
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    watch.events, watch.on = [], True
    try:
        code = case()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        watch.on = False
    sys.stdout.flush()
    sys.stderr.flush()
    size = os.lseek(2, 0, os.SEEK_END)
    text = os.pread(2, min(size, 1 << 20), 0).decode("utf-8", errors="replace")
    return Outcome(code or 0, text, watch.events)


def _serve(
    prepare: Callable[[int], Callable[[], int]], numbers: list[int], work: Path, answers: int
) -> None:
    """The life of a child: `prepare` makes the cases, whose outcomes go to `answers`."""
    _redirect(work.parent / "stderr")
    watch = _Watch(work)
    sys.addaudithook(watch)
    tempfile.tempdir = str(work)  # torch.load makes a folder there for its oldest format
    _limit()
    for number in numbers:
        case = prepare(number)
        _timers(CPU_SECONDS, WALL_SECONDS)
        outcome = _run(case, watch)
        _timers(0, 0)
        os.write(answers, json.dumps([number, vars(outcome)]).encode() + b"\n")


def _child(
    prepare: Callable[[int], Callable[[], int]], numbers: list[int], work: Path
) -> tuple[dict[int, Outcome], int]:
    """Runs cases in one child: the outcomes that it came to tell, and its wait status."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            _serve(prepare, numbers, work, writing)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        told = [json.loads(line) for line in stream if line.endswith("\n")]
    _, status = os.waitpid(pid, 0)
    return {number: Outcome(**outcome) for number, outcome in told}, status


def _death(status: int, work: Path) -> str:
    names = {signal.SIGPROF: f"over {CPU_SECONDS} s of CPU time"}
    names[signal.SIGALRM] = f"over {WALL_SECONDS} s"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"hang: {names[number]}" if number in names else f"killed by signal {number}"
    with suppress(OSError):
        return "the driver failed: " + (work.parent / "stderr").read_text("utf-8")[-2000:]
    return f"ended with status {status}"


def run_cases(
    prepare: Callable[[int], Callable[[], int]], numbers: list[int], work: Path
) -> Iterator[tuple[int, Outcome]]:
    """Runs cases in children; yields their numbers and outcomes.

    Args:
        prepare: makes, unwatched and in the child, the function that runs a case and gives its exit
            code.
        numbers: of the cases.
        work: the only folder in which a case may write; its parent is the test's own, and nothing
            else in that may be read.
    """
    waiting = list(numbers)
    while waiting:
        batch = waiting[:CASES_OF_A_CHILD]
        found, status = _child(prepare, batch, work)
        yield from found.items()
        waiting = waiting[len(found) :]
        if status != 0:
            yield waiting.pop(0), Outcome(None, death=_death(status, work))
