"""How texts and questions are worded: their words, yes and no, what speaks of an unseen passage, boilerplate."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from rageval_dagster.languages import articles, stop_words
from rageval_dagster.text import is_character, is_mark, normalise_whitespace, normalised, word_spans

STOPWORDS = frozenset(
    """
    a about above across after again against all almost along already also although always am among an and another any
    anyone anything are around as at automatically be because been before behind being below beneath beside besides
    between beyond both but by can commonly could currently despite did directly do does down during each either even
    eventually ever everyone everything except explicitly few finally first for formally formerly frequently from
    further generally had has have he her here hers herself him himself his historically how however i if immediately
    implicitly in initially inside into is it its itself jointly just largely later less like mainly many may me might
    mine more most mostly must my near nearly neither never no none nor normally not nothing now of off officially
    often on once one ones only onto or originally other others our ours out outside over own partly past per possibly
    previously primarily probably quickly rarely recently same several shall she should simply since so some someone
    something sometimes soon still subsequently successfully such than that the their theirs them themselves then
    there therefore these they this those though through throughout thus to too toward towards traditionally typically
    ultimately under unless until up upon us usually versus very via was we were what when whenever where whereas
    wherever whether which while who whom whose why widely will with within without would yet you your yours
    """.split()
)
"""English function words."""


def tokens(text: str) -> list[str]:
    """The words and numbers of a text, case-folded; in scripts without spaces every character is one."""
    folded = normalised(text, "NFKC").casefold()
    return [match.group() for match in word_spans(folded)]


def content_tokens(text: str, language: str | None = None) -> list[str]:
    """The tokens that carry meaning (no function words); all of them where nothing else would be left."""
    found = tokens(text)
    without = STOPWORDS if english_rules_hold(language) else stop_words(language)
    return [token for token in found if token not in without] or found


def english_rules_hold(language: str | None) -> bool:
    """Whether a text is judged by English rules: also where its language is not known."""
    return language in (None, "en")


def word_count(found: Sequence[str]) -> int:
    """How many words some tokens are: five characters of the scripts without spaces make three."""
    characters = sum(map(is_character, found))
    return ceil(len(found) - 2 * characters / 5)


# --- questions that yes or no answers ---------------------------------------------------------------------------------

_AUXILIARIES = frozenset(
    "are can could did do does had has have is may might must shall should was were will would "
    "am isn't aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't can't couldn't won't wouldn't shouldn't "
    "mustn't".split()
)
_QUESTION_WORDS = frozenset("what when where which who whom whose why how".split())
_YES_NO_ANSWERS = frozenset("yes no ja nein oui non sí sì sim não nee tak nie да нет 是 否 はい いいえ".split())
_YES_NO_PHRASE = re.compile(r"\b(?:true or false|yes or no)\b|吗[？?]?\s*$", re.IGNORECASE)
_YES_NO_OPENING = re.compile(r"\s*(?:yes|no)\b(?:\s*[,.;:—–]|\s+-\s)", re.IGNORECASE)
_CLAUSE_BREAK = re.compile(r"[,;:]\s+")


def is_yes_no(question: str, answers: Sequence[str] = (), language: str | None = None) -> bool:
    """Whether yes or no would answer the question: by its answers in several languages, by its form in English.

    A choice between alternatives ("is it compiled or interpreted") is not one.
    """
    plain = [answer.strip(" .!。！").casefold() for answer in answers]
    if _YES_NO_ANSWERS.intersection(plain) or any(map(_YES_NO_OPENING.match, answers)):
        return True
    if _YES_NO_PHRASE.search(question):
        return True
    if not english_rules_hold(language):
        return False  # "Was kostet es" asks for more than yes
    return not _alternatives(question, "en") and _asks_by_inversion(question)


_OR = {
    "en": "or",
    "de": "oder",
    "fr": "ou",
    "es": "o|u",
    "it": "o|oppure",
    "pt": "ou",
    "pl": "lub|albo",
    "zh": "还是|還是|或者|或",
    "ja": "それとも|または",
}
_LIST_MARK = re.compile(r"[,;:、，；：]")


def offers(question: str, answer: str, language: str | None) -> bool:
    """Whether the question offers alternatives ("Which is older, the Fram or the Gjøa?"), and the answer is one."""
    parts, said = _alternatives(question, language), _bare(answer, language)
    if not (parts and said):
        return False
    before = [tokens(part)[-len(said) :] for part in parts[:-1]]
    after = [_bare(part, language)[: len(said)] for part in parts[1:]]
    listed = [_bare(part, language) for part in _LIST_MARK.split(parts[0])[1:]]
    return said in (*before, *after, *listed)


def _alternatives(question: str, language: str | None) -> list[str]:
    """The parts of a question around its "or"; none without one, or where nothing but "not" follows it."""
    word = _OR.get("en" if english_rules_hold(language) else language or "")
    if word is None:
        return []
    spaced = word if language in ("zh", "ja") else rf"\b(?:{word})\b"
    parts = re.split(spaced, question, flags=re.IGNORECASE)
    said = [tokens(part) for part in parts]
    return parts if len(parts) > 1 and all(said) and said[-1] != ["not"] else []


def _bare(text: str, language: str | None) -> list[str]:
    """The words of a text without the article before them."""
    words = tokens(text)
    return words[1:] if words[:1] and words[0] in articles(language or "en") else words


def _asks_by_inversion(question: str) -> bool:
    """Whether a clause that could be the main one starts with an auxiliary and no question word stands before it."""
    clauses = _CLAUSE_BREAK.split(question.strip().replace("’", "'"))
    for number, clause in enumerate(clauses):
        words = clause.split()
        if not words:
            continue
        if words[0].strip("\"'“([").casefold() in _AUXILIARIES and not _opens_with_a_name(words):
            return True
        # "When the file is empty, does it ..." starts with a condition, "In which year, ..." with the question.
        is_condition = number == 0 and len(words) >= 4 and words[0].casefold() in {"when", "where"}
        if not is_condition and _QUESTION_WORDS.intersection(tokens(clause)):
            return False
    return False


def _opens_with_a_name(words: Sequence[str]) -> bool:
    """Will Smith and the month of May are no auxiliaries."""
    if words[0].casefold() not in {"will", "may"} or len(words) < 2:
        return False
    named = words[1][:1].isupper() or words[1][:1].isdigit()
    return named and bool(_QUESTION_WORDS.intersection(tokens(" ".join(words))))


# --- references that only the source's reader understands -----------------------------------------------------------

_SOURCE = r"(?:passage|text|paragraph|excerpt|extract|snippet|chunk|context|document|article|section|page|sentence)s?"
_SHOWN = r"(?:table|figure|example|list|diagram|code|quote|image|illustration)s?"
_SAYS = (
    r"(?:say|mention|state|describe|explain|discuss|suggest|refer|list|provide|note|claim|argue|recommend|imply"
    r"|indicate|conclude|highlight|identif(?:y|ie))(?:s|ed|d)?"
)
_REFERENCES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:this|that|these|those|(?:the\s+)?(?:above|following|given|provided|preceding|previous|below))\s+"
        rf"(?:{_SOURCE}|{_SHOWN})\b",
        rf"\b(?:{_SOURCE}|{_SHOWN})\s+(?:above|below|provided|given here)\b",
        rf"\b(?:according to|based on|as per|as (?:stated|mentioned|described|shown|given|listed) in|mentioned in"
        rf"|stated in|described in|listed in|shown in|discussed in|referred to in)\s+(?:the|its|our)\s+"
        rf"(?:{_SOURCE}|author|writer|speaker|narrator)\b(?!\s+of\b)",
        r"\b(?:in|from|within)\s+the\s+(?:passage|text|paragraph|excerpt|extract|snippet|chunk|context|article)"
        r"(?=\s*(?:[?,.;:]|$))",
        rf"\bthe\s+(?:{_SOURCE}|author|writer|speaker|narrator)\s+(?:primarily\s+|mainly\s+|also\s+)?{_SAYS}\b",
        rf"\b(?:does|did|is|was)\s+the\s+(?:{_SOURCE}|author|writer|speaker|narrator)\s+{_SAYS}\b",
        r"\b(?:mentioned|described|listed|shown|discussed|stated|defined|given|noted|see|as)\s+(?:above|below)\b",
        # The same in other languages; what is of or by somebody is no passage.
        r"\b(?:laut|gemäß) (?:dem|diesem) (?:text|abschnitt|absatz|auszug|dokument|kontext)\b(?! (?:der|des|von)\b)",
        r"\bi(?:m (?:obigen|vorliegenden|gegebenen)|n diesem) (?:text|abschnitt|absatz|auszug|dokument|kontext)\b",
        r"\b(?:selon|d['’]après|dans) (?:le|ce) (?:texte|passage|extrait|document|paragraphe|contexte)\b(?! d)",
        r"\b(?:según|en) (?:el|este) (?:texto|pasaje|fragmento|documento|párrafo|contexto)\b(?! de)",
        r"\b(?:secondo il|secondo questo|in questo) (?:testo|brano|documento|paragrafo|contesto)\b(?! d)",
        r"\bvolgens (?:de|het|deze|dit) (?:tekst|passage|fragment|document|paragraaf|context)\b(?! van)",
        r"\b(?:segundo o|de acordo com o|conforme o|neste) (?:texto|trecho|documento|parágrafo|contexto)\b(?! d)",
        r"\b(?:według|zgodnie z)(?: tym| tego)? (?:tekst|fragment|dokument|akapit)(?:u|em)\b",
        r"(?:根据|根據|依据)(?:上文|本文|文本|文章|以上|该文|这段)",
        r"(?:この|上記の|本)(?:文章|テキスト|文書|段落)(?:によると|によれば|では)",
    )
)

_PERSONAL = frozenset("it he she they him his her hers them their theirs its itself himself herself themselves".split())
_BOUND = frozenset("his her its their himself herself itself themselves".split())
_LINKS = {"are", "is", "was", "were", "do", "does", "did", "has", "have", "had"}
_DEMONSTRATIVES = frozenset(["this", "these", "those"])
_DANGLING = _PERSONAL | _DEMONSTRATIVES | {"our", "ours"}
_DETERMINERS = frozenset(
    "a an the my your which what whose each every some any many most two three four five several all no another both "
    "one of in on for with from by at between".split()
)
_OPENERS = frozenset(
    "before after when while although though if as since because until despite besides outside in during with by to "
    "apart aside due given unlike like".split()
)
_PREPOSITIONS = frozenset("of in for by to with about on from".split())
_TIME_WORDS = frozenset("days day year years century decade month week time times".split())
_EXPLETIVE = re.compile(
    r"\bit\s+(?:(?:takes?|took|costs?|rains?|snows?|gets?)\b|(?=(?:that|to)\b)"
    r"|(?:(?:is|was|be)\s+)?(?:\w+ly\s+)?(?:possible|impossible|necessary|important|legal|illegal|common|safe|better|best"
    r"|useful|known|said|believed|thought|estimated|recommended)\b"
    r"|\w+(?=\s+(?:to|for|that|when|whether|how|if)\b))",
    re.IGNORECASE,
)
"""The "it" that stands for nothing: "how long does it take", "what does it mean when"."""

_WORD = re.compile(r"[^\W_]+(?:['’.\-&][^\W_]+)*|[,;:]")


def refers_to_source(question: str) -> bool:
    """Whether the question speaks of the passage it was made from ("according to the text", "the table above")."""
    return any(pattern.search(question) for pattern in _REFERENCES)


def has_dangling_pronoun(question: str) -> bool:
    """Whether an (English) pronoun or "this" has nothing in the question that it could stand for.

    A heuristic without a parser: something it could stand for is a name, or a word that follows a determiner, a
    preposition or an auxiliary ("do plants"), before the pronoun; anywhere, where the question opens with an aside
    ("Before he was king, ...").
    """
    text = _EXPLETIVE.sub(" ", question)
    words = _WORD.findall(text)
    lowered = [word.casefold() for word in words]
    opens_aside = bool(lowered) and lowered[0] in _OPENERS and "," in lowered
    for index, word in enumerate(lowered):
        is_title = index > 0 and words[index][:1].isupper()  # a film called "In His Eyes", the IT department
        if word not in _DANGLING or is_title or _is_no_reference(lowered, index):
            continue
        places = range(len(words)) if opens_aside else range(_start_of_asked_phrase(lowered, index))
        if not any(_may_be_antecedent(words, lowered, place) for place in places if place != index):
            return True
    return False


def _start_of_asked_phrase(lowered: Sequence[str], index: int) -> int:
    """Up to where the pronoun's antecedent may stand: in "which year was she born" she is not the year."""
    if index > 0 and lowered[index - 1] in _AUXILIARIES:
        for place in range(index - 2, -1, -1):
            if lowered[place] in {"and", "but", ","}:
                break
            if lowered[place] in _QUESTION_WORDS:
                return place
    return index


