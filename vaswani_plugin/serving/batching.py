"""Batches across requests: lines that arrive within a few milliseconds are translated together.

One thread owns the model. While it works, further lines wait. The next batch takes one line of each
request in turn, so that a long text does not hold up a short one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar

from vaswani_plugin.serving.limits import BatchLimits, Refusal

Found = TypeVar("Found")
BUSY = {"Retry-After": "1"}


class Options(NamedTuple):
    """Options of the search; lines with the same options share a batch.

    Args:
        nbest: hypotheses of each line.
        align: whether each hypothesis has its alignment.
    """

    nbest: int = 1
    align: bool = False


class Watch(Protocol):
    """Is called after each batch."""

    def batch_done(self, lines: int, seconds: float) -> None:
        """Record a batch: how many lines it had and how long it took."""


@dataclass(eq=False)
class _Request:
    """The lines of one request; lines before `next` are in a batch or translated."""

    lines: Sequence[str]
    options: Options
    answer: asyncio.Future[list[Any]]
    next: int = 0
    found: dict[int, Any] = field(default_factory=dict)

    def is_waiting(self) -> bool:
        return self.next < len(self.lines) and not self.answer.done()


class Batcher:
    """Translates lines of many requests in common batches, in a thread of its own.

    Args:
        translate: returns the result of each line, in order; runs in the thread, one call at a
            time.
        limits: of a batch.
        queue_lines: most lines that wait or are being translated.
        watch: is called after each batch.
    """

    def __init__(
        self,
        translate: Callable[[list[str], Options], list[Any]],
        limits: BatchLimits,
        queue_lines: int,
        watch: Watch,
    ) -> None:
        self.limits, self.queue_lines, self.watch = limits, queue_lines, watch
        self._translate = translate
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._requests: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._in_work = 0
        self.busy_since: float | None = None  # monotonic seconds; None between batches
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """How many lines wait or are being translated."""
        waiting = sum(len(r.lines) - r.next for r in self._requests if r.is_waiting())
        return waiting + self._in_work

    @property
    def is_alive(self) -> bool:
        """Whether lines that arrive now will be translated."""
        return self._loop_task is not None and not self._loop_task.done()

    def start(self) -> None:
        """Start to translate; needs a running event loop."""
        self._loop_task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Translate the queued lines, then end the thread."""
        while self.queued and self.is_alive:
            await asyncio.sleep(0.01)
        if self._loop_task is not None:
            self._loop_task.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    def _admit(self, lines: int) -> None:
        if self.queued + lines > self.queue_lines:
            raise Refusal(503, "Too many texts are waiting: try again later", BUSY)

    async def translate(self, lines: Sequence[str], options: Options) -> list[Any]:
        """Translate lines; returns the result of each, in their order.

        If the caller is cancelled, its waiting lines are dropped.

        Raises:
            Refusal: the queue is full.
            Exception: the error of the `translate` function for one of these lines.
        """
        self._admit(len(lines))
        request = _Request(lines, options, asyncio.get_running_loop().create_future())
        if not lines:
            return []
        self._requests.append(request)
        self._arrived.set()
        return await request.answer

    async def run_between_batches(self, function: Callable[..., Found], *arguments: Any) -> Found:
        """Call a function of the model between two batches.

        Raises:
            Refusal: the queue is full.
            Exception: any exception of the function.
        """
        self._admit(1)
        self._in_work += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, function, *arguments)
        finally:
            self._in_work -= 1

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            if self.queued < self.limits.lines:
                await asyncio.sleep(self.limits.wait)
            batch = self._take()
            if not batch:
                continue
            self._in_work += len(batch)
            start = self.busy_since = monotonic()
            lines = [request.lines[number] for request, number in batch]
            found = await loop.run_in_executor(
                self._thread, self._translate_each, lines, batch[0][0].options
            )
            self._in_work -= len(batch)
            self.busy_since = None
            self.watch.batch_done(len(batch), monotonic() - start)
            for (request, number), result in zip(batch, found, strict=True):
                _deliver(request, number, result)

    def _take(self) -> list[tuple[_Request, int]]:
        """The next batch, as (request, number of the line), all with the same options."""
        waiting = [request for request in self._requests if request.is_waiting()]
        turns = deque(r for r in waiting if r.options == waiting[0].options)
        batch: list[tuple[_Request, int]] = []
        characters = 0
        while turns and len(batch) < self.limits.lines:
            request = turns.popleft()
            characters += len(request.lines[request.next])
            if batch and characters > self.limits.characters:
                break
            batch.append((request, request.next))
            request.next += 1
            if request.is_waiting():
                turns.append(request)
        # Requests with a line in this batch move behind the others.
        served = {id(request) for request, _ in batch}
        waiting = [request for request in waiting if request.is_waiting()]
        self._requests = deque(sorted(waiting, key=lambda request: id(request) in served))
        if not self._requests:
            self._arrived.clear()
        return batch

    def _translate_each(self, lines: list[str], options: Options) -> list[Any]:
        """The result of each line, or the error that the line causes by itself."""
        try:
            return self._translate(lines, options)
        except Exception as error:
            if len(lines) == 1:
                return [error]
        return [found for line in lines for found in self._translate_each([line], options)]


def _deliver(request: _Request, number: int, result: Any) -> None:
    if request.answer.done():  # the client has gone
        return
    if isinstance(result, Exception):
        request.answer.set_exception(result)
        return
    request.found[number] = result
    if len(request.found) == len(request.lines):
        request.answer.set_result([request.found[n] for n in range(len(request.lines))])
