"""English wh-questions by rule: a declarative sentence is read as subject, verb and rest, and one part is asked for."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rageval_dagster.benchmark import english

Kind = Literal["what", "who", "when", "where", "how_many", "why"]

MAX_SUBJECT_WORDS = 9
MAX_ANSWER_WORDS = 25
MAX_CONTEXT_WORDS = 6
"""How many words of the sentence a question keeps beside subject and verb: more would copy the chunk."""

_TOKEN = re.compile(r"\w+(?:[-'’.,/]\w+)*(?:\(\)|%)?|''|``|--|[^\w\s]")
_YEAR = re.compile(r"(1[0-9]|20)\d\d(s)?$")
_NUMBER = re.compile(r"[\d.,]+$")
_NOT_OBJECTS = english.words("been be more less to longer better worse up down out away back apart together true false")
_BREAKS = frozenset({",", ";", ":", "(", "--", "—", "–"})
_CLAUSE_WORDS = english.words("which that who whom whose while although though whereas because so but where")
_DANGLING = (
    english.DETERMINERS | english.PREPOSITIONS | english.CONJUNCTIONS | english.ADVERBS | {"its", "their", "his", "her"}
)
_ANAPHORA = english.words("he she it they him her them this these those here there such former latter i you we us")
_ELSEWHERE = re.compile(
    r"\b(?:following|above|below|previous|listed|in question|the (?:same|table|figure|chapter|section))\b",
    re.IGNORECASE,
)
_SUBORDINATORS = english.words(
    "that which who whom whose where when if while because although though unless whether what how why"
)
_RELATIVE = english.words("that which who whose where")
_IDIOMS = frozenset("a lot|a bit|a little|advantage|care|effect|part|place|precedence".split("|"))
"""Objects that are a part of their verb: "take effect"."""

_CONTRACTED = re.compile(r".+['’](?:re|ve|ll|m)|.+n['’]t|(?:it|he|she|that|there|what|who)['’]s")
_AFTER_NOUNS = english.AUXILIARIES | {"to", "of", "and", "or"}
_NO_OPENING = re.compile(r"\(|\*+\s|\d+[:.)]\s")
"""What is left of a list, of a table, or of a sentence that was cut."""

_POLITE = frozenset(["please", "kindly"])
_ELLIPTICAL = english.words("like unlike as such except same")
"""How an answer opens that says what something is by what was said of another thing."""

_VAGUE_SUBJECTS = english.words(
    "example examples exception note notes reason result problem idea goal point thing"
    " best current entire main new original resulting whole"
)
"""Of what, another sentence says; and adjectives, whose noun was taken for a verb ("the entire structured output")."""

_GENERIC_SUBJECTS = english.NUMBER_WORDS | english.words(
    "another answer argument chapter column command current default each entry example field figure file first"
    " following format function item last latter list method name new number old option options other others output"
    " parameter result same second section setting settings situation string table third type value values variable"
    " version"
)
"""Subjects made of these alone are many things in one document: "the default value", "Table 9.45"."""

_VAGUE_ANSWERS = english.words("certain different few lots many no other several some such these various")
_AFTER_VERBS = english.DETERMINERS | english.PREPOSITIONS - {"of"} | {""}
_CAUSING = english.words("allow cause enable encourage force help lead permit require")
_SAYING = english.words(
    "argue argues argued claim claims claimed mean means meant note notes noted say says said state states stated"
    " suggest suggests suggested think thinks thought"
)
_CUT_LIST = re.compile(r"\s*,(?:\s[\w'’-]+){1,4}(?:\s*,(?:\s[\w'’-]+){1,4})*\s*,?\s(?:and|or)\s")
_CUT_NAME = re.compile(
    r"\(|\s(?:[A-Z\d]|\+|[$<]\w)|\s\([^)]*\)\s(?!(?:in|on|for|from|by|with|when|if|and|or|as|to|at|after)\b)\w"
)
"""What goes on with a name, a number or behind brackets: "PostgreSQL | 11", "the most recent | (latest) versions"."""
_CUT_ADJECTIVE = re.compile(
    r",\s(?!(?:and|or|but|so|which|who|where|when|while|if|as|in|on|for|with|e\.g)\b)[a-z][\w-]*\s\w"
)
_CUT_PAIR = re.compile(r"\s*,?\s(?:and|or)\s(?:[a-z-]+ly\b|[A-Z\d]|([a-z-]+)\s([\w`]+))")
_THIN = re.compile(rf"(?:the|an?|its|their)\s[a-z\d][\w-]*|{'|'.join(sorted(english.MONTHS))}")
_HALF_SAID = english.words("able close due either equal likely present relative similar")
"""Words that an answer does not end with: what they belong to follows, or stands in the question."""

_AFTER_IMPERATIVES = english.DETERMINERS | english.PRONOUNS | english.PREPOSITIONS | english.ADVERBS | {"to"}
_PREPOSITION_VERBS = {
    "refer": "to", "consist": "of", "depend": "on", "belong": "to", "rely": "on", "result": "in", "lead": "to",
    "correspond": "to", "derive": "from", "focus": "on", "apply": "to", "stand": "for", "contribute": "to",
    "suffer": "from", "participate": "in", "serve": "as", "act": "as", "originate": "from", "differ": "from",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question about a sentence. `start` and `end` are the answer's place in the sentence's `text`.

    `subject` is the sentence's subject; `common` says that it is a mere "the thing", which needs a topic beside it to
    be understood. `defines` says that the answer is what the subject is.
    """

    question: str
    start: int
    end: int
    kind: Kind
    common: bool
    subject: str
    defines: bool = False


