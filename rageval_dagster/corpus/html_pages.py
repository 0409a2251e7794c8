"""The text of an HTML page as Markdown, in time and memory that grow with its length only, however it is broken."""

import html
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

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

_LINK_SIGN = "\uf0c1"
"""Of a font that pages of documentation draw the link to a heading with."""
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_LISTS = ("ul", "ol")
MAX_INDENT = 6
"""Levels of lists that are told apart."""
_ROLE = re.compile(r"""\srole\s*+=\s*+["']?\s*+(\w++)""", re.IGNORECASE)
_BESIDE = frozenset(("navigation", "search", "contentinfo"))
"""Roles of what stands beside a page's contents."""
_PARTS = ("article", "section", "main", "blockquote")
"""What has a footer of its own."""
_EMPTY_HEADING = re.compile(r"^#{1,6} *$", re.MULTILINE)
LEAST_LINKS, LINKED = 5, 0.9
"""A list or table of so many links, which are such a share of its letters and digits, is a menu or a list of contents
(link density, Kohlschütter et al. 2010)."""
LEFT_OUT = 50_000
"""Characters of what is left out of a page that are told."""
MOSTLY = 0.5
"""Of a page's text: where more is preformatted, it is prose in a fixed layout, else code."""


class PageText(NamedTuple):
    """What a page says, and the words that stand beside it."""

    text: str
    left_out: str


