"""API keys from a file, and how many requests a minute each client may send."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.limits import Refusal

MOST_CLIENTS = 10_000
"""Most clients whose rate is stored; beyond it the least recently seen ones are dropped."""


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
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        rate = words[1] if len(words) == 2 else None
        is_rate = rate is None or (rate.isascii() and rate.isdecimal() and int(rate) > 0)
        if len(words) > 2 or not is_rate:
            raise UserError(f"{path}:{number}: give a key and, if wanted, its requests per minute")
        if words[0] in keys:
            raise UserError(f"{path}:{number}: the same key again; remove one of the lines")
        keys[words[0]] = None if rate is None else int(rate)
    if not keys:
        raise UserError(f"{path}: no key in it; write one a line, or leave the flag out")
    return keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class Gate:
    """Lets a request pass, or refuses it.

    Args:
        keys: as `read_keys` gives them; None lets everyone pass.
        requests_per_minute: of each client address if there are no keys; None: any number.
        clock: seconds.
    """

    def __init__(
        self,
        keys: dict[str, int | None] | None,
        requests_per_minute: int | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        # By digest, so that the time of a look-up tells nothing about the keys.
        self.rates = None if keys is None else {_digest(k): rate for k, rate in keys.items()}
        self.requests_per_minute, self.clock = requests_per_minute, clock
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def check(self, key: Any, address: str) -> None:
        """Count a request; raise a Refusal if it must not pass.

        Args:
            key: the request's `api_key`, None where it has none.
            address: of the client.

        Raises:
            Refusal: the key is missing or wrong (403), or too many requests came (429).
        """
        if self.rates is None:
            self._count(address.encode(), self.requests_per_minute)
            return
        if not isinstance(key, str) or not key:
            raise Refusal(403, "Please contact the server operator to get an API key")
        digest = _digest(key)
        if digest not in self.rates:
            raise Refusal(403, "Invalid API key")
        self._count(digest, self.rates[digest])

    def _count(self, client: bytes, rate: int | None) -> None:
        """Token bucket: it holds `rate` requests and refills within a minute."""
        if rate is None:
            return
        now = self.clock()
        left, last = self._left.pop(client, (float(rate), now))
        left = min(rate, left + (now - last) * rate / 60)
        self._left[client] = (left - (left >= 1), now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        if left < 1:
            wait = (1 - left) * 60 / rate
            raise Refusal(
                429, f"Slowdown: {rate} per 1 minute", {"Retry-After": str(int(wait) + 1)}
            )
