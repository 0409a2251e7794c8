"""Continuous evaluation of RAG systems as Dagster assets."""
