"""Prose in a chunk: its headings, and its complete sentences with the exact text they stand in."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rageval_dagster.benchmark.by_rule.terms import IDENTIFIER, PLACEHOLDER
from rageval_dagster.benchmark.wording import word_count
from rageval_dagster.languages import detect
from rageval_dagster.languages.profiles import LANGUAGES
from rageval_dagster.records import Chunk
from rageval_dagster.text import is_character, letter_share, segments, word_spans

READ_CHARACTERS = 50_000
"""Of a chunk, from its beginning: one question is wanted, and trying those of a whole megabyte takes minutes."""

MIN_CHARACTERS = 60
MIN_LETTER_SHARE = 0.65
MIN_CODE_LINES, MIN_CODE_SHARE, MAX_CODE_LINE = 2, 0.2, 200
"""Of the lines outside fences, and their characters: a piece of a longer listing, whose comments are no prose."""
MIN_FUNCTION_WORDS = 0.2
"""The share of a sentence's words that are stop words, where the language has some."""
MIN_SENTENCE_WORDS = 5
MAX_SENTENCE_WORDS = 60
MAX_TOLD_CHARACTERS = 600
"""Of an answer of several sentences."""
MAX_CASELESS_TITLE_WORDS = 8
"""A longer first line in a script without capitals is the first line of a paragraph."""

MAX_ENTRY_CHARACTERS = 80
MAX_LABEL = 60
"""Characters of a line above what is defined, such as a heading."""
MAX_NAMING = 10
"""Words of a heading."""
MAX_TITLES = 5
"""More headings at once are a list of contents."""

_CODE_LINE = re.compile(
    r"\s*(?:(?:def|class|struct|enum) \w.*[:{]|(?:return|import|from|raise|@\w|#include|#define|var|let|const|public"
    r"|private|static)\b.*|(?:if|for|while|elif|else|try|except|with|switch)\b.*[:{]|.*[;{}]|\w[\w.]* = .*"
    r"|\"\"\"|[\])}],?)\s*|\s+.*\w\(.*\)\s*"
)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)(.*)$")
_UNDERLINE = re.compile(r"^\s*([*=\-~^#+\"'`])\1{2,}\s*$")
_MARKDOWN_HEADING = re.compile(r"^#{1,6}\s+(.+)")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?---[ \t]*(?:\n|\Z)")
_LIST_ITEM = re.compile(r"( *)(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_BULLET = re.compile(r"^ *(?:[-*+•]|\d{1,3}[.)])[ \t]+|^ {2,}")
_FILLED = r"[ \t]*[^ \t\n][^\n]*"
_BLOCK = re.compile(rf"(?:[^ \t\n][^\n]*|(?<=\n){_FILLED})(?:\n{_FILLED})*")
"""A paragraph."""
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*$|.*\S \| \S.* \| \S")
_NOISE = re.compile(
    r"https?://|www\.|::|\||=>|->|>>>|\]\(|\]\[|<[a-z/!]|&[a-z]+;|\.{3,}|\. \. \.|…"
    r"|[{}\\]|(?:^|\s)[#>]\s|^\s*(?:\$|\[!|[-*•>]\s|\d+[.)]\s)|_{3,}|`_|(?<!\w):[a-z_]+:`|\w=[\"']",
    re.IGNORECASE,
)
"""Links, code and markup: no plain sentence or heading holds them."""

_POINTS = re.compile(r": | = |\b[^\W\d_]+ \d+\.\d|\[[^\]]*\d\]|\[[^\]]+\],|^\[")
"""What introduces something else, code, and references to sections, figures and literature."""
_GLUED = re.compile(r"[.!?][\w<%${*/-]", re.ASCII)
_SHORT_LINE = re.compile(r"[^\n]{1,30}\n\s*([^\W\d_])")
"""A short line before one that begins anew: the text of a PDF has no blank lines around headings."""
_IDENTIFIER = re.compile(r"\w\.\w|^[A-Z]{2,}_|^[a-z]|[$\[]")
_TORN = re.compile(r"[^\W\d_][-\u00ad\u2010] [^\W\d_]|\ufffd|\.[a-z]{1,4}\.$")
"""A word torn at the end of a line, or a file's name at its dots."""