def html_text(page: bytes) -> PageText:
    """What a page says, as Markdown: a blank line between blocks, marks before headings and items of lists, fences
    around code.

    Its title comes first unless the page shows it. Navigation, lists and tables of links, search and the page's footer
    are left out, and all beside its main part, if it marks one.
    """
    from bs4.dammit import UnicodeDammit

    reader = _Reader()
    reader.read(UnicodeDammit(page, is_html=True).unicode_markup or "")
    title = " ".join(reader.title.split())
    said, beside = reader.text()
    lines = [line.rstrip() for line in said.split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", _EMPTY_HEADING.sub("", "\n".join(lines))).strip()
    return PageText(text if title in text else f"{title}\n\n{text}".strip(), " ".join(beside.split())[:LEFT_OUT])


class _Piece(NamedTuple):
    """A piece of text and where it stands: in the main part, beside the contents, in preformatted text."""

    text: str
    is_main: bool
    is_beside: bool
    is_preformatted: bool
    is_fence: bool = False


class _Reader:
    """Goes through a page once. It keeps which elements are open instead of a tree, so depth costs nothing."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._titles: list[list[str]] = []
        self._open: list[tuple[str, str]] = []
        """Name, and role: main, beside or none."""
        self._counts: Counter[str] = Counter()
        self._roles: Counter[str] = Counter()
        self._mark = ""
        """Of a heading or an item of a list that has no text yet."""
        self._nesting: list[tuple[str, int]] = []
        """The open lists and items, each list with how many items it has so far."""
        self._begins_line = True
        self._code, self._spans = 0, 0
        """Where the open preformatted text begins, among the pieces, and how much of it is marked."""
        self._linked: list[tuple[int, Counter[str]]] = []
        """Of the open tables, and of lists the outermost: where it begins, among the pieces, its letters and digits,
        those in links, and how many links it has."""

    @property
    def title(self) -> str:
        return "".join(self._titles[0]) if self._titles else ""

    def text(self) -> PageText:
        """Of the main part, or what stands in no navigation, or, without either, all text; and the rest."""
        main = [each for each in self._pieces if each.is_main and not each.is_beside]
        contents = [each for each in self._pieces if not each.is_beside]
        found = next(filter(_says_something, (main, contents)), self._pieces)
        preformatted = sum(len(each.text) for each in found if each.is_preformatted)
        is_code = preformatted <= MOSTLY * sum(len(each.text) for each in found)
        kept = set(map(id, found))
        return PageText(
            "".join(each.text for each in found if is_code or not each.is_fence),
            "".join(each.text for each in self._pieces if id(each) not in kept and not each.is_fence),
        )

    def read(self, page: str) -> None:
        place = 0
        while found := _MARKUP.search(page, place):
            self._add_text(page[place : found.start()])
            place = found.end()
            name = (found["name"] or "").lower()
            if found["end"]:
                self._close(name)
            elif name:
                self._begin(name, found.group())
                if found["closed"] or name in _VOID_TAGS:
                    self._close(name)
                elif name in _RAW_ENDS:
                    end = _RAW_ENDS[name].search(page, place)
                    place = end.start() if end else len(page)
        self._add_text(page[place:])

    def _begin(self, name: str, tag: str) -> None:
        if name == "body":  # the head's end tag may be left out
            self._close("head")
        if name == "li" and self._nesting and self._nesting[-1][0] == "li":
            self._close("li")
        if name == "title" and not self._counts["title"]:
            self._titles.append([])
        if name == "table" or (name in _LISTS and not any(self._counts[each] for each in _LISTS)):
            self._linked.append((len(self._pieces), Counter()))
        if name in _LISTS:
            self._nesting.append((name, 0))
        if name == "a" and self._linked:
            self._linked[-1][1]["links"] += 1
        self._spans += name == "span"
        role = self._role(name, tag)
        self._open.append((name, role))
        self._counts[name] += 1
        self._roles[role] += 1
        if name == "br" and any(self._counts[each] for each in _HEADINGS):
            self._add(" ")
        elif name == "br" or name in _BLOCK_TAGS:
            self._add("\n")
        if name == "pre" and self._counts["pre"] == 1:
            self._code, self._spans = len(self._pieces), 0
            self._add("\n```\n", is_fence=True)
        if name == "li":
            self._mark = self._next_item()
            self._nesting.append((name, 0))
        self._mark = _HEADINGS.get(name, self._mark)

    def _next_item(self) -> str:
        """The mark of an item in Markdown."""
        name, items = self._nesting.pop() if self._nesting else ("ul", 0)
        self._nesting.append((name, items + 1))
        return f"{items + 1}. " if name == "ol" else "- "

    def _role(self, name: str, tag: str) -> str:
        found = _ROLE.search(tag)
        role = found[1].lower() if found else ""
        is_footer = name == "footer" and not any(self._counts[each] for each in _PARTS)
        if role in _BESIDE or name == "nav" or is_footer:
            return "beside"
        return "main" if role == "main" or name == "main" else ""

    def _close(self, name: str) -> None:
        """Closes an element with all that is open in it; nothing where there is no such element."""
        while self._counts[name]:
            inner, role = self._open.pop()
            if inner == "pre" and self._counts["pre"] == 1:
                self._add("\n```\n", is_fence=True)
                self._end_code()
            if inner in _BLOCK_TAGS:
                self._add("\n")
            if inner in _HEADINGS or inner == "li":
                self._mark = ""
            if inner in _LISTS or inner == "li":
                self._nesting.pop()
            self._counts[inner] -= 1
            self._roles[role] -= 1
            if inner == "table" or (inner in _LISTS and not any(self._counts[each] for each in _LISTS)):
                self._end_linked()
            if inner == name:
                break

    def _end_linked(self) -> None:
        start, said = self._linked.pop()
        if said["links"] >= LEAST_LINKS and said["linked"] >= LINKED * said["characters"]:
            self._pieces[start:] = [each._replace(is_beside=True) for each in self._pieces[start:]]
        if self._linked:
            self._linked[-1][1].update(said)

    def _end_code(self) -> None:
        """What has its words marked as a language's is code, on whatever page."""
        held = self._pieces[self._code :]
        if self._spans > sum(each.text.count("\n") for each in held if not each.is_fence):
            self._pieces[self._code :] = [each._replace(is_preformatted=False, is_fence=False) for each in held]

    def _add_text(self, markup: str) -> None:
        if not markup:
            return
        text = html.unescape(_ENDLESS_NUMBER.sub("\ufffd", markup)).replace(_LINK_SIGN, "¶")
        if self._counts["title"]:
            self._titles[-1].append(text)
        if self._linked:
            said = sum(map(str.isalnum, text))
            self._linked[-1][1].update(characters=said, linked=said if self._counts["a"] else 0)
        if not self._counts["pre"]:
            text = self._as_line(re.sub(r"\s+", " ", text))
        self._add(text)

    def _as_line(self, text: str) -> str:
        """A text with what its line begins with: the mark of a heading or item, and as many blanks as items hold it."""
        if not self._begins_line:
            return text
        text = text.lstrip()
        if text:
            depth = 0 if self._mark.startswith("#") else min(self._counts["li"], MAX_INDENT)
            text, self._mark = "  " * (depth - (self._mark != "" and depth > 0)) + self._mark + text, ""
        return text

    def _add(self, text: str, is_fence: bool = False) -> None:
        if not any(self._counts[name] for name in _UNSEEN_TAGS):
            is_main, is_beside = self._roles["main"] > 0, self._roles["beside"] > 0
            self._pieces.append(_Piece(text, is_main, is_beside, self._counts["pre"] > 0, is_fence))
            self._begins_line = text.endswith("\n") or (self._begins_line and not text)


def _says_something(pieces: Iterable[_Piece]) -> bool:
    return any(any(map(str.isalnum, each.text)) for each in pieces)
