"""The one chart of the reports: how a metric's mean moved over the last runs, as a small line within the page."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from rageval_dagster.telling.words import number

Points = Sequence[tuple[datetime, float | None]]
"""When each run ended, oldest first, and the metric's mean in it from 0 to 1; None where it has none."""

WIDTH, HEIGHT, EDGE = 120, 32, 4
LEAST_SPAN = 0.2
"""Of the values from bottom to top: what moves by less looks as calm as it is."""


def sparkline(points: Points, name: str) -> Markup:
    """A line through the means with a dot for the newest, and all of them in words; empty without two of them."""
    known = [(moment, mean) for moment, mean in points if mean is not None]
    if len(known) < 2:
        return Markup()
    means = [mean for _, mean in known]
    middle, span = (max(means) + min(means)) / 2, max(max(means) - min(means), LEAST_SPAN)
    across, down = (WIDTH - 2 * EDGE) / (len(known) - 1), (HEIGHT - 2 * EDGE) / span
    places = [(EDGE + across * run, HEIGHT / 2 + down * (middle - mean)) for run, mean in enumerate(means)]
    several_a_day = len({moment.date() for moment, _ in known}) < len(known)
    label = "%d %b %H:%M" if several_a_day else "%d %b"
    said = ", ".join(f"{number(mean)} ({moment.strftime(label)})" for moment, mean in known)
    return Markup(
        '<svg class="trend" viewBox="0 0 {} {}" role="img" aria-label="{name} over the last runs: {said}">'
        '<title>{name}: {said}</title><polyline points="{}"/><circle cx="{:.1f}" cy="{:.1f}" r="3"/></svg>'
    ).format(WIDTH, HEIGHT, " ".join(f"{x:.1f},{y:.1f}" for x, y in places), *places[-1], name=name, said=said)
