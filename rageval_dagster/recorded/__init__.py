"""Answers that stand in files: reading and writing them, scoring and judging them, and how scores agree with people."""
