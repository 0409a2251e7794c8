"""The words of questions, answers and passages, and which of them carry meaning."""

from collections.abc import Sequence
from math import ceil

from rageval_dagster.languages import stop_words
from rageval_dagster.text import is_character, normalised, word_spans

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