_COLONS = (":", "：")
_END = (".", "!", "。", "！", "．", "।", "॥", "۔", "።", "။", "។")
_NO_TITLE_END = (*_END, "?", ",", ";", ":", "？", "，", "、", "：", "；", "؟", "،", "؛")
_NUMBERING = re.compile(
    r"\s*(?:(?i:chapter|section|part|appendix) \w+[.:]? ++|[^\W\d_]+ (?:[IVXLC]+|[A-Z]|\d{1,2})\. ++|第\d+章 *+"
    r"|\d{1,2}(?:\.\d{1,2})*\. ++|\d{1,2} [-–—] ++|(?:\d{1,2}|[A-Z])(?:\.\d{1,2})+\.? ++)(?=\W*+[^\W_a-z])"
)
_NUMBERED = re.compile(r"(?:\d{1,2}|[A-Z])(?:\.\d{1,3})+ ")
"""A heading that a sentence was torn into."""
_CAPTION = re.compile(r"[^\W\d_]+ \d+(?:[.-]\d+)*[.:]")
"""As of a figure."""
_ENTRY = re.compile(
    r"(?:(?:-\w(?: \S+)?, )?(?P<option>--[^\W\d_][\w-]*\w)(?:, -\w)?(?:[ =\[]\S+(?: [<\[(].*)?)?"
    r"|(?P<name>[^\W\d][\w.-]*\w(?:\(\))?)(?: ?\([^()\"'\\;]*\))?)(?: [<\[(].*|: [^.:]{1,40})?"
)
_DASHED = re.compile(r"[a-z]{2,}\d*(?:-[a-z\d]+)+")
_FIELD = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)?: [^\n]+(?<!¶)")
"""What a reference tells of all that it defines: "Default: none"; no signature."""
_SIGNATURE = re.compile(
    r"(?:[a-z]+ ){1,2}(?P<name>[^\W\d][\w.]*\w)(?:[(:= ].*)?¶"
    r"|[^\W\d_]+(?: [a-z]+){0,2}: (?P<labelled>[^\W\d][\w.]*\w)(?P<rest>(?: \(.*\)| .*)? ?¶)"
)
"""As documentation of programs has them, with the mark of a link to it: "class shop.Order(customer)¶", "Function: total
(order) ¶"."""
_SHORT_OPTION = re.compile(r"-\w(?: \S+)?")
_DEFINING_ITEM = re.compile(
    r" *[-*+•] +(?P<name>`[^`\n]+`|\*\*[^*\n]+\*\*|[^\s`*]+)(?: \([^()\n]*\))?(?::| [-–—]) +(?P<text>\S.*)"
)
_LINKED = re.compile(r"\[\w+\](?=¶$)")
"""A link before that mark, as to a function's source."""
_BESIDE = re.compile(r"(?:--[a-z][\w-]+|[A-Z]{3,}|\w*[^\W_]_[^\W_]\w*) [A-Z][a-z']+ ")
"""What is defined, with its definition in the same line: "--norc Don't read ..."."""
HEADING_MARK = "¶"
"""Of a link to a heading, behind it."""
MAX_MARKED = 1000
"""Characters of a line with it: a signature may be long."""
_CRUMB = re.compile(r"[^«‹]*[»›]")
"""The way to a page on its site."""
_SITE_NAME = re.compile(r"\s(?:[|·»–—-]|::)\s")
_BOOK = re.compile(r"[^:.]+: (?=(?:\d{1,2}|[A-Z])(?:\.(?:\d{1,2}(?:\.\d{1,2})*)?\.?)? [^\W\d_])")
"""As it stands before the number of one of its sections: "Learning Manual: 3.4 Final touches"."""
_NO_BOUNDARY = re.compile(r"(?<![\w`])`(?![\s`])[^`\n]{1,100}(?<!\s)`(?![\w`])|(?<!\w)\.+(?=[\w/])")
"""Code spans, and the dots that a path or a file name starts with ("./src", ".npmrc"): no sentence ends there."""

_HEADING_MARKUP = re.compile(
    r"[*`]+|(?<!\w)#+|#+$|</?(?:a|b|i|em|strong|span|code|kbd|su[bp]|br|img)\b[^<>]*>|\{:? ?#[^{}]*\}$"
)
"""Emphasis, marks of a heading, HTML, and the name that a heading is linked to by: no part of what it says."""

_CUT = "\x00"
"""Stands for a heading that is furniture."""

