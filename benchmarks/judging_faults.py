"""What an endpoint's faults cost and change: judging through them against the same judging without, in the same run.

Usage: python benchmarks/judging_faults.py [--items 200]

The faulty endpoint answers 20 % of the requests with 429 and Retry-After 1, 10 % with 500, 5 % never (the timeout is 1
s), 5 % with broken JSON, 3 % cut off, and 2 % with one verdict too few. Another one answers 429 to whatever goes beyond
8 requests in flight, and is asked by a client that may send 16 and by one that may send 8.
"""

import argparse
from collections import Counter
from collections.abc import Mapping

from judging_speed import WAIT, endpoint, judged, some_items, verdict

from rageval_dagster.records import Outcome

FAULTS = {"busy": 0.20, "failing": 0.10, "hanging": 0.05, "broken": 0.05, "cut": 0.03, "short": 0.02}
PATIENCE = {"RAGEVAL_LLM_TIMEOUT_S": "1", "RAGEVAL_LLM_MAX_ATTEMPTS": "10"}
AT_ONCE = 16
MOST = 8
SCORED = 0.995
SLOWEST = 6.0
SLOWEST_LIMITED = 1.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200)
    items = some_items(parser.parse_args().items)
    with endpoint() as base_url:
        wanted, undisturbed = judged(base_url, items, AT_ONCE)
    with endpoint(**FAULTS) as base_url:
        found, disturbed = judged(base_url, items, AT_ONCE, **PATIENCE)
    reasons = Counter(str(outcome.reason) for outcome in flat(found) if outcome.status == "error")
    scored = [one for one in zip(flat(found), flat(wanted), strict=True) if one[0].status == "scored"]
    print(
        f"{len(items)} items, {len(flat(found))} outcomes; {undisturbed:.1f} s without faults, {disturbed:.1f} s with"
    )
    for reason, count in reasons.most_common():
        print(f"  error: {reason} ({count})")
    print(verdict("share of outcomes scored", len(scored) / len(flat(found)), SCORED, most=False))
    print(verdict("values that differ from those without faults", sum(a.value != b.value for a, b in scored), 0))
    print(verdict("time over that without faults", disturbed / undisturbed, SLOWEST))
    half = items[: max(1, len(items) // 2)]
    with endpoint(most=MOST) as base_url:
        _, fixed = judged(base_url, half, MOST)
    with endpoint(most=MOST) as base_url:
        limited, adapted = judged(base_url, half, AT_ONCE)
    least = len(half) * 5 * WAIT / MOST
    print(
        f"at most {MOST} in flight: {fixed:.1f} s by a client fixed there, {adapted:.1f} s by one with {AT_ONCE} places"
    )
    print(f"  (the waits alone: {least:.1f} s; {sum(one.status == 'error' for one in flat(limited))} errors)")
    print(verdict("its time over the fixed client's", adapted / fixed, SLOWEST_LIMITED))


def flat(scores: Mapping[str, list[Outcome]]) -> list[Outcome]:
    return [outcome for column in scores.values() for outcome in column]


if __name__ == "__main__":
    main()
