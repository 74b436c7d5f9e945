"""Reports progress of long work: a bar on a terminal, otherwise a line from time to time."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _amount(count: int, unit: str) -> str:
    return f"{count / 1e6:,.1f} MB" if unit == "B" else f"{count:,} {unit}"


@contextmanager
def progress(
    label: str, total: int | None, unit: str = "B", seconds: float = 10
) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes the amount done since its last call; reports go to stderr.

    Args:
        label: names the work, such as "unpacking FILE".
        total: the whole amount in `unit`; None if it isn't known.
        unit: "B" for bytes, or a plural noun.
        seconds: without a terminal, the shortest time between two lines. If `total` is known, there
            is at most one line for each tenth of it.
    """
    if sys.stderr.isatty():
        from tqdm import tqdm  # takes 0.1 s, which short commands save

        with tqdm(total=total, desc=label, unit=unit, unit_scale=True, leave=False) as bar:
            yield bar.update
        return
    done, shown, last = 0, 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, shown, last
        done += count
        if total and 10 * (done - shown) < total or time.monotonic() - last < seconds:
            return
        share = f" of {_amount(total, unit)} ({100 * done // total}%)" if total else ""
        print(f"{label}: {_amount(done, unit)}{share}", file=sys.stderr, flush=True)
        shown, last = done, time.monotonic()

    yield advance