_UNMARKED = re.compile("[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3]")
"""Thai, Lao, Burmese and Khmer: spaces stand between clauses there, and often no mark ends a sentence."""
_CLAUSES = re.compile(r"(?<!\S)\S(?:.{0,98}\S)?(?!\S)", re.DOTALL)


@dataclass(frozen=True)
class Sentence:
    """One sentence: `quote` is the exact substring of the chunk, `text` the same with single spaces.

    `opens` is whether it is the first under its heading. Of a heading that is neither an `entry` nor a question another
    has to follow: alone it often introduces a list. `more` are the quote with the next sentence of its paragraph, with
    the next two, and so on, as long as those are plain text: also such as are too short to be asked about themselves.
    Then with the list that follows, and of the first sentence with the other paragraphs of its section. `is_section` is
    whether the longest of them is all that stands under the heading. What is no longer than `announces` only leads up
    to a list or an example.
    """

    quote: str
    text: str
    heading: str | None
    opens: bool = False
    more: tuple[str, ...] = ()
    is_section: bool = False
    announces: int = 0

    @property
    def told(self) -> str:
        """The longest that it goes on to."""
        return self.more[-1] if self.more else self.quote


def words(text: str) -> list[str]:
    """Lower-cased words; a character each in scripts that put no spaces between words."""
    return [match.group().lower() for match in word_spans(text)]


def eligible(text: str) -> bool:
    """Whether a chunk has enough prose to ask about: some length, mostly letters (no tables, badges), little code."""
    dense = "".join(text.split())
    # A character of the scripts without spaces says as much as two or three letters.
    length = sum(2 if is_character(character) else 1 for character in dense)
    return length >= MIN_CHARACTERS and letter_share(dense) >= MIN_LETTER_SHARE and not _is_code(text)


def _is_code(text: str) -> bool:
    lines = [line for line in _without_code(text).split("\n") if line.strip()]
    found = sum(len(line) <= MAX_CODE_LINE and _CODE_LINE.fullmatch(line) is not None for line in lines)
    return found >= MIN_CODE_LINES and found >= MIN_CODE_SHARE * len(lines)


def sentences(
    text: str, language: str | None = None, furniture: Collection[str] = (), standing: Collection[str] = ()
) -> list[Sentence]:
    """The complete prose sentences of a chunk in order; headings, code, lists, tables and links are left out.

    Of scripts that do not mark the end of sentences, runs of clauses. Total: any text gives a list, perhaps an empty
    one.

    Args:
        language: decides the abbreviations; without it they are English.
        furniture: the `line_key`s of lines that say nothing.
        standing: those of lines that the document has again and again. What a list below defines, such as a parameter,
            is part of something else: it is left out.
    """
    found: list[Sentence] = []
    heading: str | None = None
    opens = after_entry = False
    end = 0
    for block in _blocks(text, furniture, standing):
        if block.strip() == _CUT:
            heading, opens = (None, False) if entry(heading or "") else (heading, opens)
            continue
        if opens and entry(heading or "") and _FIELD.fullmatch(block.strip()):
            continue
        own_heading, body = _split_heading(block)
        is_entry = entry(own_heading or "") is not None
        if is_entry and after_entry:
            # A list of names: what follows says something of them all, or of none.
            own_heading, heading, opens = None, None, False
        after_entry = is_entry and not body.strip()
        heading, opens = own_heading or heading, opens or own_heading is not None
        pieces = [*_pieces(body, language or "en")]
        for number, quote in enumerate(pieces):
            sentence = " ".join(quote.split())
            start = text.find(quote, end)
            if start >= 0 and _is_prose(sentence, language):
                end = start + len(quote)
                more = [each for each in _continued(body, pieces[number:]) if text.startswith(each, start)]
                told = (more or [quote])[-1]
                # As far as an answer may reach.
                after = [*_BLOCK.finditer(text, start + len(told), start + 2 * MAX_TOLD_CHARACTERS)]
                beyond, is_end = _beyond(text, start, after, furniture, only_list=not opens)
                is_section = opens and is_end and _stands_below(heading or "", text[:start])
                is_opening = opens and (len(pieces) > 1 or is_section or _is_answered(heading or ""))
                is_own = told != quote and bool(after) and "\n" not in text[start + len(told) : after[0].start()]
                is_announced = not is_own and _is_led_up_to(after, language, furniture, heading)
                announces = len(told) if is_announced else 0
                found.append(Sentence(quote, sentence, heading, is_opening, (*more, *beyond), is_section, announces))
            opens = False
        opens = opens and not body.strip()
    return found


