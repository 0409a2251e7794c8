"""Watching is tested on the document stores of the corpus tests."""

from tests.corpus.conftest import chroma_server, embedded_settings, embedder, fill, home, settings

__all__ = ["chroma_server", "embedded_settings", "embedder", "fill", "home", "settings"]
