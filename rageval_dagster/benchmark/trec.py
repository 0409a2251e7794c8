"""TREC files of an evaluation: the qrels and the run file that trec_eval reads."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote

from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Result

Level = Literal["chunk", "document"]
LEVELS: tuple[str, ...] = get_args(Level)

_KEPT_AS_IT_IS = "".join(chr(code) for code in range(33, 127) if chr(code) != "%")


def write_trec(folder: Path, results: Mapping[str, Result], level: str, tag: str, stem: str) -> tuple[Path, Path]:
    """Writes `<stem>.qrels` and `<stem>.run` and returns their paths.

    A list is written best first with score = -rank, so that trec_eval, which sorts by score, keeps its order. An id
    that comes back more than once counts where it stands first; at document level that is each document's best chunk.
    Questions without known evidence are in the run, not in the qrels: no measure exists for them. A question for which
    nothing came back is in the qrels only (trec_eval -c counts it as 0, as we do). White space, `%`
    and control characters in ids are percent-encoded, since the files are separated by white space.

    Args:
        results: the results of an evaluation by item id.
        level: `chunk` or `document`.
        tag: the last column of the run file, the system's name.

    Raises:
        DatasetError: the folder cannot be written.
    """
    if level not in LEVELS:
        raise DatasetError(f"the level of a TREC file is {' or '.join(LEVELS)}, not {level!r}")
    qrels, run = folder / f"{stem}.qrels", folder / f"{stem}.run"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(qrels, _qrels_lines(results, level))
        _write(run, _run_lines(results, level, tag))
    except OSError as error:
        raise DatasetError(f"{error.filename or folder} cannot be written ({error.strerror})") from None
    return qrels, run


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _qrels_lines(results: Mapping[str, Result], level: str) -> Iterable[str]:
    for item_id, result in results.items():
        relevant = result.relevant_chunks if level == "chunk" else result.relevant_documents
        for name in sorted(relevant or ()):
            yield f"{_encoded(item_id)} 0 {_encoded(name)} 1"


def _run_lines(results: Mapping[str, Result], level: str, tag: str) -> Iterable[str]:
    for item_id, result in results.items():
        names = (hit.chunk_id if level == "chunk" else hit.document_id for hit in result.hits)
        for rank, name in enumerate(dict.fromkeys(names), start=1):
            yield f"{_encoded(item_id)} Q0 {_encoded(name)} {rank} {-rank} {_encoded(tag)}"


def _encoded(name: str) -> str:
    """The id as one word. Letters of all scripts stay; what could split a line does not."""
    return "".join(
        character
        if character in _KEPT_AS_IT_IS or (character.isprintable() and ord(character) > 127)
        else quote(character, errors="surrogatepass")
        for character in name
    )
