"""What to do where a system failed on a question, by the reason that its result names."""

_BY_KIND = {
    "timeout": "raise timeout_s, or lower concurrency: the system may be overrun",
    "connection": "see that the system runs at its url; rageval doctor tries the connection",
    "not_asked": "see that the system runs at its url; rageval doctor tries the connection",
    "broken_stream": "the system, or a proxy before it, broke off: see its log",
    "redirect_refused": "give url the address that it redirects to",
    "too_large": "let the system return fewer or shorter contexts",
    "wrong_shape": "the response is not what [systems.NAME] says of it: mend the paths under response",
    "raised": "your function raised it: call it with the question",
}
_BY_STATUS = {
    "401": "the system refused its key: see the variable that [systems.NAME] names for it",
    "403": "the system refused its key: see the variable that [systems.NAME] names for it",
    "404": "there is nothing at that path: see the url of [systems.NAME]",
    "422": "the request is not what the system takes: see request of [systems.NAME]",
    "429": "the system had too many questions at once: lower rate_per_s",
}


def remedy(reason: str) -> str | None:
    """A few words on what to do about `kind: what happened`; None where nothing is known."""
    kind, _, what = reason.partition(":")
    if kind == "http_status":
        return _BY_STATUS.get(what.strip()[:3], "the system answered with an error: see its log")
    return _BY_KIND.get(kind)