def titles(text: str, furniture: Collection[str] = ()) -> list[str]:
    """The headings that a document opens with, without the name of its site; none where it opens with prose. Where a
    list of contents follows, only the first, and only if it is marked as a title, or stands beside the site's name.

    Args:
        text: the beginning of a document.
        furniture: the `line_key`s of lines that are no heading.
    """
    text = _BOOK.sub("", text.strip(), count=1) if _BOOK.match(text.strip()) else text
    opening, *of_site = _SITE_NAME.split(text.strip().partition("\n")[0])
    found = [without_number(opening).strip()] if of_site and len(opening) <= MAX_ENTRY_CHARACTERS else []
    marked = found.copy()
    # With its number it would look like the item of a list.
    for block in _blocks(without_number(text), furniture):
        heading, body = _split_heading(block)
        if heading and (name := _SITE_NAME.split(heading)[0].strip()):
            found.append(name)
            marked += [name] if block.lstrip().startswith("# ") else []
        if _ends(body):
            break
    return found if len(found) <= MAX_TITLES else marked[:1]


def line_key(line: str) -> str:
    """What two lines have in common that differ only in numbers, case and white space: "Page 3", "page  12"."""
    return re.sub(r"\d+", "0", " ".join(line.split()).casefold())


def without_number(heading: str) -> str:
    """A heading without the number of its chapter or section, or several: "C.11. 10. Future Revisions"."""
    start = 0
    while numbering := _NUMBERING.match(heading, start):
        start = numbering.end()
    return heading[start:]


def clean_heading(line: str) -> str:
    """A line as the heading that it may be: without markup."""
    line = _LINKED.sub("", line.strip())
    if signature := _SIGNATURE.fullmatch(line):
        name = signature["name"] or signature["labelled"]
        is_plain = signature["labelled"] and "(" in signature["rest"] and not IDENTIFIER.fullmatch(name)
        return f"{name}()" if is_plain else name
    line = " ".join(_HEADING_MARKUP.sub("", line).split()).rstrip(":¶ ")
    # As in the names of wiki pages.
    return line if " " in line or _IDENTIFIER.search(line) else line.replace("_", " ")


def heading_keys(line: str, is_heading: bool = False) -> tuple[str, ...]:
    """What two headings have in common that say the same: what they define, or all that they say; then, of a name
    with others before it, its last part, and of several words those that name something ("The query-errors Category").

    Args:
        is_heading: without it, the line is taken for one only by its mark.
    """
    heading = without_number(clean_heading(line))
    defined = entry(heading)
    last = (defined or "").rpartition(".")[2]
    is_heading = is_heading or line.startswith("#") or line.endswith(HEADING_MARK)
    named = [] if defined or not is_heading else [word for word in heading.split()[:MAX_NAMING] if entry(word)]
    return (defined or heading, *([last] if defined and last != defined else []), *named)


def is_question(heading: str) -> bool:
    """Whether a heading asks something."""
    return heading.endswith(("?", "？", "؟"))


def entry(heading: str) -> str | None:
    """The option or identifier that a heading or a line of a list defines: "max_wal" of "max_wal (bytes)"."""
    match = _ENTRY.fullmatch(heading) if len(heading) <= MAX_ENTRY_CHARACTERS else None
    name = (match["option"] or match["name"]) if match else ""
    # A heading of words begins with a capital.
    is_dashed = name == heading and _DASHED.fullmatch(name) is not None
    is_name = name.startswith("--") or IDENTIFIER.fullmatch(name) is not None or is_dashed
    return name if is_name and not PLACEHOLDER.search(name) else None


