"""Alembic's entry point: runs the migrations over the connection that `database.alembic_config` hands in."""

from alembic import context

from rageval_dagster.storage.database import VERSION_TABLE
from rageval_dagster.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the caller's transaction holds all of it
)
context.run_migrations()
