"""The migrations of the history database's schema, run by Alembic when a database is opened."""