def _blocks(text: str, furniture: Collection[str] = (), standing: Collection[str] = ()) -> list[str]:
    """The paragraphs of running text: what a list item or a cell says is said of something that stands elsewhere."""
    lines = _without_code(_FRONT_MATTER.sub("", text)).split("\n")
    keys = [line_key(line) for line in lines]
    is_standing = [key in standing for key in keys]
    lines = [_without_furniture(line) if key in furniture else line for line, key in zip(lines, keys, strict=True)]
    kept: list[str] = []
    item_indent: int | None = None
    is_part = False
    for number, line in enumerate(lines):
        defines = _DEFINING_ITEM.match(line)
        if is_standing[number] or (item_indent is None and line.strip() and not defines):
            is_part = is_standing[number]
        if defines and not is_part and entry(clean_heading(defines["name"])):
            kept += ["", defines["name"], "", defines["text"]]
            item_indent = None
            continue
        item = _LIST_ITEM.match(line)
        indent = len(line) - len(line.lstrip(" "))
        if item:
            item_indent = indent
        elif item_indent is not None and line.strip() and not lines[number - 1].strip() and indent <= item_indent:
            item_indent, is_part = None, is_standing[number]
        if item_indent is not None or _TABLE_ROW.match(line):
            kept.append("")
        elif _opens_section(lines, number):
            kept += ["", line, ""]
        else:
            kept.append(line)
    return [block for block in re.split(r"\n[ \t]*\n", "\n".join(kept)) if block.strip()]


def _without_furniture(line: str) -> str:
    """What is left of a line that is furniture: of a heading its mark, since what follows is under no other heading; of
    a list's item all, since what is indented below belongs to it."""
    if _LIST_ITEM.match(line):
        return line
    is_heading = line.endswith(HEADING_MARK) or (_looks_like_title(line) and ": " not in line)
    return _CUT if is_heading else ""


def _opens_section(lines: Sequence[str], number: int) -> bool:
    """Whether a line within a paragraph is a numbered heading, or defines something: the text of a PDF has no blank
    lines around them."""
    if number + 1 == len(lines) or not _starts_anew(lines[number + 1]):
        return False
    is_numbered = _NUMBERING.match(lines[number]) is not None and _looks_like_title(lines[number])
    before = lines[number - 1].strip() if number else ""
    # A long line goes on unless its end shows.
    goes_on = len(before) > MAX_LABEL and not before.endswith((*_END, ":", "："))
    is_defined = entry(clean_heading(lines[number])) is not None and not lines[number].rstrip().endswith(",")
    return is_numbered or (is_defined and not goes_on)


def _without_code(text: str) -> str:
    """The text with empty lines in place of fenced code; a chunk may start or end within it."""
    lines = text.split("\n")
    fences = [match.group(1).strip() for match in map(_FENCE.match, lines) if match]
    # A closing fence is bare: a bare one that has no partner closes what began before the chunk.
    in_code = len(fences) % 2 == 1 and not fences[0]
    kept: list[str] = []
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        kept.append("" if in_code or is_fence else line)
        in_code = in_code != is_fence
    return "\n".join(kept)


def _split_heading(block: str) -> tuple[str | None, str]:
    lines = block.strip("\n").split("\n")
    marked = _MARKDOWN_HEADING.match(lines[0].strip())
    if marked or (lines[0].endswith(HEADING_MARK) and len(lines[0]) <= MAX_MARKED):
        return clean_heading(marked.group(1).rstrip("#") if marked else lines[0]), "\n".join(lines[1:])
    if len(lines) > 1 and _UNDERLINE.match(lines[1]):
        return clean_heading(lines[0]), "\n".join(lines[2:])
    named = [line for line in map(clean_heading, lines) if not _SHORT_OPTION.fullmatch(line)]
    if len(named) == 1 and entry(named[0]):
        return named[0], ""
    if _looks_like_title(lines[0]) and (len(lines) == 1 or _starts_anew(lines[1])):
        return clean_heading(lines[0]), "\n".join(lines[1:])
    return None, block


def _looks_like_title(line: str) -> bool:
    line = line.strip()
    return (
        0 < len(line) <= 80
        and len(line.split()) <= 10
        and (line[0].isupper() or line[0].isdigit() or _is_short_and_caseless(line))
        and not line.endswith(_NO_TITLE_END)
        and not _CAPTION.match(line)
        and not _CRUMB.fullmatch(line)
        and not _NOISE.search(line)
        and letter_share(line) >= MIN_LETTER_SHARE
    )


def _is_short_and_caseless(line: str) -> bool:
    has_case = line[0].lower() != line[0].upper()
    return line[0].isalpha() and not has_case and word_count(words(line)) <= MAX_CASELESS_TITLE_WORDS


def _starts_anew(line: str) -> bool:
    first = re.search(r"[^\W_]", line)
    return first is not None and not first.group().islower()