@dataclass(frozen=True)
class _Token:
    text: str
    start: int
    end: int

    @property
    def low(self) -> str:
        return self.text.lower()

    @property
    def is_name(self) -> bool:
        return self.text[0].isupper() and self.low not in english.STOPWORDS


_Tokens = Sequence[_Token]


@dataclass(frozen=True)
class _Clause:
    """`verb` is the finite verb (for "was built" and "can return" the auxiliary), `rest` what follows it."""

    text: str
    lead: _Tokens
    subject: _Tokens
    subject_text: str
    verb: _Token
    rest: _Tokens
    person: bool
    resolved: bool

    def words(self, tokens: _Tokens) -> str:
        return self.text[tokens[0].start : tokens[-1].end] if tokens else ""

    @property
    def hedged(self) -> bool:
        """Whether the question would leave out an "often" before what is said of the subject."""
        return not english.HEDGES.isdisjoint(re.findall(r"\w+", self.text[: self.rest[0].start].lower()))

    @property
    def common(self) -> bool:
        """Whether the subject is a common noun with an article or none ("the coat"), so that it names nothing."""
        if self.resolved:
            return False
        names = self.subject[1:] if self.subject[0].low in english.DETERMINERS else self.subject[1:] or self.subject
        return not any(token.is_name or token.text[0].isdigit() for token in names) and (
            len(self.subject) > 1 or not self.subject[0].is_name
        )


def ask(text: str, topic: str | None, previous: str | None) -> list[Asked]:
    """Every question the rules find in a sentence, best kinds first; none if it cannot be read safely.

    Args:
        text: one sentence with single spaces.
        topic: what the document or section is about; a leading "it", "he", "she" or "they" is replaced by it, if the
            previous sentence speaks of it.
        previous: the sentence before.
    """
    tokens = _tokens(text)
    asked = [_ask_consequence(text, tokens)]
    clause = _read(text, tokens, topic, previous)
    if clause is not None:
        asked.extend(question for rule in _RULES for question in rule(clause))
    return [question for question in asked if question is not None and _well_formed(question, text)]


def is_statement(text: str) -> bool:
    """Whether an English sentence says something of a subject: no instruction ("Save it to ..."), no description
    without a subject ("Not supported by ...", "Option that allows ...").

    A heuristic without a parser: the clause after a leading adverbial does not open with a verb form, and has a finite
    verb for itself beside those of its subordinate clauses.
    """
    tokens = _tokens(text)
    if any(
        _instructs(tokens, start)
        for start in range(len(tokens) - 1)
        if not start or tokens[start - 1].text in {",", ":"}
    ):
        return False
    tokens = _main_clause(tokens)
    if len(tokens) < 3 or _NO_OPENING.match(text) or tokens[0].low in {"not", "and", "or", "but", "nor"}:
        return False
    if tokens[0].low in english.ADVERBS and _is_past(tokens[1]):
        return False  # "Only used if ..."
    first, second = tokens[0].low, tokens[1]
    follows_imperative = second.low in _AFTER_IMPERATIVES or not second.text[0].isalpha()
    auxiliary = any(token.low in english.AUXILIARIES for token in tokens[1:])
    if first not in english.STOPWORDS and second.low in english.DETERMINERS | {"your", "all", "any", "this", "these"}:
        return False  # "Click the button": no noun stands before an article
    is_name = second.is_name and not english.is_base_verb(first)  # the United States
    if english.is_verb_form(first) and not is_name and (follows_imperative or not auxiliary):
        return False
    finite = [index for index in range(len(tokens)) if _may_be_finite(tokens, index)]
    subordinate = [index for index, token in enumerate(tokens) if token.low in _SUBORDINATORS]
    return len(finite) > len(subordinate) or bool(finite and finite[0] < subordinate[0])


def _instructs(tokens: _Tokens, start: int) -> bool:
    """Whether an instruction starts here for certain: "please read", "always use"."""
    first, second = tokens[start].low, tokens[start + 1].low
    return first in _POLITE or (first in english.ADVERBS and english.is_base_verb(second))


def _main_clause(tokens: _Tokens) -> _Tokens:
    """The clause without the adverbial or the condition before its first comma; nothing after a clipped condition."""
    opens_lead = tokens and (tokens[0].low in english.PREPOSITIONS | english.CONDITIONS or _is_participle(tokens[0]))
    if not opens_lead:
        return tokens
    commas = [index for index, token in enumerate(tokens) if token.text == ","]
    if not commas:
        return () if tokens[0].low in english.CONDITIONS else tokens
    lead, rest = tokens[: commas[0]], tokens[commas[0] + 1 :]
    if tokens[0].low in english.CONDITIONS and not any(_may_be_finite(lead, index) for index in range(2, len(lead))):
        return ()  # "If true, ...", "When set, ..." speak of an option that is not named
    return rest[1:] if rest and rest[0].low == "then" else rest


def _is_past(token: _Token) -> bool:
    return not token.is_name and english.past_to_base(token.low) is not None