def _is_no_reference(lowered: Sequence[str], index: int) -> bool:
    if lowered[index] in _BOUND and index >= 3 and lowered[0] in {"who", "which", "what"} and lowered[1] not in _LINKS:
        return True  # "Who gained fame for her actions": the answer itself is meant.
    following = lowered[index + 1] if index + 1 < len(lowered) else ""
    if lowered[index] == "those":
        return following in {"who", "whose", "that", "which", "of", "in", "with"}
    return lowered[index] in _DEMONSTRATIVES and following in _TIME_WORDS


def _may_be_antecedent(words: Sequence[str], lowered: Sequence[str], place: int) -> bool:
    word = lowered[place]
    if word in STOPWORDS or word in _DANGLING or word in _AUXILIARIES or word in _QUESTION_WORDS or len(word) < 2:
        return False
    following = lowered[place + 1 : place + 3]
    if len(following) == 2 and following[0] in _PREPOSITIONS and following[1] in _DANGLING:
        return False  # "the name of his ..."
    if place > 0 and (words[place][:1].isupper() or any(character.isdigit() for character in word)):
        return True
    before = lowered[max(0, place - 3) : place]
    if not before:
        return bool(words[0][:1].isupper()) and word not in _OPENERS
    # "what happens", "which makes": a verb may follow the bare question word, a noun too ("which country").
    if before[-1] == "what" and word.endswith("s"):
        return False
    introducers = _DETERMINERS | _AUXILIARIES
    return before[-1] in introducers or (
        len(before) >= 2 and before[-2] in _DETERMINERS and before[-1] not in STOPWORDS
    )


