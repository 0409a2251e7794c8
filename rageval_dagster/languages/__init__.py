"""What is known of single languages: how to tell them, their stop words, and how people decline in them."""

from rageval_dagster.languages.declining import declines_version, is_decline
from rageval_dagster.languages.detection import (
    articles,
    asked_articles,
    detect,
    fixed_questions,
    hangs,
    language_shares,
    leading,
    pronouns,
    sentences,
    stop_words,
    verbs,
)
from rageval_dagster.languages.embedders import is_english_only, language_name, language_warning, language_warnings
from rageval_dagster.languages.phrases import asks_for_list, is_fallback, is_pleasantry

__all__ = [
    "articles",
    "asked_articles",
    "asks_for_list",
    "declines_version",
    "detect",
    "fixed_questions",
    "hangs",
    "is_decline",
    "is_english_only",
    "is_fallback",
    "is_pleasantry",
    "language_name",
    "language_shares",
    "language_warning",
    "language_warnings",
    "leading",
    "pronouns",
    "sentences",
    "stop_words",
    "verbs",
]