def _is_participle(token: _Token) -> bool:
    return token.low.endswith("ing") or english.past_to_base(token.low) is not None


def _may_be_finite(tokens: _Tokens, index: int) -> bool:
    """Whether a token may be the finite verb of a clause, as far as itself and its neighbours tell."""
    token = tokens[index]
    if _CONTRACTED.fullmatch(token.low):
        return True
    if index == 0:
        return False
    before = tokens[index - 1]
    if token.low in english.AUXILIARIES:
        return before.low not in english.AUXILIARIES | {"not", "to"}
    if token.is_name or before.low in english.AUXILIARIES | english.DETERMINERS | english.PREPOSITIONS | {"be", "been"}:
        return False
    if english.past_to_base(token.low):
        return True
    if english.third_to_base(token.low):
        # Else it may be a plural: "the command to use for git commands."
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        return after is not None and after.low not in _AFTER_NOUNS and bool(re.match(r"[\w`\"“*]", after.text))
    plural = before.low in {"you", "we", "they", "i", "who", "which", "that"} or re.search(r"[^s']s$", before.low)
    return english.is_base_verb(token.low) and bool(plural)


def tidy(text: str) -> str:
    """Single spaces, quotation marks and markup removed, punctuation moved to its word (undoes tokenised corpora)."""
    text = re.sub(r"``|''|[*`“”\"]", "", text)
    # The dot before a letter starts a file name (".npmrc").
    text = re.sub(r"\s+(n't|['’](?:s|re|ve|ll|d|m)\b|[,;:?!)\]]|\.(?![\w/]))", r"\1", text)
    text = re.sub(r"([(\[])\s+", r"\1", text)
    text = re.sub(r"(\w) - (\w)", r"\1-\2", text)
    return " ".join(text.split())


def is_person(name: str, context: str = "") -> bool:
    """Whether a name is a person's: an honorific or common first name, or the context says what they do."""
    parts = name.split()
    if not parts or not all(part[0].isupper() or part in ("of", "de", "von", "van", "the") for part in parts):
        return False
    is_role = len(parts) > 2 and parts[0].lower() in english.ROLES  # "Economist Joseph Stiglitz"
    if is_role or parts[0].rstrip(".") in english.HONORIFICS or parts[0] in english.FIRST_NAMES:
        return True
    return len(parts) >= 2 and any(word in english.ROLES for word in re.findall(r"[a-z]+", context)[:12])


