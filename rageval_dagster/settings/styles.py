"""Styles of questions that a model writes: who asks, and how, in a few built-in words or in anybody's own."""

from collections.abc import Mapping, Sequence

PLAIN = "plain"
STYLES: Mapping[str, str] = {
    "search": "Somebody who types three to seven keywords into a search box: no sentence and no question mark.",
    "chat": "Somebody who chats with an assistant: informal, as one speaks, with a few words first on what they are "
    "doing or what went wrong, in one or two short sentences.",
    "expert": "Somebody who works in the field: precise and brief, in its technical terms, which need no explanation.",
    PLAIN: "",
}
"""What a model is told for each built-in word; for `plain` nothing, as where there are no styles."""

LONGEST = 200
TAKES = f"{', '.join(STYLES)}, or who asks and how in at most {LONGEST} characters on one line"


def are_styles(styles: Sequence[str]) -> bool:
    return all(style.strip() and len(style) <= LONGEST and style.isprintable() for style in styles)


def told(style: str) -> str:
    """What a model is told of a style; empty where there is nothing to tell."""
    return STYLES.get(style, style)
