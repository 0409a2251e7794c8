"""Dagster resources: what the assets talk to."""
