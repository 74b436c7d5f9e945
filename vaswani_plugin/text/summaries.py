"""Reads articles and their summaries from published formats.

    scitldr   a JSON object a line (plain or .gz): `source`, the article's sentences, and `target`,
              its summaries (Cachola et al. 2020)
    csv       columns `article` and `highlights` (CNN/Daily Mail as a table, Hermann et al. 2015)
    jsonl     the output of `write_examples`: `article`, its sentences, and `references`

White space of any kind becomes single spaces. An article is one line; a summary in the .jsonl keeps
a line a sentence, where its source has it so, for ROUGE-Lsum.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import join_words, read_lines
from vaswani_plugin.files.outputs import write_atomically

_SENTENCE_END = re.compile(r"""(?<=[.!?])(["'”’)\]]*)\s+(?=["'“‘(\[]?[^\W_a-z])""")


@dataclass(frozen=True)
class Example:
    """The sentences of an article, and its summaries."""

    article: list[str]
    references: list[str]


def split_at_stops(text: str) -> list[str]:
    """Splits after . ! or ? (and closing quotes) if a space and no lower-case letter follow.

    The rule serves lead baselines; it also splits after an abbreviation before a name.
    """
    marked = _SENTENCE_END.sub(lambda end: f"{end[1]}\n", join_words(text))
    return [sentence for sentence in marked.split("\n") if sentence]


def _cleaned(sentences: list[str], references: list[str]) -> Example:
    lines = ["\n".join(filter(None, map(join_words, text.split("\n")))) for text in references]
    return Example(list(filter(None, map(join_words, sentences))), list(filter(None, lines)))


def _read_json(path: str, keys: tuple[str, str]) -> Iterator[Example]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            texts = [json.loads(line)[key] for key in keys]
            if str in map(type, texts):
                raise TypeError("a text instead of a list")
            example = _cleaned(*texts)
            " ".join(example.article + example.references).encode()  # JSON allows half a pair
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            must = f"must be a JSON object with the lists of texts {' and '.join(keys)}"
            raise UserError(f"{path}:{number}: {must} ({error!r:.60})") from error
        yield example


def read_examples(path: str) -> Iterator[Example]:
    """Yields the examples of a .jsonl file that `write_examples` wrote."""
    return _read_json(path, ("article", "references"))


def read_csv(path: str) -> Iterator[Example]:
    """Yields the rows of a table."""
    # Fields may hold line breaks, so the csv module needs the line ends.
    rows = csv.DictReader((f"{line}\n" for line in read_lines(path)), strict=True)
    csv.field_size_limit(1 << 24)
    try:
        for row in rows:
            article, highlights = row.get("article"), row.get("highlights")
            if article is None or highlights is None or None in row:
                columns = f"the table's columns are {', '.join(rows.fieldnames or [])}"
                fault = f"no article, no highlights, or a field too many here; {columns}"
                raise UserError(f"{path}:{rows.line_num}: {fault}")
            yield _cleaned(split_at_stops(article), [highlights])
    except csv.Error as error:  # of a row that begins after line_num
        advice = "fetch the file again, or double the quotes inside this row's fields"
        raise UserError(f"{path}:{rows.line_num + 1}: {error}: {advice}") from error


READERS: dict[str, Callable[[str], Iterator[Example]]] = {
    "scitldr": lambda path: _read_json(path, ("source", "target")),
    "csv": read_csv,
    "jsonl": read_examples,
}


def output_paths(prefix: str) -> list[str]:
    """Names the files of `write_examples`."""
    return [f"{prefix}.{ending}" for ending in ("article", "summary", "jsonl")]


def write_examples(examples: Iterator[Example], prefix: str) -> tuple[int, int]:
    """Writes PREFIX.article, PREFIX.summary (the first reference) and PREFIX.jsonl (everything).

    Returns the number of examples written, and that of those without article or summary.
    """
    written = dropped = 0
    with ExitStack() as stack:
        article, summary, whole = (
            stack.enter_context(write_atomically(path)) for path in output_paths(prefix)
        )
        for example in examples:
            if not example.article or not example.references:
                dropped += 1
                continue
            article(" ".join(example.article))
            summary(join_words(example.references[0]))
            whole(json.dumps(asdict(example), ensure_ascii=False))
            written += 1
        if not written:
            raise UserError(f"{prefix}: no example with an article and a summary")
    return written, dropped
