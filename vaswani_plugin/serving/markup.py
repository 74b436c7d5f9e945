"""Texts in HTML: the text between the tags is translated, the tags stay as they are."""

from html import escape, unescape
from html.parser import HTMLParser

VERBATIM = {"script", "style", "code", "pre", "kbd", "samp", "textarea", "svg", "math", "template"}
"""Elements whose content is no running text."""


class _Splitter(HTMLParser):
    """Collects (piece, whether it is text to translate); the pieces together are the input."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.pieces: list[tuple[str, bool]] = []
        self.verbatim: list[str] = []

    def add(self, piece: str, is_text: bool) -> None:
        if self.pieces and self.pieces[-1][1] == is_text:
            piece = self.pieces.pop()[0] + piece
        self.pieces.append((piece, is_text))

    def _is_text(self) -> bool:
        return not self.verbatim

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.add(self.get_starttag_text() or "", False)
        if tag in VERBATIM:
            self.verbatim.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.add(self.get_starttag_text() or "", False)

    def handle_endtag(self, tag: str) -> None:
        self.add(f"</{tag}>", False)
        if tag in self.verbatim:
            while self.verbatim.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.add(data, self._is_text())

    def handle_entityref(self, name: str) -> None:
        self.add(f"&{name};", self._is_text())

    def handle_charref(self, name: str) -> None:
        self.add(f"&#{name};", self._is_text())

    def handle_comment(self, data: str) -> None:
        self.add(f"<!--{data}-->", False)

    def handle_decl(self, decl: str) -> None:
        self.add(f"<!{decl}>", False)

    def unknown_decl(self, data: str) -> None:
        self.add(f"<![{data}]>", False)

    def handle_pi(self, data: str) -> None:
        self.add(f"<?{data}>", False)


def split_markup(html: str) -> list[tuple[str, bool]]:
    """Pieces in order, each with whether it is text to translate, its references resolved."""
    splitter = _Splitter()
    splitter.feed(html)
    splitter.close()
    return [(unescape(piece) if is_text else piece, is_text) for piece, is_text in splitter.pieces]


def text_as_markup(text: str) -> str:
    """A text whose every character stands for itself."""
    return escape(text, quote=False)
