"""Dagster assets: what exists, one file a stage, in the order data flows."""
