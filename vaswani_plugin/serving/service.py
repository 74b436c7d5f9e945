"""The service without HTTP: a translator with its queue, gate, counts and log."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.batching import Batcher, Options, Piece
from vaswani_plugin.serving.limits import Gate, Limits, Refusal
from vaswani_plugin.serving.monitoring import Log, Monitor
from vaswani_plugin.serving.texts import Languages, check_size

if TYPE_CHECKING:
    from vaswani_plugin.inference.results import Translation
    from vaswani_plugin.inference.sources import Source
    from vaswani_plugin.inference.translator import Translator


SHORT = 1000
"""Characters that are coded at once; a longer text would hold up other requests."""


class Service:
    """A translator with its queue, gate, counts and log.

    Args:
        translator: answers one call of `decode` and `attention` at a time, in a thread.
        beam: width of the search; larger for a request of more translations.
        limits: of a request and of the queue.
        keys: as `limits.read_keys` gives them; None lets everyone pass.

    Attributes:
        is_stopping: whether SIGTERM has come.
        count_connections: how many clients are connected.
    """

    def __init__(
        self,
        translator: "Translator",
        beam: int,
        limits: Limits,
        keys: dict[str, int | None] | None = None,
    ) -> None:
        self.translator, self.beam, self.limits = translator, beam, limits
        self.languages = Languages(translator.source_language, translator.target_language)
        self.gate = Gate(keys, limits.requests_per_minute)
        self.needs_key = keys is not None
        self.log = Log()
        gauges = {
            "vaswani_queue_lines": ("Lines that wait or are in work.", lambda: self.batcher.queued),
            "vaswani_batch_age_seconds": ("Age of the batch in work.", self._age_of_batch),
        }
        self.monitor = Monitor(gauges)
        self.batcher = Batcher(self._decode, limits, self.monitor.batch_done)
        self.is_stopping = False
        self.count_connections: Callable[[], int] = lambda: 0

    def _age_of_batch(self) -> float:
        since = self.batcher.busy_since
        return 0.0 if since is None else monotonic() - since

    def _decode(self, pieces: list[Piece], options: Options) -> list[Any]:
        beam = max(self.beam, options.nbest)
        return self.translator.decode(pieces, beam=beam, **options._asdict())

    async def translate(
        self, texts: list[str], options: Options
    ) -> tuple[list["Translation"], int]:
        """A `Translation` of each text, and how many subwords all have.

        Raises:
            Refusal: the queue is full, or a text can't be translated or is too long.
        """
        try:
            if sum(map(len, texts)) > SHORT:
                sources = await asyncio.to_thread(self._read, texts)
            else:
                sources = self._read(texts)
            pieces = [piece for source in sources for piece in source.pieces]
            check_size(len(pieces), self.limits.queue)
            decoded = await self.batcher.decode(pieces, options)
        except UserError as error:
            raise Refusal(400, f"Cannot translate text: {error}") from error
        rest = iter(decoded)
        join, nbest = self.translator.join, options.nbest
        return [join(source, rest, nbest) for source in sources], sum(map(len, pieces))

    def _read(self, texts: list[str]) -> list["Source"]:
        """The pieces of texts, as long as they are within the limit of a request."""
        sources: list[Source] = []
        count = 0
        for text in texts:
            sources.append(self.translator.read(text, long="split"))
            count += sum(map(len, sources[-1].pieces))
            if count > self.limits.subwords:
                raise Refusal(
                    413, f"Invalid request: it has more than {self.limits.subwords} subwords"
                )
        return sources

    async def attention(self, source: str, target: str) -> Any:
        """The attention weights of every layer and head for a sentence and its translation.

        Raises:
            Refusal: a sentence is too long, or has no words.
        """
        try:
            return await self.batcher.run_between_batches(self._attend, source, target)
        except UserError as error:
            raise Refusal(400, f"Cannot translate text: {error}") from error

    def _attend(self, source: str, target: str) -> Any:
        # A word has at least one subword: most long texts are refused before they are coded.
        most = self.limits.attention_tokens
        for text in (source, target):
            if len(text.split()) > most or self.translator.count_tokens(text) > most:
                raise Refusal(413, f"Attention is shown of at most {most} subwords")
        return self.translator.attention(source, target)
