"""Dagster jobs, schedules and sensors: when the assets run."""
