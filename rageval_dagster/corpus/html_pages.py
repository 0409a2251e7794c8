"""The visible text of an HTML page, in time and memory that grow with its length only, however it is broken."""

import html
import re
from collections import Counter

_UNSEEN_TAGS = ("script", "style", "template", "noscript", "head", "title")
_BLOCK_TAGS = frozenset(
    "address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_VOID_TAGS = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements that hold nothing and have no end tag."""

# What is not closed goes on to the end of the page, as in browsers, and nothing is tried twice (the quantifiers are
# possessive): no page takes more than linear time. The standard library's parser is quadratic in what is not closed.
_MARKUP = re.compile(
    r"""
    <!--(?:-?>|.*?(?:--!?>|\Z))                            # a comment
  | <!\[CDATA\[.*?(?:\]\]>|\Z)
  | <(?:[!?]|/(?![a-zA-Z]))[^>]*+(?:>|\Z)              # a declaration, an instruction, an end tag without a name
  | <(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)
    (?:[^>=/]++ | /(?!>) | =\s*+(?:"[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^\s>"'][^\s>]*+)?+)*+
    (?P<closed>/?)(?:>|\Z)
    """,
    re.DOTALL | re.VERBOSE,
)
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
"""Where elements end in which markup is no markup."""

_ENDLESS_NUMBER = re.compile(r"&#\d{100,}+;?")
"""Of a character; Python refuses to read such numbers."""


def html_text(page: bytes) -> str:
    """The visible text: the title first unless the page shows it, a line for each block, a blank line between them."""
    from bs4.dammit import UnicodeDammit

    reader = _Reader()
    reader.read(UnicodeDammit(page, is_html=True).unicode_markup or "")
    title = " ".join(reader.title.split())
    lines = [re.sub(r"^ (?=\S)", "", line).rstrip() for line in "".join(reader.pieces).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return text if title in text else f"{title}\n\n{text}".strip()


class _Reader:
    """Goes through a page once. It keeps which elements are open instead of a tree, so depth costs nothing."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._titles: list[list[str]] = []
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()

    @property
    def title(self) -> str:
        return "".join(self._titles[0]) if self._titles else ""

    def read(self, page: str) -> None:
        place = 0
        while found := _MARKUP.search(page, place):
            self._add_text(page[place : found.start()])
            place = found.end()
            name = (found["name"] or "").lower()
            if found["end"]:
                self._close(name)
            elif name:
                self._begin(name)
                if found["closed"] or name in _VOID_TAGS:
                    self._close(name)
                elif name in _RAW_ENDS:
                    end = _RAW_ENDS[name].search(page, place)
                    place = end.start() if end else len(page)
        self._add_text(page[place:])

    def _begin(self, name: str) -> None:
        if name == "body":  # the head's end tag may be left out
            self._close("head")
        if name == "title" and not self._counts["title"]:
            self._titles.append([])
        self._open.append(name)
        self._counts[name] += 1
        if name == "br" or name in _BLOCK_TAGS:
            self._add("\n")

    def _close(self, name: str) -> None:
        """Closes an element with all that is open in it; nothing where there is no such element."""
        while self._counts[name]:
            inner = self._open.pop()
            self._counts[inner] -= 1
            if inner in _BLOCK_TAGS:
                self._add("\n")
            if inner == name:
                break

    def _add_text(self, markup: str) -> None:
        if not markup:
            return
        text = html.unescape(_ENDLESS_NUMBER.sub("\ufffd", markup))
        if self._counts["title"]:
            self._titles[-1].append(text)
        self._add(text if self._counts["pre"] else re.sub(r"\s+", " ", text))

    def _add(self, piece: str) -> None:
        if not any(self._counts[name] for name in _UNSEEN_TAGS):
            self.pieces.append(piece)
