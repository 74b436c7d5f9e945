"""The commands that preparation.py measures: of the plain pipeline and of ours, step by step."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from measurement import Command, Measurement, measure

ROOT = Path(__file__).resolve().parents[2]
THRESHOLD = 50  # of the vocabulary, as subword-nmt's README advises


def script(name: str, *arguments: object) -> Command:
    """One of the scripts of data-prep."""
    return Command([sys.executable, ROOT / "data-prep" / name, *arguments])


class Pipelines:
    """The commands of both pipelines and where their files are."""

    def __init__(self, work: Path, pair: tuple[str, str], workers: int, operations: int) -> None:
        self.work, self.pair, self.workers, self.operations = work, pair, workers, operations

    def path(self, *parts: str) -> Path:
        """The path of a file in the work folder; creates the file's folder."""
        path = self.work.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def plain_program(self, name: str) -> Path:
        """A program of the environment, which need not be activated."""
        return Path(sys.executable).parent / name

    def plain(self, step: str, lines: int, folder: str = "plain") -> Measurement:
        """Runs a step of the plain pipeline in a folder that has raw text.

        The step `learn` reads the text that our pipeline tokenized.
        """
        return measure(lines, *getattr(self, f"plain_{step}")(folder))

    def ours(self, step: str, lines: int) -> Measurement:
        """Runs a step of our pipeline."""
        return measure(lines, *getattr(self, f"our_{step}")())

    def plain_tokenize(self, folder: str) -> Iterator[list[Command]]:
        for language in self.pair:
            program = [self.plain_program("sacremoses"), "-l", language, "-j", self.workers, "-q"]
            raw, tokens = (self.path(folder, f"{kind}.{language}") for kind in ("raw", "tok"))
            yield [Command([*program, "normalize", "tokenize"], raw, tokens)]

    def our_tokenize(self) -> Iterator[list[Command]]:
        for language in self.pair:
            files = ("--input", self.path("ours", f"raw.{language}"))
            files = (*files, "--output", self.path("ours", f"tok.{language}"))
            options = ("--language", language, "--workers", self.workers)
            yield [script("normalize_tokenize.py", *options, *files)]

    def _tokens(self, whose: str) -> list[Path]:
        return [self.path(whose, f"tok.{language}") for language in self.pair]

    def plain_learn(self, folder: str) -> Iterator[list[Command]]:
        program = [self.plain_program("subword-nmt"), "learn-joint-bpe-and-vocab"]
        options = ["--symbols", self.operations, "--num-workers", self.workers]
        vocabularies = [self.path(folder, f"vocabulary.{language}") for language in self.pair]
        files = ["--input", *self._tokens("ours"), "--output", self.path(folder, "codes")]
        yield [Command([*program, *options, *files, "--write-vocabulary", *vocabularies])]

    def our_learn(self) -> Iterator[list[Command]]:
        workers = ("--workers", self.workers)
        codes = self.path("ours", "codes")
        inputs = ("--input", *self._tokens("ours"), "--output", codes)
        yield [script("bpe.py", "learn", "--operations", self.operations, *inputs, *workers)]
        for language, tokens in zip(self.pair, self._tokens("ours"), strict=True):
            units = self.path("ours", f"all.{language}")
            vocabulary = self.path("ours", f"vocabulary.{language}")
            files = ("--input", tokens, "--output", units)
            yield [script("bpe.py", "apply", "--codes", codes, *files, *workers)]
            files = ("--input", units, "--output", vocabulary)
            yield [script("bpe.py", "vocabulary", *files, *workers)]

    def _apply_options(self, whose: str, language: str) -> tuple[object, ...]:
        vocabulary = self.path("ours", f"vocabulary.{language}")
        restricted = ("--vocabulary", vocabulary, "--vocabulary-threshold", THRESHOLD)
        files = ("--input", self.path(whose, f"tok.{language}"))
        return (*files, "--output", self.path(whose, f"train.{language}"), *restricted)

    def plain_apply(self, folder: str) -> Iterator[list[Command]]:
        commands = []
        for language in self.pair:
            program = [self.plain_program("subword-nmt"), "apply-bpe"]
            program += ["--codes", self.path("ours", "codes")]
            commands.append(Command([*program, *self._apply_options(folder, language)]))
        # This command has only one process; with two workers, the languages run in parallel.
        yield from [commands] if self.workers > 1 else [[command] for command in commands]

    def our_apply(self) -> Iterator[list[Command]]:
        for language in self.pair:
            options = ("--codes", self.path("ours", "codes"), "--workers", self.workers)
            yield [script("bpe.py", "apply", *options, *self._apply_options("ours", language))]

    def plain_binarize(self, folder: str) -> Iterator[list[Command]]:
        shutil.rmtree(self.work / folder / "data-bin", ignore_errors=True)
        command = [self.plain_program("fairseq-preprocess"), "--joined-dictionary"]
        command += ["--source-lang", self.pair[0], "--target-lang", self.pair[1]]
        command += ["--trainpref", self.path(folder, "train")]
        command += ["--validpref", self.path("held-out"), "--testpref", self.path("held-out")]
        command += ["--workers", self.workers, "--destdir", self.path(folder, "data-bin")]
        yield [Command(command)]

    def our_binarize(self, train: str = "ours", output: str = "data-bin") -> Iterator:
        options = ["--pair", "-".join(self.pair), "--workers", self.workers]
        options += ["--train", self.path(train, "train")]
        options += ["--valid", self.path("held-out"), "--test", self.path("held-out")]
        yield [script("binarize.py", *options, "--output", self.path("ours", output))]
