"""Chunks: reading a store, splitting documents, versions, and evidence to chunks."""
