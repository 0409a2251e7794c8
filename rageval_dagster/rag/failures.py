"""What to do where a system failed on a question, by the reason that its result names."""

_BY_KIND = {
    "timeout": "raise timeout_s, or lower concurrency: the system may be overrun",
    "connection": "see that the system runs at its url; rageval doctor --ask asks it a question",
    "not_asked": "see that the system runs at its url; rageval doctor --ask asks it a question",
    "broken_stream": "the system, or a proxy before it, broke off: see its log",
    "redirect_refused": "give url the address that it redirects to",
    "too_large": "let the system return fewer or shorter contexts",
    "wrong_shape": "the response is not what [systems.{system}] says of it: mend the paths under response",
    "raised": "your function raised it: call it with the question",
}
_BY_REASON = {
    "wrong_shape: the body is no JSON": "the response is no JSON: look at what url returns, which may be a page of a "
    "proxy or a login; where the answer is streamed or plain text, say so in stream of [systems.{system}]",
}
_BY_STATUS = {
    "401": "the system refused its key: see the variable that auth_env or headers_env of [systems.{system}] names",
    "403": "the system refused its key: see the variable that auth_env or headers_env of [systems.{system}] names",
    "404": "there is nothing at that path: see the url of [systems.{system}]",
    "422": "the request is not what the system takes: see request of [systems.{system}]",
    "429": "the system had too many questions at once: lower rate_per_s",
}

_IN_WORDS = {
    "timeout": "it took too long",
    "connection": "it could not be reached",
    "not_asked": "it could not be reached",
    "broken_stream": "its response broke off",
    "redirect_refused": "it redirects elsewhere",
    "too_large": "its response is too large",
    "wrong_shape": "its response is not what the settings say",
    "raised": "its function raised an error",
}


def in_words(kind: str) -> str:
    """A kind of failure for people: `it could not be reached`, `it answered with HTTP status 401`."""
    name, _, status = kind.partition(": ")
    return f"it answered with HTTP status {status}" if name == "http_status" else _IN_WORDS.get(name, kind)


def kind_of(reason: str) -> str | None:
    """The kind of failure, of a status the number too (`http_status: 401`); None for what others wrote."""
    kind, _, what = reason.partition(":")
    if kind == "http_status" and what.strip()[:3].isdecimal():
        return f"{kind}: {what.strip()[:3]}"
    return kind if kind in _BY_KIND else None


def remedy(reason: str, system: str) -> str | None:
    """A few words on what to do about `kind: what happened` of a system; None where nothing is known."""
    kind, _, what = reason.partition(":")
    if kind == "http_status":
        said = _BY_STATUS.get(what.strip()[:3], "the system answered with an error: see its log")
    else:
        said = _BY_REASON.get(reason) or _BY_KIND.get(kind)
    return None if said is None else said.format(system=system)
