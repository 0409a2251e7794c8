"""Which embedding models know English alone, and what to say where they meet other languages."""

import re
from collections.abc import Iterable, Mapping

from rageval_dagster.languages.detection import UNKNOWN
from rageval_dagster.languages.profiles import NAMES

LEAST_SHARE = 0.05
"""The share of texts in other languages from which on an English model is named."""

_NAMED = 3
"""Languages named one by one."""

_ENGLISH = re.compile(
    r"all-(?:minilm|mpnet|distilroberta|roberta)-|multi-qa-|msmarco-(?!.*multilingual)|nli-|stsb-"
    r"|paraphrase-(?:minilm|mpnet|albert|distilroberta|tinybert)-|bge-(?:small|base|large)-en|e5-(?:small|base|large)"
    r"|gte-(?:small|base|large)(?:-en.*)?$|gtr-t5-|sentence-t5-|nomic-embed-text-v1(?:\.5)?$|mxbai-embed-large"
    r"|snowflake-arctic-embed-(?:xs|s|m|l)(?:-v1\.5)?$|jina-embeddings?-.*-en|instructor-|onnxminilm"
)
_MULTILINGUAL = re.compile(
    r"multilingual|labse|bge-m3|jina-embeddings-v[34]|arctic-embed-.*-v2|nomic-embed-text-v2|text-embedding-"
    r"|qwen3-embedding|embeddinggemma|-xlm-|distiluse"
)


def language_name(code: str) -> str:
    """The English name of a language, its code where that is not known; "not told" of `UNKNOWN`."""
    return "not told" if code == UNKNOWN else NAMES.get(code, code)


def is_english_only(model_name: str) -> bool | None:
    """Whether an embedding model was trained on English alone, by the last part of its name or path; None: unknown."""
    name = re.split(r"[/\\:]", model_name.rstrip("/\\"))[-1].lower()
    if _MULTILINGUAL.search(name):
        return False
    return True if _ENGLISH.match(name) else None


def language_warning(model_name: str, shares: Mapping[str, float]) -> str | None:
    """One sentence where a model that knows English alone meets other languages; None where all is well or unknown.

    Args:
        shares: as `language_shares` gives them.
    """
    others = {code: share for code, share in shares.items() if code not in ("en", UNKNOWN)}
    if sum(others.values()) < LEAST_SHARE or not is_english_only(model_name):
        return None
    largest = sorted(others, key=lambda code: (-others[code], code))
    named = [f"{language_name(code)} ({others[code]:.0%})" for code in largest[:_NAMED]]
    rest = sum(others[code] for code in largest[_NAMED:])
    if rest:
        named.append(f"other languages ({rest:.0%})")
    return (
        f"{model_name} knows English alone, and of the texts looked at some are in {', '.join(named)}: what it finds "
        "alike there means little; take a multilingual model, for the chunks (embedded anew) and for the metrics "
        "(RAGEVAL_EMBEDDING_MODEL, RAGEVAL_METRIC_EMBEDDING_MODEL)"
    )


def language_warnings(model_names: Iterable[str], shares: Mapping[str, float]) -> list[str]:
    """`language_warning` of each distinct model that has one."""
    warnings = (language_warning(name, shares) for name in dict.fromkeys(model_names))
    return [warning for warning in warnings if warning is not None]
