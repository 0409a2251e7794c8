"""The user's own Python code, named `package.module:name` in rageval.toml."""

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from site import getsitepackages
from sysconfig import get_path
from typing import Any

from rageval_dagster.errors import SettingsError, class_and_place

_INSTALLED = (*getsitepackages(), get_path("stdlib"))

_own_modules: dict[str, tuple[Path, tuple[int, int] | None]] = {}
"""The user's modules that were imported here, each with its file and that file's state then."""


def forget_changed_modules() -> None:
    """Where a file of the user's modules changed since their import, all of them are imported anew when next used.

    For a process that works on one run after another: what one module took from another is then new, too.
    """
    if any(_state(file) != state for file, state in _own_modules.values()):
        for name in _own_modules:
            sys.modules.pop(name, None)
        _own_modules.clear()
        importlib.invalidate_caches()


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _note_own_modules(before: set[str]) -> None:
    for name in set(sys.modules) - before:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not file.startswith(_INSTALLED) and name.partition(".")[0] != "rageval_dagster":
            _own_modules[name] = Path(file), _state(Path(file))


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function of that name; modules are looked for in `folder` (that of rageval.toml) first.

    Raises:
        SettingsError: there is no such module or function, or importing it fails.
    """
    return load_object(name, folder, "function", callable)


def load_object(name: str, folder: Path, kind: str, is_one: Callable[[Any], bool]) -> Any:
    """What stands under that name in its module, of the kind that `is_one` tells; `folder` as above.

    Raises:
        SettingsError: there is no such module, importing it fails, or nothing of that kind has the name.
    """
    module_name, _, attribute = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module = trouble = None
    before = set(sys.modules)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        trouble = f"there is no module {error.name!r}, neither in {folder} nor installed"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's module does when it is imported
        trouble = f"importing {module_name} fails with {class_and_place(error)}"
    _note_own_modules(before)
    found: Any = reduce(lambda value, part: getattr(value, part, None), attribute.split("."), module)
    if trouble is None and not is_one(found):
        trouble = f"{module_name} has no {kind} {attribute!r}"
    if trouble is not None:
        raise SettingsError(f"{name} cannot be loaded: {trouble}")
    return found
