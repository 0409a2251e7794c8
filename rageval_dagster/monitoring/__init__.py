"""Watching the document store: which clients are new, changed or gone."""
