"""Extracts the sentences of files with markup, one a line, in the order of the files.

    sentences.py de-en/IWSLT14.TED.dev2010.de-en.de.xml de-en/IWSLT14.TEDX.dev2012.de-en.de.xml
    sentences.py de-en/train.tags.de-en.de --output raw/train.de

Files with <seg> are test sets in SGML or XML, as of IWSLT and WMT: each <seg> is a line. Regular
expressions read them, because many are not valid XML (bare "&", several roots). Other files are
IWSLT's training text: a sentence a line, with lines of metadata between them, which are left out;
titles and descriptions are sentences too. Entities are resolved in both.

fairseq's prepare-iwslt14.sh drops only the lines of <url>, <talkid> and <keywords>, and keeps
entities. `sacrebleu --echo` gives WMT's test sets by their names.
"""

import html
import re
from collections.abc import Iterator
from html.entities import html5
from itertools import zip_longest

from checkout import parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import read_text
from vaswani_plugin.text.outputs import check_outputs, write_atomically

_SEGMENT = re.compile(r"<seg\b[^>]*>|</seg>", re.IGNORECASE)
# An entity needs its semicolon: "AT&T" and addresses with "&copy=" hold no entity.
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]*);")
_METADATA = re.compile(
    r"\s*</?(?:url|keywords|speaker|talkid|reviewer|translator|doc|file)\b", re.IGNORECASE
)
_TITLE_TAGS = re.compile(r"</?(?:title|description)>", re.IGNORECASE)


def _character(entity: re.Match[str]) -> str:
    if entity[1].startswith("#"):
        return html.unescape(entity[0])
    # `html.unescape` would turn the unknown "&notice;" into "¬ice;".
    return html5.get(f"{entity[1]};", entity[0])


def resolved(text: str) -> str:
    """Returns a text with its entities resolved, on one line."""
    # Entities first: an entity may be a line end, which must not split the line.
    lines = re.split(r"[\r\n]", _ENTITY.sub(_character, text))
    return " ".join(filter(None, (line.strip() for line in lines)))


def sentences(path: str) -> Iterator[str]:
    """Yields the sentences of a file."""
    content = "\n".join(read_text(path, returns_inside=True))
    tags = list(_SEGMENT.finditer(content))
    if not tags:
        lines = (line for line in content.split("\n") if not _METADATA.match(line))
        yield from (resolved(_TITLE_TAGS.sub("", line)) for line in lines)
        return
    for opening, closing in zip_longest(tags[::2], tags[1::2]):
        if opening[0].startswith("</") or closing is None or not closing[0].startswith("</"):
            line = content.count("\n", 0, opening.start()) + 1
            raise UserError(f"{path}:{line}: <seg> without </seg>: damaged: fetch the file again")
        yield resolved(content[opening.end() : closing.start()])


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    flags.add_argument("input", nargs="+", metavar="FILE", help="plain or .gz")
    flags.add_argument("--output", default="-", help="file (default: standard output)")
    args = flags.parse_args()
    check_outputs("--output", [args.output], args.input)
    with write_atomically(args.output) as write:
        for path in args.input:
            for sentence in sentences(path):
                write(sentence)


if __name__ == "__main__":
    run(main)
