"""Raw text in, translations out.

    translator = Translator.from_pretrained("work/quickstart/model")
    print(translator.translate("The doctor sleeps.").text)

`bundle.py` chooses the engine that a bundle was made for.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack, overload

from vaswani_plugin.errors import UserError, check_ranges, require_choice
from vaswani_plugin.inference import runner
from vaswani_plugin.inference.bundle import Bundle, Engine, Pretrained, load_engine
from vaswani_plugin.inference.runner import (
    Batches,
    Hypothesis,
    Score,
    TextTooLong,
    Tokens,
    Translation,
)
from vaswani_plugin.search.options import (
    PAPER_DECODING,
    Keywords,
    Options,
    SearchOptions,
    length_penalty,
    takes_options,
)
from vaswani_plugin.text.pipeline import WORD_BORDERS, Pipeline, cut
from vaswani_plugin.text.raw_text import has_words, join_sentences, split_sentences
from vaswani_plugin.text.settings import Settings

if TYPE_CHECKING:
    import torch

    from vaswani_plugin.inference.attention import Attention

LONG = ("error", "split", "truncate")
"""What to do with a sentence of more subwords than the model takes."""
USUAL_LENGTH = 250
"""Most subwords of a sentence, where a bundle does not name the longest one of its training."""
LONGER = 1.1
"""How many times the longest one of its training a sentence may be."""


class Sentence(NamedTuple):
    """A sentence's subwords, whole and in pieces that the model takes."""

    tokens: tuple[str, ...]
    pieces: list[Sequence[str]]


class Source(NamedTuple):
    """A text and its sentences."""

    text: str
    sentences: list[Sentence]

    @property
    def pieces(self) -> list[Sequence[str]]:
        """The subwords of all sentences, as the model takes them."""
        return [piece for sentence in self.sentences for piece in sentence.pieces]


class TranslateOptions(Keywords, total=False):
    """The keywords of `Translator.stream`, but progress."""

    buffer: int
    one_sentence: bool
    long: str
    align: bool


