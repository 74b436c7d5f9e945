"""The service's metrics, by prometheus-client, and its log of JSON lines."""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Monitor:
    """All metrics of the service.

    Args:
        gauges: numbers that are read whenever they are shown, by name, with their meaning.
    """

    def __init__(self, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"registry": self.registry}
        seconds = own | {"buckets": SECONDS}
        self.requests = Counter("vaswani_requests", "Requests answered.", ["path", "status"], **own)
        self.request_seconds = Histogram(
            "vaswani_request_seconds", "Time to answer a request.", ["path"], **seconds
        )
        self.counts = {
            name: Counter(f"vaswani_{name}", f"{name.title()} translated.", **own)
            for name in ("lines", "characters", "subwords")
        }
        sizes = own | {"buckets": (1, 2, 4, 8, 16, 32, 64)}
        self.batch_lines = Histogram("vaswani_batch_lines", "Lines of a batch.", **sizes)
        self.batch_seconds = Histogram("vaswani_batch_seconds", "Time of a batch.", **seconds)
        for name, (meaning, read) in gauges.items():
            Gauge(name, meaning, **own).set_function(read)

    def batch_done(self, lines: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_lines.observe(lines)
        self.batch_seconds.observe(seconds)

    def request_done(self, path: str, status: int, seconds: float, **counts: int) -> None:
        """Count an answered request; `counts`: its lines, characters, subwords."""
        self.requests.labels(path, status).inc()
        self.request_seconds.labels(path).observe(seconds)
        if status == 200:
            for name, count in counts.items():
                self.counts[name].inc(count)

    def text(self) -> bytes:
        """The answer of `/metrics`."""
        return generate_latest(self.registry)


class Log(logging.Handler):
    """Writes events to stderr as JSON, one a line. No event holds a text that a client has sent.

    As a handler of Python's logging, it writes exceptions without their messages.
    """

    _writing = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Write an event with its time (UTC)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields})
        with self._writing:
            print(line, file=sys.stderr, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of a library."""
        fields = {"level": record.levelname.lower(), "logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            self.write("message", message=record.getMessage(), **fields)
            return
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.write("exception", error=type(error).__name__, trace=where, **fields)
