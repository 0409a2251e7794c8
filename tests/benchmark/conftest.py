"""Reviewing is tested on the small project of the pipeline tests."""

from tests.pipeline.conftest import loaded, project

__all__ = ["loaded", "project"]
