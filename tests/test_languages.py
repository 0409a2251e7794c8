"""Languages: what they are told by, how people decline in them, and which embedding models do not know them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster import languages
from rageval_dagster.languages.profiles import LANGUAGES, NAMES
from tests.language_samples import NO_LANGUAGE, PARAGRAPHS, SENTENCES


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in SENTENCES.items() for text in texts])
def test_a_sentence_is_enough_to_tell_its_language(code: str, text: str) -> None:
    assert languages.detect(text) == code


@pytest.mark.parametrize("kind", NO_LANGUAGE)
def test_what_is_no_prose_has_no_language(kind: str) -> None:
    assert languages.detect(NO_LANGUAGE[kind]) is None


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_a_language_of_two_letters_or_none(text: str) -> None:
    found = languages.detect(text)
    assert found is None or (len(found) == 2 and found.isascii() and found.islower())


def test_shares_of_languages_name_the_largest_first() -> None:
    texts = [SENTENCES["en"][0], *SENTENCES["de"], NO_LANGUAGE["code"]]
    shares = languages.language_shares(texts)
    assert shares == {"de": 0.5, "en": 0.25, "": 0.25}
    assert next(iter(shares)) == "de"
    assert languages.language_shares(texts, "fr") == {"fr": 1.0}
    assert languages.language_shares([]) == {}


def test_sentences_end_by_the_rules_of_their_language() -> None:
    german = "Das gilt z. B. für Dr. Maier. Alle anderen zahlen bzw. warten bis zum Ende des Monats."
    assert languages.sentences(german) == [
        "Das gilt z. B. für Dr. Maier.",
        "Alle anderen zahlen bzw. warten bis zum Ende des Monats.",
    ]
    assert len(languages.sentences(german, "en")) == 3


def test_stop_words_are_those_of_the_language_or_english() -> None:
    assert "nicht" in languages.stop_words("de")
    assert "with" not in languages.stop_words("de")
    assert languages.stop_words(None) == languages.stop_words("sv") == languages.stop_words("en")
    for language in LANGUAGES.values():
        assert all(word == word.casefold() for word in language.stop_words | set(language.hanging))


@pytest.mark.parametrize(
    ("sentence", "language", "hangs"),
    [
        ("Sie wurde 1837 gebaut.", "de", True),
        ("Die Brücke wurde 1837 gebaut.", "de", False),
        ("Das Schloss wurde 1837 gebaut.", "de", False),
        ("Het kasteel werd in 1837 gebouwd.", "nl", False),
        ("Elle fut construite en 1837.", "fr", True),
        ("En 1837 le pont fut construit.", "fr", False),
        ("它建于1837年。", "zh", True),
        ("这座桥建于1837年。", "zh", True),
        ("石桥建于1837年。", "zh", False),
        ("Den byggdes 1837.", "sv", False),
        ("...", "de", False),
    ],
)
def test_a_sentence_that_points_back_hangs(sentence: str, language: str, hangs: bool) -> None:
    assert languages.hangs(sentence, language) == hangs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don’t know.", True),
        ("I'm sorry, but the provided documents don't contain any information on that.", True),
        ("Unfortunately, I cannot answer this question.", True),
        ("The context does not mention when the bridge was closed.", True),
        ("Ich weiß es leider nicht.", True),
        ("Im Kontext steht dazu nichts.", True),
        ("Leider kann ich diese Frage anhand der Kontexte nicht beantworten.", True),
        ("Zu dieser Frage enthalten die Dokumente leider keine Informationen. ICH WEISS ES NICHT.", True),
        ("Je ne sais pas.", True),
        ("Le contexte ne permet malheureusement pas de répondre à la question.", True),
        ("Lo siento, no lo sé.", True),
        ("No hay información sobre ese tema en los documentos.", True),
        ("Mi dispiace, non lo so.", True),
        ("I documenti non contengono informazioni su questo argomento.", True),
        ("Dat weet ik helaas niet.", True),
        ("De documenten bevatten hierover geen informatie over de brug.", True),
        ("Infelizmente, não sei.", True),
        ("O contexto não contém informações sobre isso.", True),
        ("Niestety nie wiem.", True),
        ("Dokumenty nie zawierają informacji na ten temat.", True),
        ("申し訳ありませんが、わかりません。", True),
        ("提供された文書には記載されていません。", True),
        ("抱歉，我不知道。", True),
        ("根据提供的资料，没有提到这一点。", True),
        ("I don't know.\n\nSources: [1], [2]", True),
        ("I don't know.\n[1] handbook.pdf\n[2] policy.pdf", True),
        ("Ich weiß es nicht.\nQuellen: [handbuch.pdf:3]", True),
        ("I don't know. Please [write to us](https://example.org).", True),
        ("Not mentioned in the provided context.", True),
        ("No information available.", True),
        ("No information is currently available on this.", True),
        ("Based on the provided context, there is no mention of the CEO's salary.", True),
        ("The context doesn't say.", True),
        ("I'm sorry, but the context does not say.", True),
        ("The documents do not mention the fee.", True),
        ("Unfortunately, the provided documents don't state the fee.", True),
        ("Dazu finde ich in den Unterlagen keine Angaben.", True),
        ("Leider finde ich dazu in den Unterlagen keine Angaben.", True),
        ("Zu den Kosten machen die Unterlagen keine Angaben.", True),
        ("Keine Angabe.", True),
        ("Keine Angaben in den Unterlagen.", True),
        ("Die Unterlagen enthalten dazu keine Angaben.", True),
        ("Aus den vorliegenden Dokumenten geht das nicht hervor.", True),
        ("Im Text wird das nicht erwähnt.", True),
        ("Unknown.", True),
        ("unknown", True),
        ("Unfortunately, unknown.", True),
        ("N/A", True),
        ("n/a", True),
        ("**N/A**", True),
        ("Unknown.\n\nSources: [1], [2]", True),
        ("Unbekannt.", True),
        ("Inconnu.", True),
        ("Desconocido.", True),
        ("Onbekend.", True),
        ("", False),
        ("It was built in 1850.", False),
        ("It was built in 1850 [1]. The contexts do not contain the answer to when it burnt down.", False),
        ("It was built in 1850 [bridges.md]. I do not know when it burnt down.", False),
        ("It was built in 1850 (source: bridges.md). I do not know when it burnt down.", False),
        ("They act as I don't knowingly.", False),
        ("The bridge was built by hand. " * 20 + "I don't know more.", False),
        ("Die Brücke wurde 1837 gebaut und darf von Lastwagen nicht befahren werden.", False),
        ("Le pont fut construit en 1837 et les camions ne peuvent pas y passer.", False),
        ("El puente fue construido en 1837 y los camiones no pueden pasar.", False),
        ("Il ponte fu costruito nel 1837 e i camion non possono passare.", False),
        ("De brug werd in 1837 gebouwd en vrachtwagens mogen er niet over.", False),
        ("A ponte foi construída em 1837 e os camiões não podem passar.", False),
        ("Most zbudowano w 1837 roku i ciężarówki nie mogą po nim jeździć.", False),
        ("橋は1837年に建設され、トラックは通れません。", False),
        ("这座桥建于1837年，卡车不能通行。", False),
        ("The contract makes no mention of a fee, so none is due.", False),
        ("There is no mention of a fee in the contract, so none is due.", False),
        ("There is no information desk on the third floor.", False),
        ("The status is unknown to the clerk until Monday.", False),
        ("Unknown to the clerk, the bridge was closed.", False),
        ("Items not mentioned in the list are free.", False),
        ("No information was given to the police.", False),
        ("No information is available to visitors without a badge.", False),
        ("If the document does not state a date, it is void.", False),
        ("The document does not state a fee, so none is due.", False),
        ("The fee is $5. The context does not say when it is due.", False),
        ("The documents do not need a signature.", False),
        ("Enter N/A in the second field.", False),
        ("Der Minister machte keine Angaben.", False),
        ("Keine Angabe im Antrag darf fehlen.", False),
        ("Wenn die Unterlagen keine Angaben enthalten, gilt der Antrag als zurückgezogen.", False),
        ("Die Unterlagen enthalten keine Angaben zum Preis, daher ist keiner fällig.", False),
        ("Die Dokumente enthalten alle Angaben.", False),
        ("Der Täter ist unbekannt.", False),
    ],
)
def test_which_answers_decline(text: str, expected: bool) -> None:
    assert languages.is_decline(text) is expected


def test_a_systems_own_phrases_decline_wherever_they_stand_and_whatever_is_cited() -> None:
    text = "We looked everywhere. " * 30 + "Please  ask a\ncolleague [1]."
    assert not languages.is_decline(text)
    assert languages.is_decline(text, ["please ask a colleague"])
    assert languages.is_decline(text, ["unused", "PLEASE … colleague"])
    assert not languages.is_decline("Please ask a colleagues", ["ask a colleague"])
    assert not languages.is_decline("It was built in 1850.", ["", "  "])
    assert languages.declines_version(["please ask"]) != languages.declines_version()


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_known_phrase_declines(code: str) -> None:
    for phrase in LANGUAGES[code].declines:
        assert languages.is_decline(phrase.replace("…", "xyz")), phrase


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80), st.text(min_size=1, max_size=12).filter(str.strip))
def test_any_phrase_is_found_in_any_text(text: str, phrase: str) -> None:
    assert languages.is_decline(f"{text} {phrase} {text}", [phrase])


@pytest.mark.parametrize(
    ("model", "english_only"),
    [
        ("sentence-transformers/all-MiniLM-L6-v2", True),
        ("all-mpnet-base-v2", True),
        ("/srv/models/all-MiniLM-L12-v2/", True),
        ("BAAI/bge-small-en-v1.5", True),
        ("intfloat/e5-base-v2", True),
        ("thenlper/gte-large", True),
        ("multi-qa-mpnet-base-dot-v1", True),
        ("intfloat/multilingual-e5-base", False),
        ("paraphrase-multilingual-MiniLM-L12-v2", False),
        ("BAAI/bge-m3", False),
        ("openai:text-embedding-3-small", False),
        ("acme/own-model", None),
        ("", None),
    ],
)
def test_which_models_know_english_alone(model: str, english_only: bool | None) -> None:
    assert languages.is_english_only(model) is english_only


def test_an_english_model_over_other_languages_is_named_with_their_shares() -> None:
    shares = {"de": 0.45, "en": 0.3, "fr": 0.1, "ja": 0.06, "pl": 0.05, "": 0.04}
    warning = languages.language_warning("sentence-transformers/all-MiniLM-L6-v2", shares)
    assert warning is not None
    assert "sentence-transformers/all-MiniLM-L6-v2" in warning
    assert "German (45%), French (10%), Japanese (6%), other languages (5%)" in warning
    assert "RAGEVAL_EMBEDDING_MODEL" in warning
    assert "RAGEVAL_METRIC_EMBEDDING_MODEL" in warning


@pytest.mark.parametrize(
    ("model", "shares"),
    [
        ("all-MiniLM-L6-v2", {"en": 1.0}),
        ("all-MiniLM-L6-v2", {"en": 0.96, "de": 0.04}),
        ("all-MiniLM-L6-v2", {"en": 0.5, "": 0.5}),
        ("all-MiniLM-L6-v2", {}),
        ("intfloat/multilingual-e5-base", {"de": 1.0}),
        ("acme/own-model", {"de": 1.0}),
    ],
)
def test_nothing_is_said_where_the_model_fits_or_is_not_known(model: str, shares: dict[str, float]) -> None:
    assert languages.language_warning(model, shares) is None


def test_models_are_warned_of_once() -> None:
    models = ["all-MiniLM-L6-v2", "all-MiniLM-L6-v2", "acme/own-model", "bge-base-en"]
    assert len(languages.language_warnings(models, {"de": 1.0})) == 2


def test_every_language_of_the_samples_has_a_name() -> None:
    assert set(SENTENCES) | set(PARAGRAPHS) | set(LANGUAGES) <= set(NAMES)
    assert [languages.language_name(code) for code in ("de", "xx", "")] == ["German", "xx", "not told"]
