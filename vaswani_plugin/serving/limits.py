"""What a client may ask for: sizes, rates, keys; and the error that answers a refused request."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from vaswani_plugin.errors import UserError


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
    """Limits of a request, of a batch, of the queue and of time.

    Args:
        body_bytes: of a request's body; more is answered by 413.
        characters: of all texts of a request; more is answered by 413.
        subwords: of all texts of a request; more is answered by 413.
        texts: of a request that gives a list; more is answered by 413.
        alternatives: translations beside the best one that a request may ask for.
        attention_tokens: subwords of a sentence whose attention is shown.
        queue: sentences that wait or are being translated; more are answered by 503.
        batch: sentences that are translated together, at most.
        batch_subwords: of a batch; a longer sentence is a batch of its own.
        batch_seconds: how long a sentence waits for others to join it.
        seconds: from the complete body to the answer; later requests get 503.
        header_seconds: for a request line and its headers; then the connection is closed.
        body_seconds: for a body; then the answer is 408.
        write_seconds: for a client to read what fills its connection; then that is closed.
        idle_seconds: that a connection stays open between two requests.
        stop_seconds: for the accepted requests after SIGTERM.
        connections: open at once; requests on more are answered by 503.
        requests_per_minute: of a client address without a key; more are answered by 429.
    """

    body_bytes: int = 1 << 20
    characters: int = 10_000
    subwords: int = 5_000
    texts: int = 256
    alternatives: int = 7
    attention_tokens: int = 128
    queue: int = 1024
    batch: int = 64
    batch_subwords: int = 2048
    batch_seconds: float = 0.003
    seconds: float = 60
    header_seconds: float = 10
    body_seconds: float = 10
    write_seconds: float = 20
    idle_seconds: float = 75
    stop_seconds: float = 8
    connections: int = 512
    requests_per_minute: int | None = None


def read_keys(path: Path) -> dict[str, int | None]:
    """Keys and their requests a minute (None: any number).

    Args:
        path: of a file with a line for each key, `KEY` or `KEY REQUESTS_PER_MINUTE`; empty lines
            and those that begin with `#` don't count.

    Raises:
        UserError: a line can't be used, or there is no key; names the file and the line.
        OSError: the file can't be read.
    """
    keys: dict[str, int | None] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8; write the keys in plain text") from error
    for number, line in enumerate(lines, start=1):
        key, *rate = line.split() or ["#"]
        if key.startswith("#"):
            continue
        is_rate = not rate or (len(rate) == 1 and rate[0].isascii() and rate[0].isdecimal())
        if not is_rate or rate and int(rate[0]) < 1 or key in keys:
            raise UserError(
                f"{path}:{number}: give a new key and, if wanted, its requests per minute"
            )
        keys[key] = int(rate[0]) if rate else None
    if not keys:
        raise UserError(f"{path}: no key in it; write one a line, or leave the flag out")
    return keys


class Gate:
    """Lets a request pass, or refuses it.

    Args:
        keys: as `read_keys` gives them; None lets everyone pass.
        requests_per_minute: of each client address if there are no keys; None: any number.
    """

    def __init__(self, keys: dict[str, int | None] | None, requests_per_minute: int | None) -> None:
        # By digest, so that the time of a look-up tells nothing about the keys.
        self.rates = None if keys is None else {_digest(key): rate for key, rate in keys.items()}
        self.requests_per_minute = requests_per_minute
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def check(self, key: Any, address: str) -> None:
        """Count a request; raise a Refusal if it must not pass.

        Args:
            key: the request's `api_key`, None where it has none.
            address: of the client.

        Raises:
            Refusal: the key is missing or wrong (403), or too many requests came (429).
        """
        client, rate = address, self.requests_per_minute
        if self.rates is not None:
            if not isinstance(key, str) or not key:
                raise Refusal(403, "Please contact the server operator to get an API key")
            client = _digest(key)
            if client not in self.rates:
                raise Refusal(403, "Invalid API key")
            rate = self.rates[client]
        if rate is None or self._limiter.hit(limit := RateLimitItemPerMinute(rate), client):
            return
        wait = self._limiter.get_window_stats(limit, client).reset_time - time()
        seconds = str(max(1, int(wait) + 1))
        raise Refusal(429, f"Slowdown: {rate} per 1 minute", {"Retry-After": seconds})


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