# --- texts that are unfit as source, answer or question ---------------------------------------------------------------

CLEAN = "clean"
_URL = re.compile(r"(?:https?://|www\.)[^\s)>\]]+", re.IGNORECASE)
# Tried at the start of a run of dots only: a megabyte of dots is no reason to take minutes.
_DOT_LEADER = re.compile(r"(?<!\.)(?<!\.\s)(?:\.\s?){4,}+\s*+(?:\d+|[ivxlc]+)\b")
_CHARACTER_CODE = re.compile(r"\(cid:\d+\)")
_LICENCE = re.compile(
    r"permission is hereby granted, free of charge|redistributions of source code must retain"
    r"|redistribution and use in source and binary forms|without warranties or conditions of any kind"
    r"|the software is provided [\"“'`]*as is|in no event shall the (?:authors?|copyright)"
    r"|gnu (?:lesser |affero )?general public license as published|invariant sections|copyright holder gives permission"
    r"|unless required by applicable law or agreed to",
    re.IGNORECASE,
)
_SITE_FURNITURE = re.compile(
    r"skip to (?:main )?content|all rights reserved|cookie (?:policy|settings|preferences)|accept (?:all )?cookies"
    r"|privacy policy|terms of (?:use|service)|sign in|log in|subscribe to (?:our|the) newsletter|back to top"
    r"|toggle navigation|share on (?:facebook|twitter|linkedin)",
    re.IGNORECASE,
)
_RULING = re.compile(r"[-=+*~#^_.|:]{3,}|\|")
_LONG_ENOUGH_TO_COUNT = 30
"""Shares of characters say nothing about shorter texts."""


