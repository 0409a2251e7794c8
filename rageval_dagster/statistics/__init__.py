"""Confidence intervals and comparisons."""
