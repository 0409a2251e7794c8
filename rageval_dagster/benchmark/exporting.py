"""Exporting a dataset to a file: written as a whole or not at all, and never over a file that somebody still needs."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rageval_dagster.benchmark.formats import write_dataset
from rageval_dagster.errors import DatasetError, unwritable
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database


def export_dataset(db: Database, dataset_id: int, format_name: str, path: Path, force: bool = False) -> Dataset:
    """Writes a dataset in a format: to a file, or, if the format has several, into a folder.

    Only the user may read what is written. `force` allows replacing files that are there.

    Raises:
        DatasetError: there is no such dataset or format, the format cannot hold an item, or the place is taken or
            cannot be written.
    """
    dataset = benchmark_storage.get_dataset(db, dataset_id)
    items = benchmark_storage.dataset_items(db, dataset_id)
    with written_whole(path, force) as draft:
        write_dataset(items, draft, format_name)
    return dataset


@contextmanager
def written_whole(path: Path, force: bool) -> Iterator[Path]:
    """A place to write a file (or a folder of files) that is moved to `path` at the end of the block, if it succeeds.

    Raises:
        DatasetError: something is at the path that may not be replaced, or it cannot be written.
    """
    path = path.absolute()
    folder: Path | None = None
    try:
        if not path.parent.is_dir():
            raise DatasetError(f"{path.parent} is not a folder: create it, or write elsewhere")
        folder = Path(tempfile.mkdtemp(prefix=".rageval-", dir=path.parent))
        draft = folder / path.name
        yield draft
        _move(draft, path, force)
    except OSError as error:
        raise DatasetError(unwritable(f"{path} cannot be written", error, "write elsewhere")) from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _move(draft: Path, path: Path, force: bool) -> None:
    several = draft.is_dir()
    if path.exists() and path.is_dir() != several:
        raise DatasetError(f"{path} is a {'file' if several else 'folder'}: write elsewhere")
    # What else stands in a folder is left alone.
    moves = {file: path / file.name for file in sorted(draft.iterdir())} if several else {draft: path}
    taken = next((target for target in moves.values() if target.exists()), None)
    if taken is not None and not force:
        raise DatasetError(f"{taken} is there already: --force replaces it")
    if several:
        path.mkdir(mode=0o700, exist_ok=True)
    for file, target in moves.items():
        file.chmod(0o600)
        file.replace(target)
