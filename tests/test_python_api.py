"""What a script imports from the package itself."""

import subprocess
import sys

import rageval_dagster


def test_everything_named_can_be_imported_and_nothing_else_is_offered() -> None:
    for name in rageval_dagster.__all__:
        assert callable(getattr(rageval_dagster, name)), name
        assert name in dir(rageval_dagster)
    assert set(rageval_dagster.__all__) == set(rageval_dagster._MODULES)
    assert not hasattr(rageval_dagster, "no_such_function")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, rageval_dagster; print(*sorted(m for m in sys.modules if m.startswith('rageval_dagster.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
