"""Which RAG systems a client has: the built-in reference systems, and those that rageval.toml defines."""

from typing import TYPE_CHECKING

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import RagevalError
from rageval_dagster.rag.external import load_external
from rageval_dagster.rag.redacted import RedactedSystem
from rageval_dagster.rag.reference import load_reference
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.settings import BUILT_IN_SYSTEMS, Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.llm.answering import Assess


def check_system_name(name: str, settings: Settings) -> None:
    """Raises RagevalError, naming the systems there are, unless the name is one of them."""
    known = [*BUILT_IN_SYSTEMS, *settings.systems]
    if name not in known:
        raise RagevalError(
            f"there is no system {name!r}: choose one of {', '.join(known)}, or define it in rageval.toml"
        )


def load_system(
    name: str,
    settings: Settings,
    db: Database,
    store: ChromaStore,
    client_id: str,
    assess: "Assess",
    run_id: str | None = None,
) -> RagSystem:
    """The system of that name as it serves the client whose `settings` these are.

    A built-in one records its model calls under `run_id`, and mends once what `assess` finds wrong with an answer.

    Raises:
        RagevalError: there is no system of that name.
        SettingsError: its definition names a secret, file or function that is not there.
    """
    check_system_name(name, settings)
    if name in BUILT_IN_SYSTEMS:
        system: RagSystem = load_reference(name, settings, db, store, client_id, assess, run_id)
    else:
        system = load_external(name, settings, client_id)
    redactor = store.redactor(client_id)
    return system if redactor.version is None else RedactedSystem(system, redactor)
