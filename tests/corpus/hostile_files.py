"""Makes files that are hostile to whoever reads them: `python -m tests.corpus.hostile_files FOLDER`.

Each maker gets a folder of its own and puts into it what it is named for.
"""

import json
import os
import socket
import stat
import sys
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

Content = bytes | str

_ROW = '{"id": "%s", "text": "a good row"}\n'


SLOW_ROW = '{"id": "slow", "text": "%s"}\n' % ("word " * 5_000_000)
"""Takes seconds to read and split."""


def pdf(*objects: bytes, root: int = 1) -> bytes:
    """A PDF of these objects, numbered from 1, with a right table of where they are."""
    out, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, root, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer


def pdf_with(content: bytes, filters: bytes = b"", resources: bytes = b"/Font << /F1 4 0 R >>") -> bytes:
    """A PDF of one page with this content."""
    return pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources << %b >> >>" % resources,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d %b >>\nstream\n%b\nendstream" % (len(content), filters, content),
    )


def _deflated(times: int, size: int) -> bytes:
    """White space that is `size` bytes long when it is inflated `times` times."""
    pump, parts = zlib.compressobj(9), []
    for _ in range(size // 2**20):
        parts.append(pump.compress(b" " * 2**20))
    data = b"".join([*parts, pump.flush()])
    for _ in range(times - 1):
        data = zlib.compress(data, 9)
    return data


def _deflate_bomb(times: int, size: int) -> bytes:
    return pdf_with(_deflated(times, size), b"/Filter [%b]" % (b"/FlateDecode " * times))


def _rows(*lines: Content) -> bytes:
    """Rows between two good ones."""
    middle = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    return (_ROW % "before").encode() + middle + (_ROW % "after").encode()


def _row(**fields: object) -> str:
    return json.dumps({"id": "x", "text": "text"} | fields)


def _own_ids(name: bytes, rows: bytes) -> bytes:
    for each in (b"x", b"before", b"after"):
        rows = rows.replace(b'"%b"' % each, b'"%b of %b"' % (each, name))
    return rows


def contents(scale: int) -> Mapping[str, Content]:
    """File name -> what is in it; `scale` multiplies what is large."""
    deep, long = 2_000 * scale, 10_000 * scale
    words = "word " * long
    html = {
        "deep-div": "<div>" * deep,
        "deep-closed-div": "<div>" * deep + "x" + "</div>" * deep,
        "textareas": "<textarea>" * deep,
        "deep-pre": "<pre>" * deep + "x",
        "open-comments": "x" + "<!--" * long,
        "open-comment-starts": "x" + "<!-" * long,
        "open-declarations": "x" + "<!a" * long,
        "open-instructions": "x" + "<?" * long,
        "open-cdata": "x" + "<![CDATA[" * long,
        "open-tags": "x" + "<a " * long,
        "open-ends": "x" + "</a " * long,
        "open-quotes": "x" + '<a b="' * long,
        "open-quotes-closed": "x" + '<a b="' * long + ">",
        "open-single-quotes": "x" + "<a b='>" * long,
        "open-scripts": "x" + "<script>" * long,
        "open-styles": "x" + "<style></" * long,
        "stray-ends": "x" + "</p>" * long,
        "slashes": "x<a " + "/" * long,
        "equals": "x<a " + "= " * long,
        "attributes": "x<a " + "b=c " * long + ">",
        "dashes": "x<!--" + "-" * long,
        "titles": "<title>x" * deep,
        "endless-number": "x&#" + "9" * long + ";",
        "zeros-number": "x&#" + "0" * long + "65;",
        "ampersands": "x" + "&" * long,
        "entities": "x" + "&amp" * long,
        "blank-lines": "x" + "\n<br>" * long + "y",
        "spaces": "x" + " " * long + "y",
        "svg-in-math": "<svg><math>" * deep + "x",
        "tables": "<table><tr><td>" * deep + "x",
        "bad-charset": '<meta charset="nonsense"><p>text',
        "codec-charset": '<meta charset="zlib_codec"><p>text',
        "utf7-charset": '<meta charset="utf-7"><p>+ADw-script+AD4-',
        "nul": b"<p>te\0xt</p>",
        "latin1": "<p>Größe</p>".encode("latin-1"),
        "invalid": b"<p>text \xff\xfe\xfa</p>",
        "utf16-page": "<p>Größe</p>".encode("utf-16"),
        "utf32-page": "<p>Größe</p>".encode("utf-32"),
    }
    text = {
        "utf16.txt": "text".encode("utf-16"),
        "utf16le.md": "text".encode("utf-16-le"),
        "utf32.txt": "text".encode("utf-32"),
        "bom.txt": b"\xef\xbb\xbftext",
        "boms.txt": b"\xef\xbb\xbf" * 3 + b"text",
        "bom-alone.md": b"\xef\xbb\xbf",
        "empty.txt": b"",
        "nul-bytes.txt": b"te\0xt",
        "nuls.md": b"\0" * long,
        "invalid.txt": b"text \xff\xfe",
        "overlong.txt": b"text \xc0\xaf",
        "cut-off.txt": "text €".encode()[:-1],
        "encoded-surrogates.txt": b"text \xed\xa0\x80",
        "binary.md": bytes(range(256)) * 100,
        "controls.txt": "text \x1b[2J\x07\x08\x7f\x9b31m \u202e txet",
        "line-separators.txt": "a\u2028b\u2029c\x85d\x0be\x0cf",
        "marks.txt": "a" + "\u0301" * long,
        "joiners.txt": "👩" + "\u200d👩" * long,
        "giant-word.txt": "x" * 10 * long,
        "giant-line.md": words,
        "hard-breaks.md": "a\n" * long,
        "deep-quotes.md": ">" * long + " x",
        "deep-lists.md": "".join("  " * level + "- x\n" for level in range(300)),
        "brackets.md": "[" * long + "x" + "]" * long,
        "stars.md": "*a **b " * long,
        "backticks.md": "`a``b " * long,
        "links.md": "![a](" * long,
        "table.md": "|a" * long + "|\n" + "|-" * long + "|\n",
        "headings.md": "# a\n" * long,
        "angles.md": "<a<" * long,
    }
    jsonl = {
        "deep-lists": _rows("[" * 200_000),
        "deep-lists-closed": _rows("[" * 200_000 + "]" * 200_000),
        "deep-objects": _rows('{"a":' * 200_000),
        "deep-metadata": _rows('{"id": "x", "text": "t", "metadata": ' + '{"a":' * 5_000 + "1" + "}" * 5_001),
        "chroma-document": _rows(_row(metadata={"chroma:document": "x"})),
        "chroma-other": _rows(_row(metadata={"chroma:uri": "x"})),
        "dollar-field": _rows(_row(metadata={"$and": "x"})),
        "hash-field": _rows(_row(metadata={"#document": "x"})),
        "empty-field": _rows(_row(metadata={"": "x"})),
        "nul-field": _rows(_row(metadata={"\0": "x"})),
        "surrogate-field": _rows('{"id": "x", "text": "t", "metadata": {"\\ud800": "\\udfff"}}'),
        "many-fields": _rows(_row(metadata={f"f{number}": number for number in range(20_000)})),
        "our-fields": _rows(_row(metadata={"rageval_root": 1, "rageval_file": 2, "document_id": 3, "position": "x"})),
        "long-field": _rows(_row(metadata={"f" * long: "x" * long})),
        "nan": _rows('{"id": "x", "text": "t", "metadata": {"a": NaN}}'),
        "infinity": _rows('{"id": "x", "text": "t", "metadata": {"a": -Infinity}}'),
        "huge-float": _rows('{"id": "x", "text": "t", "metadata": {"a": 1e999999}}'),
        "huge-number": _rows('{"id": "x", "text": "t", "metadata": {"a": 1%s}}' % ("0" * 4_000)),
        "huge-digits": _rows('{"id": 1%s, "text": "t"}' % ("0" * long)),
        "64-bits": _rows(_row(metadata={"a": 2**63 - 1, "b": -(2**63) + 1})),
        "65-bits": _rows(_row(metadata={"a": 2**63})),
        "duplicate-keys": _rows('{"id": "x", "id": "y", "text": "t", "text": ["u"]}'),
        "duplicate-ids": _rows(_row(id="same"), _row(id="same")),
        "blank-id": _rows(_row(id=" \0 ")),
        "long-id": _rows(_row(id="x" * 10 * long)),
        "odd-id": _rows(_row(id="../../etc/passwd\n\u202e\x1b[2J")),
        "surrogate-id": _rows('{"id": "\\ud800", "text": "t"}'),
        "number-ids": _rows(_row(id=1), _row(id=1.5), _row(id=True), _row(id=None), _row(id=[])),
        "not-objects": _rows("1", '"text"', "null", "[]", "{}"),
        "not-json": _rows("{", "}", "nul", "\\", "\x00", "{'id': 1}"),
        "invalid-bytes": _rows(b'{"id": "x", "text": "\xff\xfe"}'),
        "utf16-rows": _rows("".join(map(str, range(9)))).decode().encode("utf-16"),
        "bom-first": b"\xef\xbb\xbf" + _rows(_row()),
        "carriage-returns": _rows(_row()).replace(b"\n", b"\r"),
        "no-rows": b"\n\n \n",
        "giant-row": _rows(_row(text="word " * 20 * long)),
        "many-bad-rows": _rows(*["["] * 500),
        "wide-list": _rows("[" + "[]," * 100 * long + "[]]"),
    }
    page = b"BT /F1 12 Tf 72 720 Td (text) Tj ET"
    pdfs = {
        "not-a-pdf": b"text",
        "empty": b"",
        "header-alone": b"%PDF-1.7\n",
        "cut-off": pdf_with(page)[:300],
        "no-end": pdf_with(page)[:-60],
        "garbled": pdf_with(page).replace(b"obj", b"jbo"),
        "endless-previous": pdf_with(page).replace(b"/Root", b"/Prev 9 /Root"),
        "pages-in-a-circle": pdf(b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"),
        "no-pages": pdf(b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"),
        "a-billion-pages": pdf_with(page).replace(b"/Count 1", b"/Count 999999999"),
        "a-negative-count": pdf_with(page).replace(b"/Count 1", b"/Count -1"),
        "content-of-itself": pdf_with(page).replace(b"/Contents 5 0 R", b"/Contents 3 0 R"),
        "length-of-itself": pdf_with(page).replace(b"/Length 35", b"/Length 5 0 R"),
        "huge-length": pdf_with(page).replace(b"/Length 35", b"/Length 99999999999999999999"),
        "deep-arrays": pdf_with(b"[" * long + b"]" * long + page),
        "deep-states": pdf_with(b"q " * long + page),
        "deep-dictionary": pdf(b"<< /Type /Catalog /Pages " + b"<< /A " * long, b"<< >>"),
        "form-in-itself": pdf_with(
            b"/X Do",
            b"/Type /XObject /Subtype /Form /Resources << /XObject << /X 5 0 R >> >>",
            b"/XObject << /X 5 0 R >>",
        ),
        "deflate-bomb": _deflate_bomb(1, 32 * scale * 2**20),
        "deflate-bomb-twice": _deflate_bomb(2, 64 * scale * 2**20),
        "filters": pdf_with(zlib.compress(page), b"/Filter [%b]" % (b"/FlateDecode " * long)),
        "much-text": pdf_with(b"BT /F1 12 Tf 72 720 Td " + b"(text) Tj " * long + b"ET"),
        "tiny-moves": pdf_with(b"BT /F1 1 Tf " + b"0.001 0 Td (a) Tj " * long + b"ET"),
        "huge-box": pdf_with(page).replace(b"[0 0 612 792]", b"[0 0 1e38 1e38]"),
        "encrypted-by-nobody": pdf_with(page).replace(b"/Root", b"/Encrypt << /Filter /None >> /Root"),
    }
    return {
        **{f"{name}.html": each for name, each in html.items()},
        **text,
        **{f"{name}.jsonl": _own_ids(name.encode(), rows) for name, rows in jsonl.items()},
        **{f"{name}.pdf": each for name, each in pdfs.items()},
    }


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # such names may have some 100 bytes only
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero, which has no end


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def _text(path: Path) -> None:
    path.write_text("text")


def _deep(path: Path) -> None:
    """As deep as recursion does not go; the path is shorter than systems allow."""
    for folder in reversed(path.parents):
        folder.mkdir(exist_ok=True)
    path.write_text("text")


SPECIAL: dict[str | bytes, Callable[[Path], None]] = {
    "pipe.md": os.mkfifo,
    "pipe.jsonl": os.mkfifo,
    "pipe.pdf": os.mkfifo,
    "socket.md": _socket,
    "device.txt": _device,
    "to-itself.md": _link("to-itself.md"),
    "to-nothing.md": _link("nothing.md"),
    "out-of-here.md": _link("/etc/passwd"),
    "up-and-out.txt": _link("../outside.txt"),
    "to-a-device.txt": _link("/dev/zero"),
    "outside": _link("/etc"),
    "sparse.txt": _sparse,
    "sparse.pdf": _sparse,
    "sparse.html": _sparse,
    "sparse.jsonl": _sparse,
    b"not-utf8-\xff\xfe.md": _text,
    "new\nline.md": _text,
    "\u202egnp.md": _text,
    "\x1b[2J.md": _text,
    "-rf.md": _text,
    "n" * 252 + ".md": _text,
    "d/" * 1_200 + "deep.md": _deep,
}
"""Name -> what makes it: what is no regular file, or has an odd name."""


def make(folder: Path, names: Collection[str] | None = None, scale: int = 1) -> list[str]:
    """Fills a folder with hostile files, or those of these names; their names.

    What this user may not make (devices) is left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "outside.txt").write_text("not to be read")
    made: list[str] = []
    for name, content in contents(scale).items():
        if names is None or name in names:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
            made.append(name)
    for name, maker in SPECIAL.items():
        if names is None or os.fsdecode(name) in names:
            try:
                maker(folder / os.fsdecode(name))
            except OSError as error:
                print(f"{name!r} cannot be made here: {error.strerror}", file=sys.stderr)
            else:
                made.append(os.fsdecode(name))
    return made


if __name__ == "__main__":
    print(len(make(Path(sys.argv[1]), scale=int(sys.argv[2]) if len(sys.argv) > 2 else 10)), "files")
