"""Benchmarks: sampling, generation, quality rules, import and export of datasets."""
