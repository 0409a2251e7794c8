"""The history database: tables, migrations, reads and idempotent writes."""
