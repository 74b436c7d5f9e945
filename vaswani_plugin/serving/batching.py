"""Batches across requests: sentences that arrive within a few milliseconds are decoded together.

One thread owns the model. While it works, further pieces wait. A piece is what the model decodes at
once: a sentence, or a part of a long one. The next batch takes one piece of each request in turn,
so that a long text does not hold up a short one, and none of a request whose client has gone.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from vaswani_plugin.serving.limits import Limits, Refusal

Found = TypeVar("Found")
Piece = Sequence[str]
BUSY = {"Retry-After": "1"}


class Options(NamedTuple):
    """Options of the search; pieces with the same options share a batch.

    Args:
        nbest: hypotheses of each piece.
        align: whether each hypothesis has its alignment.
    """

    nbest: int = 1
    align: bool = False


@dataclass(eq=False)
class _Request:
    """The pieces of one request; those before `next` are in a batch or decoded."""

    pieces: Sequence[Piece]
    options: Options
    answer: asyncio.Future[list[Any]]
    next: int = 0
    found: dict[int, Any] = field(default_factory=dict)

    def is_waiting(self) -> bool:
        return self.next < len(self.pieces) and not self.answer.done()


class Batcher:
    """Decodes pieces of many requests in common batches, in a thread of its own.

    Args:
        decode: returns the result of each piece, in order; runs in the thread, one call at a time.
        limits: of a batch and of the queue.
        batch_done: is called after each batch with its pieces and seconds.

    Attributes:
        busy_since: monotonic seconds; None between batches.
    """

    def __init__(
        self,
        decode: Callable[[list[Piece], Options], list[Any]],
        limits: Limits,
        batch_done: Callable[[int, float], None],
    ) -> None:
        self.limits, self._batch_done, self._decode = limits, batch_done, decode
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._requests: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._in_work = 0
        self.busy_since: float | None = None
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """How many pieces wait or are being decoded."""
        waiting = sum(len(r.pieces) - r.next for r in self._requests if r.is_waiting())
        return waiting + self._in_work

    @property
    def is_alive(self) -> bool:
        """Whether pieces that arrive now will be decoded."""
        return self._loop_task is not None and not self._loop_task.done()

    def start(self) -> None:
        """Start to decode; needs a running event loop."""
        self._loop_task = asyncio.create_task(self._work())

    async def stop(self, seconds: float = 30) -> bool:
        """Decode what waits, then end the thread; returns whether it has ended in this time."""
        end = monotonic() + seconds
        while self.queued and self.is_alive and monotonic() < end:
            await asyncio.sleep(0.01)
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.wait({self._loop_task})
        self._thread.shutdown(wait=False, cancel_futures=True)
        return self.busy_since is None

    def admit(self, pieces: int) -> None:
        """Refuse pieces for which the queue has no room.

        Raises:
            Refusal: the queue is full.
        """
        if self.queued + pieces > self.limits.queue:
            raise Refusal(503, "Too many texts are waiting: try again later", BUSY)

    async def decode(self, pieces: Sequence[Piece], options: Options) -> list[Any]:
        """Decode pieces; returns the result of each, in their order.

        If the caller is cancelled, its waiting pieces are dropped.

        Raises:
            Refusal: the queue is full.
            Exception: the error of the `decode` function for one of these pieces.
        """
        self.admit(len(pieces))
        if not pieces:
            return []
        request = _Request(pieces, options, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._arrived.set()
        return await request.answer

    async def run_between_batches(self, function: Callable[..., Found], *arguments: Any) -> Found:
        """Call a function of the model between two batches.

        Raises:
            Refusal: the queue is full.
            Exception: any exception of the function.
        """
        self.admit(1)
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
            if self.queued < self.limits.batch:
                await asyncio.sleep(self.limits.batch_seconds)
            batch = self._take()
            if not batch:
                continue
            self._in_work += len(batch)
            start = self.busy_since = monotonic()
            pieces = [request.pieces[number] for request, number in batch]
            found = await loop.run_in_executor(
                self._thread, self._decode_each, pieces, batch[0][0].options
            )
            self._in_work -= len(batch)
            self.busy_since = None
            self._batch_done(len(batch), monotonic() - start)
            for (request, number), result in zip(batch, found, strict=True):
                _deliver(request, number, result)

    def _take(self) -> list[tuple[_Request, int]]:
        """The next batch, as (request, number of the piece), all with the same options."""
        waiting = [request for request in self._requests if request.is_waiting()]
        turns = deque(r for r in waiting if r.options == waiting[0].options)
        batch: list[tuple[_Request, int]] = []
        subwords = 0
        while turns and len(batch) < self.limits.batch:
            request = turns.popleft()
            subwords += len(request.pieces[request.next])
            if batch and subwords > self.limits.batch_subwords:
                break
            batch.append((request, request.next))
            request.next += 1
            if request.is_waiting():
                turns.append(request)
        # Requests with a piece in this batch move behind the others.
        served = {id(request) for request, _ in batch}
        waiting = [request for request in waiting if request.is_waiting()]
        self._requests = deque(sorted(waiting, key=lambda request: id(request) in served))
        if not self._requests:
            self._arrived.clear()
        return batch

    def _decode_each(self, pieces: list[Piece], options: Options) -> list[Any]:
        """The result of each piece, or the error that the piece causes by itself."""
        try:
            return self._decode(pieces, options)
        except Exception as error:
            if len(pieces) == 1:
                return [error]
        return [found for piece in pieces for found in self._decode_each([piece], options)]


def _deliver(request: _Request, number: int, result: Any) -> None:
    if request.answer.done():  # the client has gone
        return
    if isinstance(result, Exception):
        request.answer.set_exception(result)
        return
    request.found[number] = result
    if len(request.found) == len(request.pieces):
        request.answer.set_result([request.found[n] for n in range(len(request.pieces))])