def _tokens(text: str) -> _Tokens:
    tokens = [_Token(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    while tokens and tokens[-1].text in {".", "!", '"', "''", "”", "’", "'", ")"}:
        tokens.pop()
    return tokens


def _read(text: str, tokens: _Tokens, topic: str | None, previous: str | None) -> _Clause | None:
    if len(tokens) < 4 or any(token.text == "?" for token in tokens):
        return None
    lead, body = _split_lead(tokens)
    if body is None:
        return None
    at = _find_verb(body)
    if at is None:
        return None
    subject, verb, rest = _without_aside(body[:at]), body[at], body[at + 1 :]
    while rest and rest[0].low in english.ADVERBS and rest[0].low not in {"not", "never"}:
        rest = rest[1:]
    while len(subject) > 1 and subject[-1].low in english.ADVERBS:
        subject = subject[:-1]
    if not rest or not subject or rest[0].low in {"not", "never", "n't", "there"}:
        return None
    subject_text, resolved, person = text[subject[0].start : subject[-1].end], False, False
    if len(subject) == 1 and subject[0].low in {"it", "he", "she", "they"}:
        person = subject[0].low in {"he", "she"}
        if subject[0].low == "it" and any(token.low in {"to", "that"} for token in rest[1:3]):
            return None  # "It is recommended to ..." is said of nothing
        if topic is None or not _speaks_of(topic, previous, person):
            return None
        subject_text, resolved = topic, True
    elif subject[0].low == "no" or not _is_noun_phrase(subject):
        return None
    if _is_reduced(subject, verb, rest):
        return None
    person = person or is_person(subject_text, text[verb.end :])
    if subject[0].low in english.DETERMINERS | {"one", "every"} and not resolved:
        subject_text = subject_text[0].lower() + subject_text[1:]
    return _Clause(text, lead, subject, subject_text, verb, rest, person, resolved)


def _is_reduced(subject: _Tokens, verb: _Token, rest: _Tokens) -> bool:
    """Whether a form in -ed belongs to the noun before it, as far as can be told: "the guidelines used to ... are"."""
    if verb.low in english.AUXILIARIES or not english.past_to_base(verb.low):
        return False
    # Each clause after it has an auxiliary of its own at most: one more is that of the sentence.
    own = sum(token.low in english.AUXILIARIES for token in rest)
    others = sum(token.low in _SUBORDINATORS | {"and", "or", "but"} for token in rest)
    named = any(token.is_name for token in subject[1:] or subject) and not english.is_base_verb(subject[0].low)
    follows = rest[0].low in english.PREPOSITIONS | english.CONJUNCTIONS | {"to"} or not rest[0].text[0].isalnum()
    return own > others or english.is_participle(rest[0].low) or (not named and follows and not _date(rest))


def _split_lead(tokens: _Tokens) -> tuple[_Tokens, _Tokens | None]:
    """(adverbial before the first comma, main clause); the clause is None where leaving the lead out would mislead."""
    first = tokens[0].low
    commas = [index for index, token in enumerate(tokens[:14]) if token.text == ","]
    if first in english.CONDITIONS or first in {"and", "but", "or", "not", "even", "only"}:
        return (), None
    if not commas:
        return ((), None) if first in english.PREPOSITIONS else ((), tokens)
    comma = commas[0]
    if first in english.LEADING_LINKS and comma == 1:
        return (), tokens[2:]
    if first in english.PREPOSITIONS:
        # "On January 1 , 2009 , ..." has a comma of its own.
        if len(commas) > 1 and comma + 2 == commas[1] and _YEAR.match(tokens[comma + 1].text):
            comma = commas[1]
        return tokens[:comma], tokens[comma + 1 :]
    return (), tokens


def _find_verb(body: _Tokens) -> int | None:
    depth = 0
    for index, token in enumerate(body[: MAX_SUBJECT_WORDS + 16]):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth or index == 0:
            continue
        before, after = body[index - 1], body[index + 1] if index + 1 < len(body) else None
        if after is None:
            return None
        if token.low in {"which", "who", "that", "whose", "whom", "where", "when"} and before.text != ",":
            return None
        if body[index - 1].text == "," and token.low in {"which", "who", "whose", "whom", "where", "and", "or", "but"}:
            # A relative clause in commas: the verb stands after its closing comma.
            continue
        if _inside_aside(body, index):
            continue
        if token.low in english.AUXILIARIES:
            return index
        if before.low in english.DETERMINERS or before.low in english.PREPOSITIONS:
            continue
        if english.past_to_base(token.low) and not token.is_name and _finite(body, index):
            return index
        if (
            english.third_to_base(token.low)
            and not token.is_name
            and (after.low in english.DETERMINERS | english.PREPOSITIONS | {"that", "its", "their"} or after.is_name)
            and _finite(body, index)
        ):
            return index
    return None


def _finite(body: _Tokens, index: int) -> bool:
    """Whether no other finite verb follows in the same clause (else this one is a participle or a noun)."""
    for token in body[index + 1 :]:
        if token.text in _BREAKS or token.low in english.CONJUNCTIONS:
            return True
        if token.low in english.COPULAS | english.MODALS | {"has", "have", "had"}:
            return False
    return True


def _inside_aside(body: _Tokens, index: int) -> bool:
    """Whether the token stands between two commas after the subject ("X, a maker of Y, was ...")."""
    commas = [place for place, token in enumerate(body[: index + 12]) if token.text == ","]
    return bool(commas) and commas[0] < index and any(place > index for place in commas)


def _without_aside(subject: _Tokens) -> _Tokens:
    for index, token in enumerate(subject):
        if token.text in _BREAKS:
            closed = subject[-1].text in {",", ")", "--", "—", "–", "]"}
            return subject[:index] if closed else ()
    return subject


def _is_noun_phrase(tokens: _Tokens) -> bool:
    if not 1 <= len(tokens) <= MAX_SUBJECT_WORDS:
        return False
    if any(token.low in english.PRONOUNS | english.AUXILIARIES | english.CONJUNCTIONS - {"and"} for token in tokens):
        return False
    if any(re.split("['’]", token.low)[0] in _ANAPHORA for token in tokens):
        return False  # "It's needed when ..."
    if all(token.low in _GENERIC_SUBJECTS | english.DETERMINERS or token.text[0].isdigit() for token in tokens):
        return False
    if tokens[0].low in english.LEADING_LINKS | {"otherwise", "similarly"} or any(t.low == "cannot" for t in tokens):
        return False
    if tokens[0].low in english.PREPOSITIONS | english.ADVERBS or tokens[-1].low in english.STOPWORDS:
        return False
    if len(tokens) <= 2 and tokens[-1].low in _VAGUE_SUBJECTS:
        return False
    if any(
        (english.is_verb_form(each.low) and following.low in english.DETERMINERS)
        or (each.low.endswith("s") and after in _AFTER_VERBS and english.is_base_verb(following.low))
        for each, following, after in zip(tokens, tokens[1:], [*(token.low for token in tokens[2:]), ""], strict=False)
    ):
        return False  # "the agreements include": a clause of its own
    if tokens[0].low in _POLITE or not any(token.text[0].isalnum() for token in tokens):
        return False
    return all(re.match(r"[\w'’`\"“”.&%$€£-]", token.text) for token in tokens) and not tokens[0].low.endswith("ing")


def _speaks_of(topic: str, previous: str | None, person: bool) -> bool:
    if person:
        return is_person(topic) or (
            len(topic.split()) in (2, 3) and all(part[0].isupper() for part in topic.split()) and previous is not None
        )
    if previous is None:
        return False
    heads = {word.lower() for word in re.findall(r"\w+", topic) if word.lower() not in english.STOPWORDS}
    opening = [word.lower() for word in re.findall(r"\w+", previous)[:8]]
    return bool(heads) and sum(head in opening for head in heads) / len(heads) >= 0.5


# --- parts of the rest -----------------------------------------------------------------------------------------------


def _until_break(tokens: _Tokens, stop: frozenset[str] = frozenset()) -> _Tokens:
    """The tokens up to the end of the clause or to one of the words of `stop`."""
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.text in _BREAKS and not (token.text == "," and _is_date_comma(tokens, index)):
            return tokens[:index]
        if index and (token.low in stop or token.text in _CLAUSE_WORDS):
            return tokens[:index]
        if index and token.low in {"and", "or"} and following is not None and _starts_clause(following):
            return tokens[:index]
    return tokens


def _is_date_comma(tokens: _Tokens, index: int) -> bool:
    return (
        index + 1 < len(tokens)
        and bool(_YEAR.match(tokens[index + 1].text))
        and index >= 2
        and (tokens[index - 2].text in english.MONTHS or tokens[index - 1].text in english.MONTHS)
    )


def _starts_clause(token: _Token) -> bool:
    low = token.low
    return (
        low in english.AUXILIARIES | english.ADVERBS
        or low in english.PRONOUNS
        or low in english.PREPOSITIONS
        or low in english.CONJUNCTIONS
        or english.past_to_base(low) is not None
        or english.third_to_base(low) is not None
        or english.is_participle(low)
    )


def _date(tokens: _Tokens) -> _Tokens:
    """The time expression at the start of tokens, its preposition included: "in 1967", "on January 1 , 2009"."""
    if len(tokens) < 2 or tokens[0].low not in {
        "in",
        "on",
        "during",
        "since",
        "by",
        "until",
        "around",
        "before",
        "after",
    }:
        return ()
    end = 1
    while end < len(tokens) and (
        tokens[end].text in english.MONTHS
        or _YEAR.match(tokens[end].text)
        or re.match(r"\d{1,2}(st|nd|rd|th)?$", tokens[end].low)
        or tokens[end].low
        in {"the", "early", "mid", "late", "of", "century", "spring", "summer", "autumn", "winter", "bc", "ad", "bce"}
        or (tokens[end].text == "," and _is_date_comma(tokens, end))
    ):
        end += 1
    phrase = tokens[:end]
    while phrase and phrase[-1].low in {"the", "of", "early", "mid", "late"}:
        phrase = phrase[:-1]
    timed = any(token.text in english.MONTHS or _YEAR.match(token.text) or token.low == "century" for token in phrase)
    return phrase if timed else ()


def _place(tokens: _Tokens) -> _Tokens:
    """A place at the start of tokens: "in Lake Havasu City , Arizona"."""
    if len(tokens) < 2 or tokens[0].low not in {"in", "at", "near"} or _date(tokens):
        return ()
    end = 1
    if tokens[1].low == "the":
        end = 2
    start = end
    while end < len(tokens) and (tokens[end].is_name and not tokens[end].text[-1].isdigit()):
        end += 1
        if end + 1 < len(tokens) and tokens[end].text == "," and tokens[end + 1].is_name:
            end += 1
    return tokens[:end] if end > start and tokens[end - 1].text not in english.MONTHS else ()


def _ends_phrase(token: _Token) -> bool:
    """Whether a token is no noun that belongs to the name before it ("the BTS documentation")."""
    return token.low in english.STOPWORDS or token.low.endswith("ing") or english.is_verb_form(token.low)


def _phrases(tokens: _Tokens) -> Iterator[tuple[int, _Tokens]]:
    """(index, tokens from there) of each preposition after the start of the clause."""
    for index, token in enumerate(tokens):
        if token.low in english.PREPOSITIONS | {"because", "due"}:
            yield index, tokens[index:]


def _kept(tokens: _Tokens) -> _Tokens:
    """The part of the words between verb and answer that a question repeats: whole phrases, not too many words."""
    tokens = _until_break(tokens)
    cuts = [index for index, token in enumerate(tokens) if token.low in english.PREPOSITIONS - {"of"}]
    kept = tokens
    while len(kept) > MAX_CONTEXT_WORDS and cuts:
        kept = tokens[: cuts.pop()]
    while 1 < len(kept) < len(tokens) and _is_past(kept[-1]):
        kept = kept[:-1]  # "a market built | in 1835"
    return _trimmed(kept)


def _trimmed(tokens: _Tokens) -> _Tokens:
    """Without function words at the end that lost what they belong to."""
    while tokens and (tokens[-1].low in _DANGLING or not re.match(r"[\w%)'’”\"]", tokens[-1].text)):
        tokens = tokens[:-1]
    return tokens


def _noun_phrase(tokens: _Tokens) -> _Tokens:
    phrase = _until_break(tokens, english.PREPOSITIONS - {"of"} | {"when", "if", "to", "as"})
    # "the registry associated with ..." would be torn.
    is_torn = len(phrase) > 1 and len(phrase) < len(tokens) and _is_past(phrase[-1])
    return phrase if len(phrase) <= MAX_ANSWER_WORDS and not is_torn else ()


def _with_clause(phrase: _Tokens, tokens: _Tokens) -> _Tokens:
    """A phrase at the start of tokens with the relative clause that tells which one is meant ("a list that ...")."""
    following = tokens[len(phrase)].low if phrase and len(phrase) < len(tokens) else ""
    if following not in _RELATIVE:
        return phrase
    end = next((index for index, token in enumerate(tokens) if token.text in _BREAKS), len(tokens))
    return tokens[:end] if end <= MAX_ANSWER_WORDS else ()


def _ask_consequence(text: str, tokens: _Tokens) -> Asked | None:
    """ "When X happens, Y follows" -> "What happens when X happens?", as documentation is full of."""
    commas = [index for index, token in enumerate(tokens[:20]) if token.text == ","]
    if len(tokens) < 8 or tokens[0].low not in {"when", "if"} or not commas or commas[0] < 4:
        return None
    condition, result = tokens[: commas[0]], tokens[commas[0] + 1 :]
    finite = any(_starts_clause(token) for token in condition[2:])
    if not result or not finite or result[0].low in {"and", "or", "but", "then"} or len(result) > MAX_ANSWER_WORDS:
        return None
    if condition[1].low in english.AUXILIARIES:
        return None  # "If * is specified"
    if condition[1].low in english.PRONOUNS and not (condition[1].low in {"you", "it"} and len(condition) > 3):
        return None  # "if both are specified"
    if _is_participle(condition[1]) or result[0].low in english.PREPOSITIONS:
        return None  # "When creating ..." and "if set to ..." do not say who or what
    if len(commas) > 1 and any(token.low in {"and", "or"} for token in result[:4]):
        return None  # the condition is a list that goes on
    question = tidy(f"What happens {condition[0].low} {text[condition[1].start : condition[-1].end]}") + "?"
    return Asked(question, result[0].start, tokens[-1].end, "what", True, "")


# --- rules -----------------------------------------------------------------------------------------------------------


def _make(clause: _Clause, words: list[str], answer: _Tokens, kind: Kind, common: bool | None = None) -> Asked | None:
    answer = _trimmed(answer)
    if not answer:
        return None
    question = tidy(" ".join(word for word in words if word)) + "?"
    question = question[0].upper() + question[1:]
    return Asked(
        question,
        answer[0].start,
        answer[-1].end,
        kind,
        clause.common if common is None else common,
        clause.subject_text,
    )


def _predicate(clause: _Clause) -> tuple[list[str], str, str, _Tokens] | None:
    """(words before the subject, main verb in the question, auxiliary kind, rest) of a question that inverts."""
    verb, rest = clause.verb.low, clause.rest
    if verb in english.COPULAS and english.is_participle(rest[0].low) and len(rest) > 1:
        return [verb], rest[0].low, "passive", rest[1:]
    if verb in english.MODALS and rest[0].low == "be" and len(rest) > 2 and english.is_participle(rest[1].low):
        return [verb], f"be {rest[1].low}", "passive", rest[2:]
    if verb in english.MODALS and rest[0].low == "have" and len(rest) > 1 and english.is_participle(rest[1].low):
        return None
    if verb in english.MODALS and english.is_base_verb(rest[0].low):
        return [verb], rest[0].low, "active", rest[1:]
    if verb in {"has", "have", "had"}:
        if english.is_participle(rest[0].low) and rest[0].low != "been":
            return None
        if rest[0].low == "been" and len(rest) > 2 and english.is_participle(rest[1].low):
            return [verb], f"been {rest[1].low}", "passive", rest[2:]
        return [{"has": "does", "have": "do", "had": "did"}[verb]], "have", "active", rest
    if verb in english.AUXILIARIES:
        return None
    base = english.past_to_base(verb)
    if base is not None:
        return ["did"], base, "active", rest
    base = english.third_to_base(verb)
    return None if base is None else (["does"], base, "active", rest)


def _ask_time_place_cause(clause: _Clause) -> Iterator[Asked | None]:
    predicate = _predicate(clause)
    lead = _date(clause.lead)
    if predicate is None:
        return
    before, verb, _, rest = predicate
    if lead and len(lead) == len(clause.lead) and lead[0].low in {"in", "on", "during"}:
        kept = _kept(rest)
        yield _make(clause, ["when", *before, clause.subject_text, verb, clause.words(kept)], lead[1:], "when")
    for index, tail in _phrases(rest):
        if len(_until_break(rest)) < index:
            break
        kept = clause.words(_kept(rest[:index]))
        date = _date(tail)
        if date and date[0].low in {"in", "on", "during"}:
            yield _make(clause, ["when", *before, clause.subject_text, verb, kept], date[1:], "when")
        place = _place(tail)
        goes_on = len(place) < len(tail) and tail[len(place)].text[0].islower() and not _ends_phrase(tail[len(place)])
        if place and not goes_on:
            yield _make(clause, ["where", *before, clause.subject_text, verb, kept], place[1:], "where")
        if tail[0].low == "because" and len(tail) > 2:
            cause = _until_break(tail[2:] if tail[1].low == "of" else tail[1:])
            yield _make(clause, ["why", *before, clause.subject_text, verb, kept], cause, "why")
    for index, token in enumerate(rest[:-3]):
        if index and rest[index - 1].low in english.ADVERBS | {"as", "even"}:
            continue
        if not _SUBORDINATORS.isdisjoint(each.low for each in rest[:index]):
            break  # "means that if ...": when is said of the inner clause
        if token.low in {"when", "if"} and index <= 10 and not {t.text for t in rest[:index]} & _BREAKS:
            kept = clause.words(_kept(rest[:index]))
            condition = _until_break(rest[index + 1 :])
            if condition:
                yield _make(clause, ["when", *before, clause.subject_text, verb, kept], condition, "what")
            break


def _ask_definition(clause: _Clause) -> Iterator[Asked | None]:
    if clause.verb.low not in english.COPULAS or clause.rest[0].low not in english.DETERMINERS | {"one"}:
        return
    if clause.hedged:
        return
    answer = _with_clause(_until_break(clause.rest), clause.rest)
    if 2 <= len(answer) <= MAX_ANSWER_WORDS:
        word: Kind = "who" if clause.person else "what"
        asked = _make(clause, [word, clause.verb.low, clause.subject_text], answer, word)
        yield None if asked is None else replace(asked, defines=True)


def _ask_which_is(clause: _Clause) -> Iterator[Asked | None]:
    """ "X is the largest Y of Z" -> "What is the largest Y of Z?" """
    if clause.verb.low not in {"is", "was"} or clause.rest[0].low != "the" or clause.common or clause.resolved:
        return
    if clause.hedged:
        return
    kept = _until_break(clause.rest)
    if 3 <= len(kept) <= 10:
        word = "who" if clause.person else "what"
        yield _make(
            clause,
            [word, clause.verb.low, clause.words(kept)],
            clause.subject,
            "who" if clause.person else "what",
            False,
        )


def _ask_agent(clause: _Clause) -> Iterator[Asked | None]:
    predicate = _predicate(clause)
    if predicate is None or predicate[2] != "passive":
        return
    before, verb, _, rest = predicate
    for index, tail in _phrases(_until_break(rest)):
        kept = clause.words(_kept(rest[:index]))
        following = _noun_phrase(tail[1:])
        if not following or _date(tail) or following[0].low.endswith("ing"):
            continue
        if tail[0].low == "by" and index and (_is_participle(rest[index - 1]) or len(_kept(rest[:index])) < index):
            continue  # "measured in units determined by ...": who determines is said
        if tail[0].low == "by":
            person = is_person(clause.words(following))
            words = ["who" if person else "what", *before, clause.subject_text, verb, kept, "by"]
            yield _make(clause, words, following, "who" if person else "what")
        elif tail[0].low in {"as", "for", "from", "to", "into", "of", "with"} and index == 0:
            words = ["what", *before, clause.subject_text, verb, tail[0].low]
            if tail[0].low == "to" and not (following[0].low in english.DETERMINERS or following[0].is_name):
                if not english.is_base_verb(following[0].low):
                    continue  # "limited to collaborators", "meant to be useful"
                words = ["what", *before, clause.subject_text, verb, "to do"]
                following = _until_break(tail[1:])
            yield _make(clause, words, following, "what")
    if verb.split()[-1] in {"called", "named", "titled", "nicknamed", "termed"}:
        name = _noun_phrase(rest)
        if name and rest[0].low not in english.PREPOSITIONS:
            yield _make(clause, ["what", *before, clause.subject_text, verb], name, "what")


def _ask_object(clause: _Clause) -> Iterator[Asked | None]:
    predicate = _predicate(clause)
    if predicate is None or predicate[2] != "active":
        return
    before, verb, _, rest = predicate
    preposition = _PREPOSITION_VERBS.get(verb, "")
    if rest and rest[0].low == preposition:
        answer = _until_break(rest[1:])
        if 1 <= len(answer) <= MAX_ANSWER_WORDS:
            yield _make(clause, ["what", *before, clause.subject_text, verb, preposition], answer, "what")
        return
    answer = _with_clause(_noun_phrase(rest), rest)
    if verb in _CAUSING and any(token.low == "to" for token in rest[len(answer) :][:1]):
        return  # "allow the owner | to do it": who is allowed is no object
    if clause.words(answer) in _IDIOMS:
        return
    if not answer or answer[0].low in english.PREPOSITIONS | english.ADVERBS | english.PRONOUNS | english.CONJUNCTIONS:
        return
    if answer[0].low.endswith(("ing", "ed", "ly")) or answer[0].low in _NOT_OBJECTS:
        return
    tail = rest[len(answer) :]
    kept = _kept(tail)
    is_torn = len(kept) < len(tail) and tail[len(kept)].low in _CLAUSE_WORDS  # "to ensure | that ..."
    after = "" if is_torn else clause.words(kept)
    if _is_count(answer):
        number = answer[:1]
        things = clause.words(_noun_phrase(answer[1:]))
        yield _make(clause, ["how many", things, *before, clause.subject_text, verb, after], number, "how_many")
        return
    if clause.verb.low in english.MODALS | {"has", "have", "had"} or verb in {"become", "make", "have"}:
        after = ""
    person = is_person(clause.words(answer))
    yield _make(
        clause,
        ["who" if person else "what", *before, clause.subject_text, verb, after],
        answer,
        "who" if person else "what",
    )


def _is_count(answer: _Tokens) -> bool:
    return (
        len(answer) >= 2
        and bool(_NUMBER.match(answer[0].text) or answer[0].low in english.NUMBER_WORDS)
        and not _YEAR.match(answer[0].text)
        and answer[-1].low.endswith("s")
        and answer[1].text[0].isalpha()
    )


def _ask_subject(clause: _Clause) -> Iterator[Asked | None]:
    passive = clause.verb.low in english.COPULAS and english.is_participle(clause.rest[0].low)
    if clause.common or clause.resolved or (clause.verb.low in english.AUXILIARIES and not passive):
        return
    kept = _kept(clause.rest)
    if clause.rest[0].low == "that" or clause.verb.low in _SAYING:
        return  # "Who argues that the curve": what they argue is cut
    tail = clause.rest[len(kept) :]
    if tail and tail[0].text not in _BREAKS and tail[0].low not in {"and", "but"}:
        return  # "What allows the application developer | to ...?" is true of many things
    if 2 <= len(kept) <= MAX_CONTEXT_WORDS + 4 and not english.is_base_verb(kept[-1].low):
        word: Kind = "who" if clause.person else "what"
        yield _make(clause, [word, clause.verb.low, clause.words(kept)], clause.subject, word, False)


_RULES: tuple[Callable[[_Clause], Iterator[Asked | None]], ...] = (
    _ask_time_place_cause,
    _ask_agent,
    _ask_definition,
    _ask_which_is,
    _ask_object,
    _ask_subject,
)


def _well_formed(asked: Asked, text: str) -> bool:
    words = re.findall(r"[\w']+", asked.question.lower())
    answer = re.findall(r"[\w']+", text[asked.start : asked.end].lower())
    return (
        3 <= len(words) <= 25
        and not _ANAPHORA & set(words)
        and asked.question.count("(") == asked.question.count(")")
        and not _ELSEWHERE.search(f"{asked.question} {text[asked.start : asked.end]}")
        and is_balanced(text[asked.start : asked.end])
        and not _ANAPHORA & set(answer[:1])
        and not {"this", "these", "those"} & set(answer)
        and not _HALF_SAID & set(answer[-1:])
        and not ({"and", "or", "both", "either", "neither"} | _ELLIPTICAL) & set(answer[:1])
        and not re.search(r"\bof that\b|^the same\b", text[asked.start : asked.end])
        and not _is_cut(asked, text)
        and words[-1] not in {"the", "a", "an", "and", "or", "its", "their", "his", "her", "not", "one", "ones", "able"}
        and not re.search(r"\b(?:as \w+ed|and (?:the \w+ )?[a-z]+s|to (?!do\b)[a-z]+)\?$", asked.question)
        and _says_something(asked, text[asked.start : asked.end], text[asked.end :])
        and not re.search(r"[;:]|--", asked.question)
    )


def _says_something(asked: Asked, answer: str, after: str) -> bool:
    """Whether an answer is more than "many options", "if it was run", or a common noun that the text says more of."""
    found = answer.split()
    if asked.kind == "how_many":
        return True
    if asked.kind in {"what", "who"} and len(found) == 1 and re.fullmatch(r"[a-z][a-z-]*", answer):
        return answer not in {"default", "well"} and not re.search(r"\w", after)
    if asked.kind == "what" and found[0].lower() in {"if", "whether", "though"}:
        return asked.question.startswith(("What happens", "When"))
    if re.match(r"(?:a (?:little|bit|lot)|much|more|very|quite|rather) ", answer):
        return False
    return not (len(found) <= 2 and found[0].lower() in _VAGUE_ANSWERS)


def _is_cut(asked: Asked, text: str) -> bool:
    """Whether the answer, or the end of the question, stops within a phrase or a list that goes on in the text.

    An answer that runs into the next clause is cut amiss, too, but where a whole clause is asked for.
    """
    answer, after = text[asked.start : asked.end], text[asked.end :]
    if not re.match("What happens|When|Why", asked.question):
        found = re.findall(r"\w+", answer.lower())
        if not english.AUXILIARIES.isdisjoint(found) and _SUBORDINATORS.isdisjoint(found):
            return True
    if not asked.question.startswith("What happens") and _CUT_NAME.match(after):
        return True
    if re.search(r"\b(?:to \w+|(?:an?|the) [\w-]+)$", answer) and _CUT_ADJECTIVE.match(after):
        return True
    if re.match(r"\w", after.lstrip()) and re.search(
        r"\b(?:every|each|any|beginning|appearing|containing|including|using|most \w+)$", answer
    ):
        return True
    if _CUT_LIST.match(after) or (_THIN.fullmatch(answer) and re.search(r"\w", after)):
        return True
    pair = _CUT_PAIR.match(after)
    # "in London and Paris", "by Ann Lee and her brother", "in Debian and derived distributions", but "a tool and called
    # by ..."
    if pair and (
        pair.group(1) is None
        or (asked.kind in {"who", "where"} and pair.group(1) in english.DETERMINERS | {"his", "her", "its", "their"})
        or (english.is_participle(pair.group(1)) and pair.group(2) not in english.DETERMINERS | english.PREPOSITIONS)
    ):
        return True
    ending = re.search(r"\b(?:the|an?|its|their|his|her) [\w-]+(?=\?$)", asked.question)
    return ending is not None and re.search(rf"\b{re.escape(ending.group())}\s*[,–—+$<-]", text) is not None


def is_balanced(text: str) -> bool:
    """Whether quotation marks, backquotes and brackets come in pairs, so that the text is no torn piece."""
    return (
        all(text.count(mark) % 2 == 0 for mark in ('"', "`", "*", "**"))
        and all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}", "“”", "‘’"))
        and len(re.findall(r"(?<!\w)'|'(?!\w)", text)) % 2 == 0
        and text.count("``") + text.count("''") != 1
        and not text.endswith("_")
    )
