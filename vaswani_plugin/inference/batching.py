"""Batches of texts of similar length, buffers of a stream, and one text or many."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def seed_of(seed: int, number: int) -> int:
    """The seed of the random numbers of one batch or text.

    Args:
        seed: of the caller.
        number: of the batch or text; each number of one seed gives other random numbers.
    """
    words = np.random.SeedSequence((seed % 2**64, number)).generate_state(2, np.uint32)
    return int(words[0]) << 31 | int(words[1]) >> 1


def batches_by_length(lengths: list[int], most: int) -> Iterator[list[int]]:
    """Group texts of similar length into batches; the longest texts come first.

    Args:
        lengths: tokens of each text.
        most: most tokens of a batch, padding included; a longer text is a batch of its own.

    Yields:
        The numbers of a batch's texts, from 0 on.
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def split_into_buffers(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Group items into lists of `size`; the last one may be shorter.

    Raises:
        Exception: any exception of `items`, after the items before it have been yielded.
    """
    buffer: list[T] = []
    try:
        for item in items:
            buffer.append(item)
            if len(buffer) == size:
                yield buffer
                buffer = []
    except Exception:
        if buffer:
            yield buffer
        raise
    if buffer:
        yield buffer


def one_or_many(
    texts: str | Iterable[str], stream: Callable[..., Iterator[T]], unit: str, progress: bool
) -> T | list[T]:
    """The answer to one text, or the answers to several.

    Args:
        texts: one or several.
        stream: takes texts and the keyword `buffer`, and gives the answers in order.
        unit: of the bar, such as "sentences".
        progress: show the bar on standard error; one text has none. The answers then come by the
            stream's own buffer, so that the bar moves; otherwise all texts share their batches.
    """
    if isinstance(texts, str):
        return next(stream([texts]))
    lines = list(texts)
    found = stream(lines) if progress else stream(lines, buffer=max(1, len(lines)))
    if not progress:
        return list(found)
    from tqdm.auto import tqdm  # a widget in a notebook

    return list(tqdm(found, total=len(lines), unit=f" {unit}"))
