"""The service without HTTP: a translator with its queue, gate, counts and log."""

from collections.abc import Iterable
from time import monotonic
from typing import Any, Protocol

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.batching import Batcher, Options
from vaswani_plugin.serving.keys import Gate
from vaswani_plugin.serving.limits import BatchLimits, Limits, Refusal
from vaswani_plugin.serving.monitoring import Log, Monitor
from vaswani_plugin.serving.texts import Languages


class Translator(Protocol):
    """The part of `inference.translator.Translator` that the service uses."""

    source_language: str
    target_language: str

    def translate(self, texts: Iterable[str], **options: Any) -> Any:
        """Translations of the texts, in order."""

    def attention(self, source: str, target: str | None = None) -> Any:
        """The weights of every layer and head."""

    def count_tokens(self, text: str) -> int:
        """How many subwords a text has."""


class Service:
    """A translator with its queue, gate, counts and log.

    Args:
        translator: answers one call at a time, in a thread of the service.
        beam: width of the search; larger for a request of more translations.
        limits: of a request.
        batch_limits: of a batch.
        keys: as `keys.read_keys` gives them; None lets everyone pass.
        log: of events.
    """

    def __init__(
        self,
        translator: Translator,
        beam: int,
        limits: Limits,
        batch_limits: BatchLimits,
        keys: dict[str, int | None] | None,
        log: Log,
    ) -> None:
        self.translator, self.beam, self.limits, self.log = translator, beam, limits, log
        self.languages = Languages(translator.source_language, translator.target_language)
        self.gate = Gate(keys, limits.requests_per_minute)
        self.needs_key = keys is not None
        self.monitor = Monitor()
        self.batcher = Batcher(self._search, batch_limits, limits.queue_lines, self.monitor)
        self.monitor.show(
            "vaswani_queue_lines", "Lines that wait or are in work.", lambda: self.batcher.queued
        )
        self.is_stopping = False

    def _search(self, lines: list[str], options: Options) -> list[Any]:
        found: list[Any] = self.translator.translate(
            lines,
            beam=max(self.beam, options.nbest),
            nbest=options.nbest,
            align=options.align,
            long="split",
        )
        return found

    async def translate(self, lines: list[str], options: Options) -> list[Any]:
        """A `Translation` of each line.

        Raises:
            Refusal: the queue is full, or a line can't be translated.
        """
        try:
            return await self.batcher.translate(lines, options)
        except UserError as error:
            raise Refusal(400, f"Cannot translate text: {error}") from error

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

    def health(self) -> str | None:
        """The problem of the service; None if it works."""
        if self.is_stopping:
            return "stopping"
        if not self.batcher.is_alive:
            return "the queue has stopped"
        since = self.batcher.busy_since
        if since is not None and monotonic() - since > self.limits.seconds:
            return "a batch takes too long"
        return None
