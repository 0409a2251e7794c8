"""How long importing the definitions takes, against importing Dagster alone; the limit is 1.7 times."""

import statistics
import subprocess
import sys
import time

LIMIT = 1.7


def seconds(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def main(repetitions: int = 5) -> None:
    """Alternates the two, so that a machine that gets slower meanwhile slows both."""
    seconds("import rageval_dagster.definitions")  # compiled files for both
    pairs = [(seconds("import dagster"), seconds("import rageval_dagster.definitions")) for _ in range(repetitions)]
    dagster, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"import dagster {dagster:.2f} s, rageval_dagster.definitions {ours:.2f} s, medians of {repetitions}")
    print(f"ratio {ours / dagster:.2f} (limit {LIMIT})")


if __name__ == "__main__":
    main()
