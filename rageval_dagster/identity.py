"""Content identity: the hashes that say whether two chunks, items, datasets or systems are the same."""

import hashlib
import json
from typing import Any


def digest(*parts: str | bytes | None) -> str:
    """SHA-256 (64 hex digits) over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ.

    None and the empty string differ too.
    """
    framed = []
    for part in parts:
        if part is None:
            framed.append(b"-1:")
        else:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            framed.append(b"%d:%b" % (len(data), data))
    return hashlib.sha256(b"".join(framed)).hexdigest()


def digest_json(value: Any) -> str:
    """SHA-256 (64 hex digits) of a value's canonical JSON (sorted keys, no spaces)."""
    return digest(canonical_json(value))


def canonical_json(value: Any) -> str:
    """JSON text that is equal for equal values: sorted keys, no spaces, no escapes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
