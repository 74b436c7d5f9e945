"""The service's metrics in Prometheus' text format (version 0.0.4), and its log."""

import json
import logging
import os
import sys
import threading
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, TextIO

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LINES = (1, 2, 4, 8, 16, 32, 64)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


def _labelled(name: str, labels: Labels) -> str:
    """A series' name with its labels; our values need no escaping."""
    return name + ("{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}") * bool(labels)


class Counter:
    """A number for each combination of labels; it only grows."""

    kind = "counter"

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to the number of these labels."""
        key = tuple(labels.items())
        self.values[key] = self.values.get(key, 0) + amount

    def samples(self, name: str) -> Iterator[tuple[str, float]]:
        """(series, value) of each."""
        for labels, value in self.values.items():
            yield _labelled(name, labels), value


class Gauge:
    """A number that is read whenever it is shown."""

    kind = "gauge"

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read

    def samples(self, name: str) -> Iterator[tuple[str, float]]:
        """(series, value) of it."""
        yield name, self.read()


class Histogram:
    """How many observations are at most each bound, for each combination of labels."""

    kind = "histogram"

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        """Add an observation."""
        key = tuple(labels.items())
        counts = self.counts.setdefault(key, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[key] = self.sums.get(key, 0) + value

    def samples(self, name: str) -> Iterator[tuple[str, float]]:
        """(series, value) of each bucket, sum and count."""
        for labels, counts in self.counts.items():
            total = 0
            for bound, count in zip([*map(str, self.bounds), "+Inf"], counts, strict=True):
                total += count
                yield _labelled(f"{name}_bucket", (*labels, ("le", bound))), total
            yield _labelled(f"{name}_sum", labels), self.sums[labels]
            yield _labelled(f"{name}_count", labels), total


class Monitor:
    """All metrics of the service; a `batching.Watch`."""

    def __init__(self) -> None:
        self.requests = Counter()
        self.request_seconds = Histogram(SECONDS)
        self.lines, self.characters = Counter(), Counter()
        self.batch_lines, self.batch_seconds = Histogram(LINES), Histogram(SECONDS)
        start = time()
        self._shown: dict[str, tuple[str, Counter | Gauge | Histogram]] = {
            "vaswani_requests_total": ("Requests answered.", self.requests),
            "vaswani_request_seconds": ("Time to answer a request.", self.request_seconds),
            "vaswani_lines_total": ("Lines translated.", self.lines),
            "vaswani_characters_total": ("Characters translated.", self.characters),
            "vaswani_batch_lines": ("Lines of a batch.", self.batch_lines),
            "vaswani_batch_seconds": ("Time to translate a batch.", self.batch_seconds),
            "process_resident_memory_bytes": ("Resident memory.", Gauge(resident_memory)),
            "process_start_time_seconds": ("Start, since the epoch.", Gauge(lambda: start)),
        }

    def show(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge."""
        self._shown[name] = (help_text, Gauge(read))

    def batch_done(self, lines: int, seconds: float) -> None:
        """See `batching.Watch`."""
        self.batch_lines.observe(lines)
        self.batch_seconds.observe(seconds)

    def request_done(self, path: str, status: int, seconds: float, **counts: int) -> None:
        """Count an answered request; `counts` may hold `lines` and `characters`."""
        self.requests.add(path=path, status=str(status))
        self.request_seconds.observe(seconds, path=path)
        if status == 200:
            self.lines.add(counts.get("lines", 0))
            self.characters.add(counts.get("characters", 0))

    def text(self) -> str:
        """The answer of `/metrics`."""
        lines = []
        for name, (help_text, metric) in self._shown.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {metric.kind}"]
            lines += [f"{series} {value:.10g}" for series, value in metric.samples(name)]
        return "\n".join(lines) + "\n"


def resident_memory() -> float:
    """Bytes of this process's memory; NaN on systems without /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


class Log:
    """Events as JSON, one a line. No event holds a text that a client has sent.

    Args:
        stream: where to write.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Write an event with its time (UTC)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields})
        with self._lock:
            print(line, file=self.stream, flush=True)

    def failure(self, event: str, error: BaseException, **fields: Any) -> None:
        """Write an exception: its kind and where it came from, without its message."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.write(event, error=type(error).__name__, trace=where, **fields)


class LogHandler(logging.Handler):
    """Passes the records of Python's logging on to a `Log`, exceptions without their messages."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        fields = {"level": record.levelname.lower(), "logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            self.log.failure("exception", record.exc_info[1], **fields)
        else:
            self.log.write("message", message=record.getMessage(), **fields)
