"""Redaction: what the preset takes out of texts and what it leaves, and the user's own function."""

import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rageval_dagster.errors import RedactionError, SettingsError
from rageval_dagster.redaction import Redactor, load_redactor

HERE = Path()

PERSONAL = {
    "[email]": ["john.doe+x@example.co.uk", "müller@firma.de", "a_b@sub.exämple.org", "USER@EXAMPLE.COM"],
    "[phone]": [
        *(
            "+49 (0)30 1234567",
            "+1-212-555-0199",
            "+442079460958",
            "0049 30 123456",
            "004930123456",
            "+33 1.23.45.67.89",
        ),
        *("030 12345678", "030/1234567", "(030) 123456", "0171-1234567", "089 / 12 34 56", "01 23 45 67 89"),
        *("01.23.45.67.89", "020 7946 0958", "(020) 7946 0958", "07700900123", "(02) 5550 1234", "+1 (800) 555-0199"),
        *("(212) 555-0199", "212-555-0199", "212.555.0199", "1-800-555-0199"),
    ],
    "[iban]": [
        *("DE89 3704 0044 0532 0130 00", "DE89370400440532013000", "gb82west12345698765432", "NO93 8601 1117 947"),
        *("GB82 WEST 1234 5698 7654 32", "FR14 2004 1010 0505 0001 3M02 606"),
    ],
    "[card]": [
        *("4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "3782 822463 10005", "378282246310005"),
        *("5500000000000004", "4222222222222", "6304000000000000", "6759 6498 2643 8453 011"),
    ],
}

HARMLESS = [
    *(
        "01.02.2024",
        "2024-01-02",
        "05/06/2024 12:30",
        "05.06.2024 10 20 30",
        "05/06/24 - 07/08/24",
        "03/2019 - 05/2021",
    ),
    *("1939-1945", "2023/2024", "2024-05-06T10:00:00+0200", "08:30-12:00", "0800-1200", "Nature (2020) 586 378-383"),
    *("ISBN 978-3-16-148410-0", "9783161484100", "ISBN 0-306-40615-2", "ISBN 0306406152", "ISBN-10: 0306406152"),
    *("Python 3.10, 3.11, 3.12", "10.15.7.1234", "192.168.100.200", "1.0.0+20240101123456", "react@18.2.0", "RFC 2119"),
    *("$1,234,567.89", "1.234.567,89 EUR", "12 000 000 EUR", "0.4111111111111111", "3.141592653589793"),
    *(
        "DE88 3704 1144 1532 1130 11",
        "4111 1111 1111 1112",
        "doi:10.1000/0123456789",
        "@decorator.name",
        "0x0123456789",
    ),
]


def pii() -> Redactor:
    return load_redactor("pii", HERE)


@pytest.mark.parametrize(
    ("placeholder", "value"), [(placeholder, value) for placeholder, values in PERSONAL.items() for value in values]
)
def test_personal_data_becomes_its_placeholder(placeholder: str, value: str) -> None:
    redactor = pii()
    frames = ["{}", "Ask {}, or come by.", "({})", "contact:{}\nRoom 12", "请联系{}。"]
    for frame in frames:
        assert redactor.redact(frame.format(value)) == frame.format(placeholder)
    assert redactor.count == len(frames)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_numbers_stay(text: str) -> None:
    redactor = pii()
    assert redactor.redact(f"See {text} there.") == f"See {text} there."
    assert redactor.count == 0


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Tel. 912 345 678", "Tel. [phone]"),
        ("Phone: 555-0199 or fax 555-0198", "Phone: [phone] or fax [phone]"),
        ("912 345 678 pieces", "912 345 678 pieces"),
        ("030 1234567/089 7654321", "[phone]/[phone]"),
        ("01 23 45 67 89 06 12 34 56 78", "[phone] [phone]"),
        ("+49 30 1234567 01.02.2024", "[phone] 01.02.2024"),
        ("BE68 5390 0754 7034 Bankkonto", "[iban] Bankkonto"),
        ("4111-1111-1111-1111 12/26 123", "[card] 12/26 123"),
    ],
)
def test_a_number_ends_where_the_next_begins_and_a_word_before_it_tells_what_it_is(text: str, redacted: str) -> None:
    assert pii().redact(text) == redacted


