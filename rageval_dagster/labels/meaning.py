"""What a good answer is by each metric, in a sentence for people who label."""

_CORRECT = "The answer means what the expected answer means, in whatever words."
_ON_POINT = "The answer answers this question, and not another one."
_CITED = "Each claim of the answer names the passage that it comes from, and that passage supports it."
_FOUND = "The passages hold what is needed to answer the question."
_SUPPORTED = (
    "The passages support all that the answer says. Whether it is true according to other sources does not matter."
)
_BY_NAME = {
    "faithfulness": _SUPPORTED,
    "support": _SUPPORTED,
    "answer_relevance": _ON_POINT,
    "answer_relevancy": _ON_POINT,
    "correctness": _CORRECT,
    "answer_correctness": _CORRECT,
    "answer_match": _CORRECT,
    "citation_quality": _CITED,
    "completeness": "The answer uses everything in the passages that the question asks for.",
    "refusal_correct": "The system answers what the documents can answer, and says so when they cannot.",
}
_BY_FAMILY = {"citation": _CITED, "lexical": _CORRECT, "checks": _CORRECT, "retrieval": _FOUND}
_OF_OTHERS = "You would give this answer to the person who asked."


def what_is_good(metric_id: str) -> str:
    """What an answer is like that people label 1; of a metric of the user's own, that people would give it."""
    family, _, name = metric_id.partition(".")
    if name.startswith("context_"):
        return _FOUND
    return _BY_NAME.get(name) or _BY_FAMILY.get(family, _OF_OTHERS)
