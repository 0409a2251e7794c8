"""Passages that extraction spoilt are told by kind, and sound ones of any script are left alone."""

import pytest

from rageval_dagster.corpus.noise import RepeatedLines, noise_kinds

SOUND = [
    "Either party may terminate this agreement with thirty days' notice in writing; fees are due until then.",
    "Die Größe der Flächen beträgt 40 m². Vor- und Nachteile, Ein- oder Ausgänge sind oben beschrieben.",
    "São Paulo é a maior cidade do Brasil; NÃO há informações sobre o ano de fundação deste município.",
    "東京は日本の首都であり、世界最大級の都市圏を形成している。人口は約千四百万人である。",
    "ประเทศไทยเป็นประเทศที่ตั้งอยู่ในเอเชียตะวันออกเฉียงใต้",
    "Москва является столицей России и крупнейшим городом страны.",
    "- first point\n- second point\n- third point of the list, which is a well-known one",
    "",
]


@pytest.mark.parametrize("text", SOUND)
def test_sound_text_of_any_script_is_no_noise(text: str) -> None:
    assert noise_kinds(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Die Größe der Flächen beträgt vierzig.".encode().decode("cp1252"), "unreadable characters"),
        ("Überall prüfen ältere Schüler".encode().decode("latin-1"), "unreadable characters"),
        ("Столица России".encode().decode("latin-1"), "unreadable characters"),
        ("The contract \ufffds value", "unreadable characters"),
        ("The (cid:12)rst of(cid:13)ce", "unreadable characters"),
        ("The ﬁrst of the ﬂoors is open", "ligatures"),
        ("The termi-\nnation of agree-\nments is des- cribed below in the appen- dix", "broken words"),
        ("T h e   n o t i c e   p e r i o d   i s   l o n g", "lone letters"),
        ("| 12.5 | 33 | -- | 88.1 % | 12 / 14 | 9,001 | ++ | 44 | 17.2 |", "few letters"),
    ],
)
def test_what_extraction_spoilt_is_told_by_kind(text: str, kind: str) -> None:
    assert noise_kinds(text) == [kind]


def test_passages_made_of_lines_that_many_have() -> None:
    banner = "We use cookies to improve your experience on our site.\nPage {} of 40\n"
    lines = RepeatedLines()
    for number in range(12):
        lines.add(f"banner {number}", banner.format(number))
        lines.add(
            f"content {number}", banner.format(number) + f"What room {number} holds is told here. " * (number + 6)
        )
    for number in range(4):
        lines.add(f"rare {number}", "This line stands in four passages alone.")
    assert lines.mostly_repeated() == [f"banner {number}" for number in range(12)]


def test_sentences_of_a_passage_without_line_breaks_are_lines_too() -> None:
    lines = RepeatedLines()
    for number in range(6):
        lines.add(str(number), f"All rights are reserved by the publisher. Reprints need its consent. Nr {number}.")
    assert len(lines.mostly_repeated()) == 6
