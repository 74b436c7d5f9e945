"""Limits on the requests of a client, and the error that answers a refused request."""

from collections.abc import Mapping
from dataclasses import dataclass


class Refusal(Exception):
    """Refuses a request: the service answers with an error.

    Args:
        status: of HTTP.
        message: for the client; never logged, as it may name what the client sent.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


@dataclass(frozen=True)
class Limits:
    """Limits of a request, of the queue and of time; the service refuses requests beyond them.

    Args:
        body_bytes: of a request's body; more is answered by 413.
        characters: of all texts of a request; more is answered by 413.
        texts: of a request that gives a list; more is answered by 413.
        alternatives: translations beside the best one that a request may ask for.
        queue_lines: lines that wait or are being translated; more are answered by 503.
        seconds: from the complete body to the answer; later requests get 503.
        header_seconds: for a request line and its headers; then the connection is closed.
        body_seconds: for a body; then the answer is 408.
        requests_per_minute: of a client address without a key; more are answered by 429.
        attention_tokens: subwords of a sentence whose attention is shown.
        connections: open at once; more are answered by 503.
    """

    body_bytes: int = 1 << 20
    characters: int = 10_000
    texts: int = 256
    alternatives: int = 7
    queue_lines: int = 1024
    seconds: float = 60
    header_seconds: float = 10
    body_seconds: float = 10
    requests_per_minute: int | None = None
    attention_tokens: int = 128
    connections: int = 512


@dataclass(frozen=True)
class BatchLimits:
    """Limits of the batches that the service makes across requests.

    Args:
        wait: seconds that a line waits for others to join it.
        lines: of a batch.
        characters: of a batch; a longer line is a batch of its own.
    """

    wait: float = 0.003
    lines: int = 64
    characters: int = 8_000
