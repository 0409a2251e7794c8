"""How many tokens a text has, about, whatever the model: without its tokenizer."""

import string

_LETTERS = (string.ascii_letters + string.whitespace).encode()
_ASCII = bytes(range(128))


def estimated_tokens(text: str) -> int:
    """About the tokens of a text: one for 4 letters or spaces of ASCII, 2 of its other characters, 3 bytes of UTF-8.

    So a Chinese character is a token, two Cyrillic or Arabic letters are a little more than one, and tables of numbers
    have more than prose of the same length. A model that knows only English needs more for other languages.
    """
    data = text.encode("utf-8", "surrogatepass")
    marks_and_others = len(data.translate(None, _LETTERS))
    others = len(data.translate(None, _ASCII))
    letters, marks = len(data) - marks_and_others, marks_and_others - others
    return -(-(3 * letters + 6 * marks + 4 * others) // 12)
