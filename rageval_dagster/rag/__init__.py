"""Systems under test, and the built-in reference systems."""
