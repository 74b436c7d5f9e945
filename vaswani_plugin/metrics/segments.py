"""Segments to score: text files, one segment a line, and the output of fairseq-generate."""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unicodedata import is_normalized

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_text
from vaswani_plugin.text.bpe import join_bpe
from vaswani_plugin.text.raw_text import punctuation_stands

_LOADED = re.compile(r"loaded ([\d,]+) examples from: (.+)\.[^.\s]+$")  # the last part: a language
_NUMBERED = re.compile(r"[HDT]-[0-9]+(\t|$)")
_DAMAGED = "<<unk>>"  # fairseq-generate writes it into T lines for each word that is unknown
_WITHOUT_SPACES = (  # Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_CHARACTER = re.compile(f"([{_WITHOUT_SPACES}])")


def first_gap(numbers: Container[int]) -> int:
    """The lowest number from 0 on that is missing."""
    return next(number for number in count() if number not in numbers)


def has_no_spaces(lines: Sequence[str]) -> bool:
    """Whether most of a text is in scripts without spaces between words."""
    letters = sum(sum(map(str.isalpha, line)) for line in lines)
    return 2 * sum(len(_CHARACTER.findall(line)) for line in lines) > letters


def part_characters(line: str) -> str:
    """A line with spaces around the characters of scripts that put none between words."""
    return line if line.isascii() else _CHARACTER.sub(r" \1 ", line)


def decomposed(texts: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Warnings about texts, by name, with accents as characters of their own (Unicode's NFD)."""
    return [
        f"{others:,} of {len(lines):,} lines of {name} are not in Unicode's form NFC: an accent "
        "that is a character of its own matches no letter with this accent; convert both sides"
        for name, lines in texts
        if (others := sum(not is_normalized("NFC", line) for line in lines))
    ]


@dataclass
class GenerateOutput:
    """The output of fairseq-generate in the order of the corpus, "@@ " pieces joined."""

    hypotheses: list[str]  # its H lines: tokens
    detokenized: list[str]  # its D lines
    references: list[str]  # its T lines; empty where the data has no target side


def read_generate_output(path: Path, total: int | None = None) -> GenerateOutput:
    """Read the output of fairseq-generate; only the first (best) entry of an n-best list is kept.

    `total` is the number of sentences; None: the log in the file tells. Refused are missing
    sentences, several outputs, and an unknown total.
    """
    is_ended, last = False, ""
    segments: dict[str, dict[int, str]] = {"H": {}, "D": {}, "T": {}}
    loaded: dict[str, int] = {}
    for line in read_text(path, returns_inside=True):
        letter, fields = line[:1], line[2:].split("\t")
        if not _NUMBERED.match(line):
            if match := _LOADED.search(line):  # the log
                loaded[match[2]] = int(match[1].replace(",", ""))
            is_ended = is_ended or line.startswith("Generate ")
            continue  # S and P lines
        if letter == "H" and fields[0] != last:
            last = fields[0]
            if int(last) in segments["H"]:
                raise UserError(f"{path}: sentence {last} stands twice; give one run's output")
        text = fields[1:] if letter == "T" else fields[2:]
        if text:  # a line that is cut off is a missing one
            segments[letter].setdefault(int(fields[0]), "\t".join(text))
    if not segments["H"]:
        raise UserError(f"{path}: no H lines; give fairseq-generate's output, without --quiet")
    if total is None and not loaded:
        raise UserError(
            f"{path}: it does not tell how many sentences there are, so that skipped ones might be "
            "missing: give --count N, --source FILE or --reference FILE, or the output of "
            "fairseq-generate --user-dir vaswani_plugin as it is, which holds its log"
        )
    if loaded and segments["T"] and not is_ended:
        raise UserError(f"{path}: cut off: it does not end with `Generate ... with beam=...`")
    total = max(max(segments["H"]) + 1, total or 0, sum(loaded.values()))
    for letter in ("H", "D") + (("T",) if segments["T"] else ()):
        first = first_gap(segments[letter])
        if first < total:
            missing = total - len(segments[letter])
            raise UserError(
                f"{path}: no {letter} line of sentence {first} ({missing} of {total} missing): cut "
                "off, or fairseq-generate skipped some (--skip-invalid-size-inputs-valid-test)"
            )
    return GenerateOutput(*([join_bpe(x[i]) for i in sorted(x)] for x in segments.values()))


@dataclass
class Segments:
    """The text to score, as lists of equal length."""

    hypotheses: list[str]
    references: list[list[str]]  # one or more lists
    sources: list[str] | None = None
    tokenized: bool = False  # the words are separated by spaces
    warnings: list[str] = field(default_factory=list)  # what a reader of the scores must know


def read_segments(
    hypothesis: Path | None,
    generate_output: Path | None,
    references: Sequence[Path] | None,
    source: Path | None = None,
    *,
    count: int | None = None,
    tokenized: bool = False,
) -> Segments:
    """Read the text to score: a hypothesis a line, or the output of fairseq-generate.

    The latter has references in its T lines. `count` is how many sentences there must be; without
    it, its log or the other files tell. If its punctuation shows that it is tokenized, it is scored
    over its words, too.
    """
    warnings: list[str] = []
    if generate_output is None:
        if hypothesis is None or references is None:
            raise UserError("--hypothesis needs --reference FILE")
        name, hypotheses, golds = hypothesis, list(read_text(hypothesis)), list[list[str]]()
    else:
        name = generate_output
        files = (*(references or ()), *([source] if source else ()))
        other = [path for path in files if path.is_file()]  # a pipe can be read once
        total = len(list(read_text(other[0]))) if other and not count else count
        output = read_generate_output(name, total)
        if tokenized and output.hypotheses != output.detokenized:
            raise UserError(
                f"--tokenized: the references of {name} are detokenized, its H lines are not; give "
                "tokenized text with --hypothesis and --reference"
            )
        hypotheses, golds = output.detokenized, [output.references]
    if references is not None:
        golds = [_read_matching(path, name, hypotheses) for path in references]
        for path, lines in zip(references, golds, strict=True):
            if not any(map(str.strip, lines)):
                raise UserError(f"{path}: every line is blank; a reference needs words")
    elif not golds[0]:
        raise UserError(f"{name}: no T lines; give --reference FILE")
    if count not in (None, len(hypotheses)):
        raise UserError(f"{name} has {len(hypotheses)} segments, --count is {count}")
    places = list(map(str, references or [])) or [f"the T lines of {name}"]
    for place, lines in zip(places, golds, strict=True):
        if damaged := sum(_DAMAGED in line for line in lines):
            warnings.append(
                f"{damaged:,} of {len(lines):,} lines of {place} hold {_DAMAGED}, which "
                "fairseq-generate writes for words that its dictionary lacks: this is no score of "
                "the text; give the references themselves with --reference FILE"
            )
    sources = None if source is None else _read_matching(source, name, hypotheses)
    sides = list(zip((str(name), *places), (hypotheses, *golds), strict=True))
    for place, side in sides:
        begins, marked = {line[:1] for line in side} - {""}, sum("@@ " in line for line in side)
        if not tokenized and (begins == {"\u2581"} or 10 * marked > len(side)):
            raise UserError(f"{place}: subwords: give --remove-bpe [sentencepiece], or --tokenized")
    warnings += decomposed(sides)
    standing = [place for place, side in sides if punctuation_stands(side)]
    if standing and not tokenized:
        if len(standing) <= len(golds):
            remedy = "the other side does not, so their words do not match: detokenize it"
        elif generate_output is not None:
            tokenized, remedy = True, "tokenized BLEU is over its words"
        else:
            remedy = "--tokenized scores its words"
        warnings.append(f"{standing[0]} looks tokenized, which sacreBLEU is not made for; {remedy}")
    return Segments(hypotheses, golds, sources, tokenized, warnings)


def _read_matching(path: Path, other: Path, expected: list[str]) -> list[str]:
    lines = list(read_text(path))
    if len(lines) != len(expected):
        counts = f"{other} has {len(expected)} segments, {path} has {len(lines)}"
        raise UserError(f"{counts}: they must match line by line")
    return lines
