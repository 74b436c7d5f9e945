"""The work behind the routes: batches across requests, a translator, counts and the log.

One thread owns the model. While it works, further pieces wait. A piece is what the model decodes at
once: a sentence, or a part of a long one. The next batch takes one piece of each request in turn,
so that a long text does not hold up a short one, and none of a request whose client has gone.
"""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from vaswani_plugin.serving.texts import Languages, Limits, Refusal, check_size

if TYPE_CHECKING:
    from vaswani_plugin.inference.runner import Translation
    from vaswani_plugin.inference.translator import Source, Translator

Result = TypeVar("Result")
Piece = Sequence[str]
BUSY = {"Retry-After": "1"}
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SHORT = 1000  # characters that are coded at once; a longer text would hold up other requests


def log(event: str, **fields: Any) -> None:
    """Write an event, with its time, to stderr as a line of JSON. No field is a client's text."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stderr.write(json.dumps({"time": now, "event": event, **fields}) + "\n")
    sys.stderr.flush()


class BatchOptions(NamedTuple):
    """Options of the search; pieces with the same options share a batch."""

    nbest: int = 1
    align: bool = False


@dataclass(eq=False)
class _Request:
    """The pieces of one request; those before `next` are in a batch or decoded."""

    pieces: Sequence[Piece]
    options: BatchOptions
    answer: asyncio.Future[list[Any]]
    next: int = 0
    results: dict[int, Any] = field(default_factory=dict)

    def is_waiting(self) -> bool:
        return self.next < len(self.pieces) and not self.answer.done()

    def deliver(self, number: int, result: Any) -> None:
        if self.answer.done():  # the client has gone
            return
        if isinstance(result, Exception):
            self.answer.set_exception(result)
            return
        self.results[number] = result
        if len(self.results) == len(self.pieces):
            self.answer.set_result([self.results[n] for n in range(len(self.pieces))])


class Batcher:
    """Decodes pieces of many requests in common batches, in a thread of its own.

    `decode` gives each piece's result, one call at a time. `busy_since`: monotonic seconds or None.
    """

    def __init__(
        self, decode: Callable[[list[Piece], BatchOptions], list[Any]], limits: Limits
    ) -> None:
        self.limits, self._decode = limits, decode
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._requests: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._in_work = 0
        self.busy_since: float | None = None
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """How many pieces wait or are being decoded."""
        waiting = (len(r.pieces) - r.next for r in self._requests if r.is_waiting())
        return sum(waiting) + self._in_work

    @property
    def is_alive(self) -> bool:
        """Whether pieces that arrive now will be decoded."""
        return self._loop_task is not None and not self._loop_task.done()

    def start(self) -> None:
        """Start to decode; needs a running event loop."""
        self._loop_task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End the thread after the batch in work; what waits is not decoded."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.wait({self._loop_task})
        self._thread.shutdown(wait=False, cancel_futures=True)

    def admit(self, pieces: int) -> None:
        """Refuse pieces for which the queue has no room."""
        if self.queued + pieces > self.limits.queue:
            raise Refusal(503, "Too many texts are waiting: try again later", BUSY)

    async def decode(self, pieces: Sequence[Piece], options: BatchOptions) -> list[Any]:
        """The result of each piece, in order; what decoding raised for any of them is raised.

        A caller that is cancelled drops its waiting pieces. A full queue is a `Refusal` (503).
        """
        self.admit(len(pieces))
        if not pieces:
            return []
        request = _Request(pieces, options, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._arrived.set()
        return await request.answer

    async def run_between_batches(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function of the model between two batches."""
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
            self.busy_since = monotonic()
            pieces = [request.pieces[number] for request, number in batch]
            options = batch[0][0].options
            results = await loop.run_in_executor(self._thread, self._decode_each, pieces, options)
            self._in_work -= len(batch)
            self.busy_since = None
            for (request, number), result in zip(batch, results, strict=True):
                request.deliver(number, result)

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

    def _decode_each(self, pieces: list[Piece], options: BatchOptions) -> list[Any]:
        """The result of each piece, or the error that the piece causes by itself."""
        try:
            return self._decode(pieces, options)
        except Exception as error:
            if len(pieces) == 1:
                return [error]
        return [self._decode_each([piece], options)[0] for piece in pieces]


class Service:
    """A translator with its queue and metrics; the beam is larger for more translations."""

    def __init__(self, translator: "Translator", beam: int, limits: Limits) -> None:
        self.translator, self.beam, self.limits = translator, beam, limits
        self.languages = Languages(translator.source_language, translator.target_language)
        self.batcher = Batcher(self._decode, limits)
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        seconds = partial(Histogram, registry=self.registry, buckets=SECONDS)
        self._requests = counter("vaswani_requests", "Requests answered.", ["path", "status"])
        self._seconds = seconds("vaswani_request_seconds", "Time to answer.", ["path"])
        self._counts = {
            name: counter(f"vaswani_{name}", f"{name.title()} translated.")
            for name in ("lines", "characters", "subwords")
        }
        queue = gauge("vaswani_queue_lines", "Lines that wait or are in work.")
        queue.set_function(lambda: self.batcher.queued)
        age = gauge("vaswani_batch_age_seconds", "Age of the batch in work.")
        age.set_function(lambda: monotonic() - at if (at := self.batcher.busy_since) else 0)

    def request_done(self, path: str, status: int, seconds: float, **counts: int) -> None:
        """Count an answered request; `counts`: its lines, characters, subwords."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)
        if status == 200:
            for name, count in counts.items():
                self._counts[name].inc(count)

    def _decode(self, pieces: list[Piece], options: BatchOptions) -> list[Any]:
        beam = max(self.beam, options.nbest)
        return self.translator.decode(pieces, beam=beam, **options._asdict())

    async def translate(
        self, texts: list[str], options: BatchOptions
    ) -> tuple[list["Translation"], int]:
        """A `Translation` of each text, and how many subwords all have."""
        is_long = sum(map(len, texts)) > SHORT
        sources = await asyncio.to_thread(self._read, texts) if is_long else self._read(texts)
        pieces = [piece for source in sources for piece in source.pieces]
        check_size(len(pieces), self.limits.queue, "sentences")
        rest = iter(await self.batcher.decode(pieces, options))
        joined = [self.translator.join(source, rest, options.nbest) for source in sources]
        return joined, sum(map(len, pieces))

    def _read(self, texts: list[str]) -> list["Source"]:
        """The pieces of texts, as long as they are within the limit of a request."""
        sources: list[Source] = []
        count, most = 0, self.limits.subwords
        for text in texts:
            sources.append(self.translator.read(text, long="split"))
            count += sum(map(len, sources[-1].pieces))
            if count > most:
                raise Refusal(413, f"Invalid request: it has more than {most} subwords")
        return sources

    async def attention(self, source: str, target: str) -> Any:
        """The attention weights of every layer and head for a sentence and its translation."""
        return await self.batcher.run_between_batches(self._attend, source, target)

    def _attend(self, source: str, target: str) -> Any:
        # A word has at least one subword: most long texts are refused before they are coded.
        most = self.limits.attention_tokens
        for text in (source, target):
            if len(text.split()) > most or self.translator.count_tokens(text) > most:
                raise Refusal(413, f"Attention is shown of at most {most} subwords")
        return self.translator.attention(source, target)