def _pieces(body: str, language: str) -> Iterator[str]:
    start = 0
    # As long as what it stands for, since the pieces are told by their lengths.
    masked = _NO_BOUNDARY.sub(lambda match: "x" * len(match.group()), body)
    for piece in segments(masked, language):
        # What goes on without a space was torn: "README." and "Debian.gz".
        is_torn = any(_GLUED.match(body, place - 1) for place in (start, start + len(piece)) if place)
        quote = body[start : start + len(piece)].strip()
        opens_line = not body[:start].rstrip(" ").strip("\n") or body[:start].rstrip(" ").endswith("\n")
        short = _SHORT_LINE.match(quote) if opens_line else None
        is_torn = is_torn or (short is not None and short.group(1).isupper())
        start += len(piece)
        if _UNMARKED.search(quote):
            yield from _CLAUSES.findall(quote)
        elif not is_torn:
            yield quote


def _continued(body: str, pieces: Sequence[str]) -> Iterator[str]:
    """The first of the pieces with the second, with the third, and so on, as long as they follow each other and are
    plain."""
    begin = end = body.find(pieces[0])
    for number, piece in enumerate(pieces):
        start = body.find(piece, end)
        is_plain = _ends(piece) and _is_whole(piece) and not (_NOISE.search(piece) or _TORN.search(piece))
        is_plain = is_plain and not any(map(_begins_another, piece.split("\n")))
        end = start + len(piece)
        if not is_plain or end - begin > MAX_TOLD_CHARACTERS:
            return
        if number:
            told = body[begin:end]
            if "".join(told.split()) != "".join("".join(pieces[: number + 1]).split()):
                return
            yield told


def _beyond(
    text: str, begin: int, after: Sequence[re.Match[str]], furniture: Collection[str], only_list: bool
) -> tuple[list[str], bool]:
    """What ends with its paragraph, with the list that follows, and so on to the end of its section, each a whole
    paragraph or list longer; and whether the last reaches that end, which shows by the next heading.

    Args:
        begin: where it begins in the text.
        after: the paragraphs that follow, or what is left of its own.
    """
    found: list[str] = []
    is_told = True
    for number, block in enumerate(after[: _within_item(text, begin, after)]):
        said = block.group()
        before = after[number - 1].group() if number else ""
        follows = after[number + 1].group() if number + 1 < len(after) else ""
        if line_key(said) in furniture:
            break
        if _is_heading(said, before, follows):
            return found, is_told
        if block.end() - begin > MAX_TOLD_CHARACTERS or not _is_plain_block(said, furniture):
            break
        # The next chunk may go on with a list that the chunk ends with.
        is_told = bool(follows) and not _is_list(follows) if _is_list(said) else _ends(said)
        if not (is_told or _is_list(said) or said.endswith(_COLONS)):
            break  # the name of what is told next
        if only_list and not _is_list(said) and is_told:
            break
        if is_told:
            found.append(text[begin : block.end()])
    return found, False


def _within_item(text: str, begin: int, after: Sequence[re.Match[str]]) -> int:
    """How many of the paragraphs that follow what a list's item begins with are indented as its own; else all."""
    line = text[text.rfind("\n", 0, begin) + 1 : begin]
    item = _LIST_ITEM.match(f"{line}x")
    if item is None:
        return len(after)
    own = takewhile(lambda block: len(block.group()) - len(block.group().lstrip(" ")) > len(item[1]), after)
    return sum(1 for _ in own)


def _is_heading(block: str, before: str, follows: str) -> bool:
    """Whether a paragraph is a heading, or begins with one: also "2. Installation", the only item far and wide."""
    is_alone = "\n" not in block and not (_is_list(before) or _is_list(follows))
    is_numbered = is_alone and _is_list(block) and _NUMBERING.match(block) is not None and _looks_like_title(block)
    return is_numbered or _split_heading(block)[0] is not None


def _stands_below(heading: str, before: str) -> bool:
    """Whether nothing stands between a heading and what comes behind `before`: no list, no code."""
    lines = [line for line in before.split("\n") if line.strip()]
    length = 2 if _UNDERLINE.match("".join(lines[-1:])) else 1
    return bool(lines) and _split_heading("\n".join(lines[-length:]))[0] == heading


def _is_answered(heading: str) -> bool:
    """Whether one sentence may say all of a heading."""
    return is_question(heading) or entry(heading) is not None


