"""The user's own Python code, named `package.module:name` in rageval.toml."""

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from rageval_dagster.errors import SettingsError, class_and_place


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
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        trouble = f"there is no module {error.name!r}, neither in {folder} nor installed"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's module does when it is imported
        trouble = f"importing {module_name} fails with {class_and_place(error)}"
    found: Any = reduce(lambda value, part: getattr(value, part, None), attribute.split("."), module)
    if trouble is None and not is_one(found):
        trouble = f"{module_name} has no {kind} {attribute!r}"
    if trouble is not None:
        raise SettingsError(f"{name} cannot be loaded: {trouble}")
    return found
