"""What a question's wording gives away: that yes or no answers it, that it speaks of an unseen passage, or of "it"."""

import re
from collections.abc import Sequence

from rageval_dagster.benchmark.words import STOPWORDS, english_rules_hold, tokens

BLANK = "____"
"""What stands for the answer in a cloze question."""

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
    words = tokens(question)
    offers_alternatives = "or" in words[:-1] and words[-2:] != ["or", "not"]
    return not offers_alternatives and _asks_by_inversion(question)


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
