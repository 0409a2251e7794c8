"""Sentences that stand in more than one document: a question about one has several right places, and counts one."""

from collections import defaultdict
from collections.abc import Iterable

from rageval_dagster.benchmark.sentences import words
from rageval_dagster.records import Chunk


def wording(text: str) -> str:
    """The words of a text alone: equal for texts that differ in case, punctuation, markup and line breaks."""
    return " ".join(words(text))


def repeated_wordings(sentences: Iterable[tuple[Chunk, str]], corpus: Iterable[Chunk]) -> frozenset[str]:
    """The wordings of those (chunk, sentence of it) that stand in a document of the corpus beside the chunk's own.

    A sentence is looked for only where its longest word stands, so that a chunk is compared with few.
    """
    documents: dict[str, set[str]] = defaultdict(set)
    for chunk, sentence in sentences:
        documents[wording(sentence)].add(_document(chunk))
    found = {each for each, ids in documents.items() if len(ids) > 1}
    by_word: dict[str, list[str]] = defaultdict(list)
    for each in sorted(documents.keys() - found):
        by_word[max(each.split(), key=len, default="")].append(each)
    for chunk in corpus:
        held = words(chunk.text)
        text = f" {' '.join(held)} "
        for word in by_word.keys() & set(held):
            for each in by_word[word]:
                if _document(chunk) not in documents[each] and f" {each} " in text:
                    found.add(each)
    return frozenset(found)


def _document(chunk: Chunk) -> str:
    """Chunks without a document count as one: evidence in one of them stands for all that hold it."""
    return chunk.document_id if chunk.has_document else ""
