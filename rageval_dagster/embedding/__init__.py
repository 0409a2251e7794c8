"""Embedding models and the cache of vectors."""