_parts = st.sampled_from(
    [value for values in PERSONAL.values() for value in values]
    + [
        *HARMLESS,
        " ",
        "-",
        "/",
        ".",
        ", ",
        "+",
        "(",
        ")",
        "@",
        "x",
        "0",
        "12",
        "tel ",
        "ISBN ",
        "\n",
        "[phone]",
        "é",
        "中",
    ]
)


@given(st.one_of(st.text(), st.lists(_parts, max_size=8).map("".join), st.text("01279+-/.() @aDE", max_size=60)))
@example("john@x.de4111111111111111")
@example("+4 030 1234567 0171 1234567")
@settings(max_examples=400)
def test_what_is_redacted_stays_as_it_is(text: str) -> None:
    once = pii().redact(text)
    again = pii()
    assert again.redact(once) == once
    assert again.count == 0


@given(st.integers(1, 9), st.lists(st.integers(0, 9), min_size=11, max_size=17))
def test_every_number_with_the_check_digit_of_cards_is_taken_out(first: int, digits: list[int]) -> None:
    body = [first, *digits]
    doubled = sum(2 * digit - 9 * (digit > 4) for digit in body[::-2]) + sum(body[-2::-2])
    number = "".join(map(str, [*body, -doubled % 10]))
    if number.startswith(("978", "979")) and len(number) == 13:
        return
    assert pii().redact(f"no {number}") == "no [card]"


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "1 ", "1234 ", "+1", "a@a.", "@", "0", "01 ", "(01)", "DE89 ", "ab1234 ", "tel 1 ", "030-12", "00 1"],
)
def test_no_text_makes_it_slow(piece: str) -> None:
    began = time.process_time()
    pii().redact(piece * (50_000 // len(piece)))
    assert time.process_time() - began < 5


def test_a_megabyte_takes_seconds() -> None:
    redactor = pii()
    text = (
        "The contract of 12.03.2019 costs 1,234.50 EUR. Ask john@x.de or +49 30 1234567, DE89 3704 0044 0532 0130 00.\n"
    )
    began = time.process_time()
    redactor.redact(text * (1_000_000 // len(text)))
    assert time.process_time() - began < 20
    assert redactor.count == 3 * (1_000_000 // len(text))


def hook(folder: Path, name: str, body: str) -> str:
    (folder / f"{name}.py").write_text(f"def redact(text):\n    {body}\n", encoding="utf-8")
    return f"{name}:redact"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_users_own_function_redacts_and_counts_the_texts_it_changed(tmp_path: Path) -> None:
    redactor = load_redactor(hook(tmp_path, "own_redaction", "return text.replace('Smith', 'X')"), tmp_path)
    assert [redactor.redact(text) for text in ("Smith and Smith", "Jones", "")] == ["X and X", "Jones", ""]
    assert redactor.count == 1


def test_the_version_tells_redactions_apart(tmp_path: Path) -> None:
    assert load_redactor(None, HERE).version is None
    assert pii().version == pii().version
    name = hook(tmp_path, "changed_redaction", "return text")
    before = load_redactor(name, tmp_path).version
    hook(tmp_path, "changed_redaction", "return text.upper()")
    assert len({before, load_redactor(name, tmp_path).version, pii().version, None}) == 4


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError(text)", "raised ValueError"),
        ("return None", "gave back NoneType"),
        ("return text[99]", "IndexError"),
    ],
)
def test_a_function_that_fails_is_named_without_the_text(tmp_path: Path, body: str, said: str) -> None:
    name = f"failing_{abs(hash(body))}"
    redactor = load_redactor(hook(tmp_path, name, body), tmp_path)
    with pytest.raises(RedactionError, match=f"{name}:redact .*{said}") as raised:
        redactor.redact("the canary")
    assert raised.value.__context__ is None
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gdpr", "redact takes pii, or package.module:function, not 'gdpr'"),
        ("no_such_module_here:redact", "there is no module 'no_such_module_here'"),
        ("broken_redaction:redact", "importing broken_redaction fails with ZeroDivisionError"),
        ("json:redact", "json has no function 'redact'"),
        ("json:__name__", "json has no function '__name__'"),
    ],
)
def test_a_redaction_that_is_not_there_is_said(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "broken_redaction.py").write_text("1 / 0", encoding="utf-8")
    with pytest.raises(SettingsError, match=said):
        load_redactor(name, tmp_path)