@takes_options("translate", "stream")
@takes_options("decode")
class Translator(Pretrained):
    """A trained model with its text pipeline: raw text in, raw text out. Threads may share one."""

    kind = Settings

    def __init__(self, pipeline: Pipeline, engine: Engine) -> None:
        assert isinstance(pipeline.settings, Settings)
        self.pipeline, self.settings, self.engine = pipeline, pipeline.settings, engine
        self.source_language = self.settings.source_language
        self.target_language = self.settings.target_language
        """Names of the languages, such as "en" and "de"."""
        self.longest_source, self.longest_target = engine.longest_source, engine.longest_target
        """Most subwords of a text that is translated in one piece, and of a translation."""
        self._target_pipeline = pipeline.of_target()  # now: its files may change later

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        device: "str | torch.device" = "cpu",
        dtype: "str | torch.dtype | None" = None,
        threads: int | None = None,
        engine: str | None = None,
    ) -> Self:
        """Load a bundle, as the recipes make it.

        Args:
            folder: of the bundle.
            device: where to decode, such as "cpu" or "cuda".
            dtype: of the weights, such as torch.bfloat16 or "bfloat16"; None: as they are stored.
            threads: of the CPU, for each call; None: the engine's choice.
            engine: one of `bundle.ENGINES`; None: the one that the bundle was made for.

        Raises:
            ForeignModel: only fairseq builds this model; names the commands that read it.
            ValueError: the folder is not a bundle of a translation model, or a file in it can't be
                used; names it.
            OSError: a file can't be read.
        """
        return cls._loaded_by(folder, device=device, dtype=dtype, threads=threads, engine=engine)

    @classmethod
    def of_bundle(cls, bundle: Bundle, *, engine: str | None, **options: Any) -> Self:
        return cls(bundle.pipeline, load_engine(bundle, engine, **options))

    def count_tokens(self, text: str) -> int:
        """How many subwords a source text has, the end of sentence not counted."""
        return len(runner.encode(text, self.pipeline))

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, progress: bool = False, **options: Unpack[TranslateOptions]
    ) -> Translation: ...

    @overload
    def translate(
        self, texts: Iterable[str], *, progress: bool = False, **options: Unpack[TranslateOptions]
    ) -> list[Translation]: ...

    def translate(
        self, texts: str | Iterable[str], *, progress: bool = False, **options: Any
    ) -> Translation | list[Translation]:
        """Translate one text or many.

        Args:
            texts: one or several, of any number of sentences, which are translated one by one. A
                line break within a text counts as a space.
            progress: show a bar on standard error.
            options: of `stream`: beam, nbest, length_penalty, align, long, one_sentence, sampling,
                top_k, top_p, temperature, seed, no_repeat_ngram, batch_tokens.

        Returns:
            The translation; of several texts a list. A text without letters and digits is its own.

        Raises:
            TextTooLong: a sentence is too long, and `long` is "error", the default.
            UserError: options that don't fit together.
        """
        return runner.one_or_many(texts, partial(self.stream, progress=progress, **options))

    def stream(
        self,
        lines: Iterable[str],
        *,
        buffer: int = 1000,
        one_sentence: bool = False,
        long: str = "error",
        align: bool = False,
        progress: bool = False,
        **options: Unpack[Keywords],
    ) -> Iterator[Translation]:
        """Translate a stream of texts, `buffer` at a time.

        Args:
            lines: the texts; may be endless.
            buffer: how many texts are read before they are translated. More texts make better
                batches; fewer show results sooner.
            one_sentence: take each text as one sentence. Without it, sentences are translated one
                by one, and one much longer than the longest in training in pieces.
            long: what to do with a sentence of more subwords than the model takes: "error", "split"
                it into pieces that are translated one by one, or "truncate" it.
            align: also find the source subword of each target subword.
            progress: show a bar on standard error, which moves with every batch.
            options: of `Options`, such as beam=4, nbest=2.

        Returns:
            An iterator over the translation of each text, in order. It raises TextTooLong, or an
            error of `lines`, after the translations of the earlier texts.

        Raises:
            UserError: options that don't fit together.
        """
        require_choice("long", long, *LONG)
        chosen, search = self._options(align, options)

        def read(number: int, text: str) -> Source:
            return self.read(text, number=number, long=long, one_sentence=one_sentence)

        def translations(sources: list[Source], batches: Batches) -> Iterator[Translation]:
            pieces = [piece for source in sources for piece in source.pieces]
            decoded = iter(batches.answers(pieces, self._decoding(pieces, search)))
            return (self.join(source, decoded, chosen.nbest) for source in sources)

        return runner.run(lines, read, translations, buffer, chosen, "sentences", progress)

    def read(
        self, text: str, *, number: int = 1, long: str = "error", one_sentence: bool = False
    ) -> Source:
        """The sentences of a text in pieces for the model: the first step of `translate`.

        A sentence much longer than the longest one in training is cut into pieces; where the text
        is taken as one sentence, only one of more subwords than the model takes. A caller with a
        queue of its own decodes pieces of many texts together (`decode`), and `join`s those of a
        text. `number` is the text's, for errors.
        """
        plain = runner.one_line(text, f"text {number}")
        most = longest = self.longest_source
        texts = [plain]
        if not one_sentence:
            texts = split_sentences(plain, self.source_language)
            trained = self.settings.longest_trained
            most = min(longest, int(LONGER * trained) if trained else USUAL_LENGTH)
        borders = WORD_BORDERS[self.pipeline.subwords]
        sentences = []
        for sentence in texts:
            tokens = runner.encode(sentence, self.pipeline) if has_words(sentence) else ()
            if len(tokens) > longest and long == "error":
                raise TextTooLong(number, len(tokens), longest)
            kept = tokens[:longest] if long == "truncate" else tokens
            sentences.append(Sentence(tokens, list(cut(kept, most, borders)) if kept else []))
        return Source(text, sentences)

    def decode(
        self, pieces: Sequence[Sequence[str]], *, align: bool = False, **options: Unpack[Keywords]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each of some pieces, the best one first: the second step."""
        chosen, search = self._options(align, options)
        return Batches(chosen).answers(pieces, self._decoding(pieces, search))

    def join(self, source: Source, decoded: Iterator[list[Hypothesis]], nbest: int) -> Translation:
        """The translation of a text from its pieces' hypotheses, the next items of `decoded`.

        This is the last step. A text without words is its own translation.
        """
        parts: list[tuple[int, list[Hypothesis]]] = []
        shown: list[list[str]] = []  # of each sentence: the texts of its hypotheses
        for sentence in source.sentences:
            if sentence.pieces:
                joined = join_pieces([(len(piece), next(decoded)) for piece in sentence.pieces])
                parts.append((len(sentence.tokens), joined))
                lines = (" ".join(each.tokens) for each in joined[:nbest])
                shown.append(list(map(self.pipeline.decode, lines)))
        tokens = tuple(token for sentence in source.sentences for token in sentence.tokens)
        hypotheses = tuple(
            whole._replace(text=join_sentences(texts, self.target_language))
            for whole, *texts in zip(join_pieces(parts)[:nbest], *shown, strict=False)
        )
        if not hypotheses:
            kept = "" if source.text.isspace() else " ".join(source.text.splitlines())
            hypotheses = (Hypothesis(kept, 0.0, (), (), ()),)
        return Translation(source.text, tokens, hypotheses)

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_tokens: int = 4096,
        length_penalty: float = PAPER_DECODING["lenpen"],
        one_sentence: bool = False,
    ) -> list[Score]:
        """The scores of given translations, in the units of `translate`.

        Args:
            pairs: source and target as text, none of the sources empty. Where both have as many
                sentences, each is scored with its own, as `translate` does; otherwise the text is
                taken as one sentence.
            batch_tokens: most target subwords scored at once, padding included.
            length_penalty: alpha of `Score.score`.
            one_sentence: take each text as one sentence.

        Returns:
            A score for each pair, in their order.

        Raises:
            UserError: what is no pair, an empty source or too long a text, by its number.
        """
        check_ranges(batch_tokens=batch_tokens, length_penalty=length_penalty)
        languages = self.source_language, self.target_language
        encoded, counts = [], []
        for n, pair in enumerate(pairs, start=1):
            if isinstance(pair, str) or len(pair) != 2:
                raise UserError(f"pair {n} is no (source, target): give a list of pairs of texts")
            names = f"source {n}", f"target {n}"
            lines = list(map(runner.one_line, pair, names))
            sides = [*map(split_sentences, lines, languages)]
            if one_sentence or len(sides[0]) != len(sides[1]):
                sides = [lines[:1], lines[1:]]
            counts.append(len(sides[0]))
            for source, target in zip(*sides, strict=True):
                tokens = runner.encode_whole(source, self.pipeline, names[0], self.longest_source)
                longest, pipeline = self.longest_target, self._target_pipeline
                encoded.append(
                    (tokens, runner.encode_whole(target, pipeline, names[1], longest, 0))
                )

        def answer(batch: list[int], _: int | None) -> list[tuple[float, ...]]:
            return self.engine.score(*zip(*(encoded[n] for n in batch), strict=True))

        batches = Batches(Options(batch_tokens=batch_tokens))
        scores = batches.answers([max(pair, key=len) for pair in encoded], answer)
        scored = zip((target for _, target in encoded), scores, strict=True)
        return [_joined_score([*islice(scored, n)], length_penalty) for n in counts]

    def attention(self, source: str, target: str | None = None) -> "Attention":
        """The attention weights of every layer and head (section 3.2.3).

        Args:
            source: one sentence; unlike `translate` and `score` this splits no text.
            target: its translation as text; None: the best translation of the search.

        Raises:
            UserError: a sentence is empty or too long, or the model has no weights to show.
        """
        from vaswani_plugin.inference.attention import Attention

        source_tokens = runner.encode_whole(
            source, self.pipeline, "the source", self.longest_source
        )
        if target is None:
            target_tokens = self.decode([source_tokens])[0][0].tokens
        else:
            pipeline = self._target_pipeline
            target_tokens = runner.encode_whole(target, pipeline, "the target", self.longest_target)
        raw = self.engine.attention(source_tokens, target_tokens)
        text = self.pipeline.decode(" ".join(target_tokens))
        return Attention.of(source, text, (source_tokens, target_tokens), raw)

    def _options(self, align: bool, options: Keywords) -> tuple[Options, SearchOptions]:
        chosen, paper = Options(**options), dict(PAPER_DECODING)
        paper["beam"] = self.settings.beam or paper["beam"]
        return chosen, chosen.search(**paper, print_alignment="hard" if align else None)

    def _decoding(
        self, pieces: Sequence[Sequence[str]], search: SearchOptions
    ) -> Callable[[list[int], int | None], list[list[Hypothesis]]]:
        return lambda batch, seed: self.engine.decode([pieces[n] for n in batch], search, seed)


def _joined_score(parts: list[tuple[Tokens, tuple[float, ...]]], alpha: float) -> Score:
    """The score of a text from its sentences' subwords and their log P."""
    tokens, rows = (tuple(chain(*side)) for side in zip(*parts, strict=True))
    penalized = (sum(row) / length_penalty(len(row), alpha) for _, row in parts)
    return Score(sum(rows), tokens, rows, sum(penalized))


def join_pieces(pieces: list[tuple[int, list[Hypothesis]]]) -> list[Hypothesis]:
    """Join the hypotheses of a text's pieces: the best ones, the second best ones, and so on.

    Each piece has its number of source subwords and its hypotheses. Tokens and token scores are
    concatenated, scores are added, and alignments count from the text's first subword.
    """
    if not pieces:
        return []
    source_start, whole = pieces[0]
    for length, piece in pieces[1:]:
        whole = [
            Hypothesis(
                "",
                first.score + second.score,
                first.tokens + second.tokens,
                first.token_scores + second.token_scores,
                first.alignment
                + tuple((s + source_start, t + len(first.tokens)) for s, t in second.alignment),
            )
            for first, second in zip(whole, piece, strict=False)
        ]
        source_start += length
    return whole
