"""The summary of a metric, over an evaluation or each group of it: counts, mean with interval, range, bounds."""

from collections.abc import Collection, Hashable, Mapping

from rageval_dagster.records import Outcome, Summary
from rageval_dagster.statistics.intervals import mean_interval


def summarise(
    outcomes: Mapping[str, Outcome],
    clusters: Mapping[str, Hashable] | None = None,
    ceiling: float | None = None,
) -> Summary:
    """Sums up the outcomes of one metric, {item: outcome}; undefined ones and errors are counted, never averaged.

    `clusters` maps items to clusters, as in `comparisons.compare`. `ceiling` is the best mean that the scored items
    allow (None: 1); no interval reaches above it.
    """
    scores = {item: outcome.value for item, outcome in sorted(outcomes.items()) if outcome.value is not None}
    values = list(scores.values())
    n_error = sum(outcome.status == "error" for outcome in outcomes.values())
    reachable = len(values) + n_error
    share = len(values) / reachable if reachable else None
    interval = high = None
    if values:
        labels = None if clusters is None else [clusters.get(item) for item in scores]
        interval = mean_interval(values, labels)
        # The mean itself may lie above its ceiling by a rounding.
        high = interval.high if ceiling is None else max(interval.mean, min(interval.high, ceiling))
    scored_part = interval.mean * share if interval and share else 0.0
    return Summary(
        n=len(outcomes),
        n_scored=len(values),
        n_undefined=len(outcomes) - reachable,
        n_error=n_error,
        mean=interval.mean if interval else None,
        ci_low=interval.low if interval else None,
        ci_high=high,
        min=min(values, default=None),
        max=max(values, default=None),
        worst_low=scored_part if share is not None else None,
        worst_high=min(1.0, scored_part + (1.0 - share)) if share is not None else None,
    )


def breakdown(
    outcomes: Mapping[str, Outcome],
    groups: Mapping[str, Collection[str]],
    clusters: Mapping[str, Hashable] | None = None,
) -> dict[str, Summary]:
    """Sums up the outcomes of one metric, {item: outcome}, for each group by name; `groups` says the groups of an item.

    An item of several groups counts in each, so that their n may add up to more than there are items; one of no group
    counts in none. The interval of a small group is as wide as its few scores demand: one score alone says of a mean
    little more than that it is not at the other end of the range. The intervals hold for each group alone; the worst of
    many groups lies below its own more often.
    """
    members: dict[str, dict[str, Outcome]] = {}
    for item, outcome in outcomes.items():
        for group in groups.get(item, ()):
            members.setdefault(group, {})[item] = outcome
    return {group: summarise(column, clusters) for group, column in sorted(members.items())}
