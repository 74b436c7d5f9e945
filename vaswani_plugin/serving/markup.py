"""Texts in HTML: the text between the tags is translated, the tags stay as they are.

The scanner ends a tag where the HTML standard's tokenizer does. Its time is linear in the length of
any text.
"""

import re
from collections import Counter
from html import escape, unescape

RAW = ("script", "style", "textarea", "xmp", "iframe", "noembed", "noframes")
"""Elements in which only their own end tag is a tag."""
VERBATIM = {*RAW, "code", "pre", "kbd", "samp", "svg", "math", "template"}
"""Elements whose content is no running text."""
FOREIGN = {"svg", "math"}
"""Elements of other languages than HTML."""

_NAME = re.compile(r"</?([a-z][^\t\n\f\r />]*)", re.I | re.A)
_BETWEEN = re.compile(r"[\t\n\f\r /]*")
_ATTRIBUTE = re.compile(r"[^>][^\t\n\f\r />=]*")
_EQUALS = re.compile(r"[\t\n\f\r ]*=[\t\n\f\r ]*")
_UNQUOTED = re.compile(r"[^\t\n\f\r >]*")
_COMMENT_END = re.compile(r"--!?>")
_RAW_END = {name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.I | re.A) for name in RAW}


def _tag_end(html: str, at: int) -> int:
    """The position after a tag whose name ends at `at`; the text's end if the tag has no end."""
    while (at := _BETWEEN.match(html, at).end()) < len(html):  # type: ignore[union-attr]
        if html[at] == ">":
            return at + 1
        at = _ATTRIBUTE.match(html, at).end()  # type: ignore[union-attr]
        if equals := _EQUALS.match(html, at):
            at = equals.end()
            if (quote := html[at : at + 1]) in ("'", '"'):
                at = html.find(quote, at + 1) + 1
                if at == 0:
                    break
            else:
                at = _UNQUOTED.match(html, at).end()  # type: ignore[union-attr]
    return len(html)


def _markup_end(html: str, at: int) -> tuple[int, str]:
    """The position after the markup that begins at `at`, and the tag's name; `at` if none begins.

    The name has a slash before it for an end tag, and is empty for other markup than tags.
    """
    if html.startswith("<!--", at):
        comment = _COMMENT_END.search(html, at + 2)
        return comment.end() if comment else len(html), ""
    if name := _NAME.match(html, at):
        slash = "/" if html[at + 1] == "/" else ""
        return _tag_end(html, name.end()), slash + name[1].lower()
    if html[at + 1 : at + 2] in ("!", "?", "/"):
        end = html.find(">", at) + 1
        return end or len(html), ""
    return at, ""


def split_markup(html: str) -> list[tuple[str, bool]]:
    """Cut HTML into pieces that join to it, each with whether it is text to translate."""
    pieces: list[tuple[str, bool]] = []
    open_names: list[str] = []  # of VERBATIM elements
    count_open: Counter[str] = Counter()  # how often each of them is open
    start = at = 0

    def add(end: int, is_text: bool) -> None:
        if end > start:
            pieces.append((html[start:end], is_text))

    while (at := html.find("<", at)) >= 0:
        end, name = _markup_end(html, at)
        if end == at:
            at += 1
            continue
        add(at, not open_names)
        start = at
        is_foreign = name in FOREIGN or any(count_open[each] for each in FOREIGN)
        if is_foreign and html.endswith("/>", at, end):
            pass  # in HTML only these elements end at "/>"
        elif name in _RAW_END:
            raw = _RAW_END[name].search(html, end)
            end = raw.start() if raw else len(html)
        elif name in VERBATIM:
            open_names.append(name)
            count_open[name] += 1
        elif name.startswith("/") and count_open[name[1:]]:
            closed = ""
            while closed != name[1:]:
                closed = open_names.pop()
                count_open[closed] -= 1
        add(end, False)
        start = at = end
    add(len(html), not open_names)
    return pieces


def markup_as_text(markup: str) -> str:
    """The text of a piece of HTML without tags: its character references are resolved."""
    return unescape(markup)


def text_as_markup(text: str) -> str:
    """The text with HTML's special characters escaped, also for quoted attributes."""
    return escape(text, quote=True)