def _is_led_up_to(
    after: Sequence[re.Match[str]], language: str | None, furniture: Collection[str], heading: str | None
) -> bool:
    """Whether what follows is a list, or ends with a colon: what stands before leads up to it.

    What a paragraph of several sentences ends with leads up to more than they tell; an entry's list may be the one
    that it stands in.
    """
    said = after[0].group() if after else ""
    if not said or line_key(said) in furniture or (entry(heading or "") and _DEFINING_ITEM.match(said)):
        return False
    return _is_list(said) or (said.endswith(_COLONS) and len([*_pieces(said, language or "en")]) == 1)


def _defines(block: str) -> bool:
    """Whether a list begins with what it defines."""
    item = _DEFINING_ITEM.match(block)
    return item is not None and entry(clean_heading(item["name"])) is not None


def _is_list(block: str) -> bool:
    return _LIST_ITEM.match(block) is not None


def _is_plain_block(block: str, furniture: Collection[str]) -> bool:
    """Whether a paragraph or list is plain text: no heading, code, table or furniture."""
    lines = block.split("\n")
    said = [_BULLET.sub("", line) for line in lines]
    return (
        not any(map(_begins_another, lines))
        and not any(line_key(line) in furniture or _TABLE_ROW.match(line) or _FENCE.match(line) for line in lines)
        and not any(_CODE_LINE.fullmatch(line) or _NOISE.search(line) or _TORN.search(line) for line in said)
        and not (_is_list(block) and block.endswith(_COLONS))
        and not _defines(block)
        and _is_whole(block)
    )


def _begins_another(line: str) -> bool:
    """Whether a line of a paragraph begins something else: the text of a PDF has no blank lines around headings, and
    around what is defined next."""
    is_heading = _MARKDOWN_HEADING.match(line) or _NUMBERED.match(line.lstrip()) or _BESIDE.match(line.lstrip())
    return is_heading is not None or entry(clean_heading(line)) is not None


def _is_prose(sentence: str, language: str | None) -> bool:
    found = words(sentence)
    return (
        MIN_SENTENCE_WORDS <= word_count(found) <= MAX_SENTENCE_WORDS
        and _starts(sentence)
        and (_ends(sentence) or _UNMARKED.search(sentence) is not None)
        and _is_whole(sentence)
        and not _NOISE.search(sentence)
        and not _TORN.search(sentence)
        and not _NUMBERED.match(sentence)
        and not _POINTS.search(sentence)
        and letter_share(sentence) >= MIN_LETTER_SHARE
        and _has_function_words(found, language)
    )


def _is_whole(sentence: str) -> bool:
    """Whether all that it opens, it closes: what is open is a torn piece."""
    return (
        sentence.count("`") % 2 == 0
        and sentence.count('"') % 2 == 0
        and all(sentence.count(left) == sentence.count(right) for left, right in ("()", "[]"))
        and ("„" in sentence or sentence.count("“") == sentence.count("”"))
    )


def _starts(sentence: str) -> bool:
    """Whether a sentence begins as one: in lower case it may be the rest of another."""
    first = sentence.lstrip("\"'(“„«‘¿¡「『《[")[:1]
    return first == "`" or (first.isalnum() and not first.islower())


def _has_function_words(found: Sequence[str], language: str | None) -> bool:
    """Whether enough words of a sentence are such as every sentence has: code, lists and tables have few."""
    if language is None or language not in LANGUAGES or not LANGUAGES[language].stop_words:
        return True
    return sum(word in LANGUAGES[language].stop_words for word in found) >= MIN_FUNCTION_WORDS * len(found)


def _ends(sentence: str) -> bool:
    return sentence.rstrip("\"'”’“»」』）)` ").endswith(_END)


def prose(
    chunk: Chunk, language: str | None = None, furniture: Collection[str] = (), standing: Collection[str] = ()
) -> tuple[str | None, list[Sentence]]:
    """The language of what is read of a chunk, as far as it is known, and its complete sentences.

    Args:
        language: the chunk's; without it, it is detected.
        furniture: the `line_key`s of lines that say nothing.
        standing: those of lines that the document has again and again.
    """
    text = chunk.text[:READ_CHARACTERS]
    language = language or detect(text)
    found = sentences(text, language, furniture, standing) if eligible(text) else []
    # Code around them may hide the sentences' language.
    return language or detect(" ".join(sentence.text for sentence in found)), found
