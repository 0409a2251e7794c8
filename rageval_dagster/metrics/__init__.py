"""Metrics, one file a family."""