def noise_kind(text: str) -> str:
    """What makes a text unfit as source, answer or question, or `CLEAN`.

    One of `empty` (no letter or digit), `damaged` (broken characters, letters pulled apart), `symbols` (more
    punctuation than words), `links`, `contents` (a table of contents), `licence`, `site` (navigation, cookie and
    rights notices), `repetition`.
    """
    solid = "".join(_RULING.sub(" ", text).split())  # The lines of a drawn table are no text.
    if not any(character.isalnum() for character in solid):
        return "empty"
    if _is_damaged(text, solid):
        return "damaged"
    if len(_DOT_LEADER.findall(text)) >= 3:
        return "contents"
    if _LICENCE.search(normalise_whitespace(text)):
        return "licence"
    if len(solid) < _LONG_ENOUGH_TO_COUNT:
        return CLEAN
    if sum(map(len, _URL.findall(text))) > 0.6 * len(solid):
        return "links"
    # The underscore belongs to identifiers.
    if sum(each.isalnum() or each == "_" or is_mark(each) for each in solid) < 0.6 * len(solid):
        return "symbols"
    if len(_SITE_FURNITURE.findall(text)) >= 3:
        return "site"
    words = tokens(text)
    if sum(map(is_character, words)) > 0.5 * len(words):
        # There are some thousand characters and far more words: two in a row repeat as seldom as words do.
        words = list(map("".join, pairwise(words)))
    if len(words) >= 30 and len(set(words)) < 0.15 * len(words):
        return "repetition"
    return CLEAN


def _is_damaged(text: str, solid: str) -> bool:
    broken = sum(
        character == "\ufffd" or (unicodedata.category(character) in {"Cc", "Co", "Cs"} and not character.isspace())
        for character in text
    )
    if broken * 50 > len(solid) or len(_CHARACTER_CODE.findall(text)) >= 3:
        return True
    words = text.split()
    single = sum(len(word) == 1 and word.isascii() and word.isalpha() for word in words)
    return len(words) >= 12 and single > 0.5 * len(words)
