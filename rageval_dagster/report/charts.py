"""The charts of the reports, as SVG within the page: the last runs, quality against cost, means with intervals."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from rageval_dagster.telling.words import number

Points = Sequence[tuple[datetime, float | None]]
"""When each run ended, oldest first, and the metric's mean in it from 0 to 1; None where it has none."""

WIDTH, HEIGHT, EDGE = 120, 32, 4
LABEL = 22
"""Characters of a value's name."""
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


@dataclass(frozen=True)
class Dot:
    """A place in a scatter plot; `name` is shown when it is pointed at."""

    across: float
    up: float
    name: str
    marked: bool


def scatter(dots: Sequence[Dot], name: str) -> Markup:
    """Dots by two measures, the marked ones filled; the ends of both scales stand at the axes."""
    width, height, left, below = 480, 240, 48, 28
    widest, highest, lowest = max(dot.across for dot in dots), max(dot.up for dot in dots), min(dot.up for dot in dots)
    span = max(highest - lowest, LEAST_SPAN / 4)

    def place(dot: Dot) -> tuple[float, float]:
        across = left + 8 + (width - left - 20) * (dot.across / widest if widest else 0.0)
        return across, 10 + (height - below - 24) * (1 - (dot.up - lowest) / span)

    circles = Markup().join(
        Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>').format(
            "front" if dot.marked else "other", *place(dot), dot.name
        )
        for dot in dots
    )
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" role="img" aria-label="{name}"><title>{name}</title>'
        '<path class="axis" d="M{l} 4V{b}H{w}"/><text x="{t}" y="16" text-anchor="end">{high}</text>'
        '<text x="{t}" y="{b}" text-anchor="end">{low}</text><text x="{l}" y="{f}">0</text>'
        '<text x="{w}" y="{f}" text-anchor="end">{wide}</text>{circles}</svg>'
    ).format(
        w=width,
        h=height,
        l=left,
        b=height - below,
        t=left - 6,
        f=height - 8,
        name=name,
        high=number(highest),
        low=number(lowest),
        wide=number(widest),
        circles=circles,
    )


@dataclass(frozen=True)
class Bar:
    """A mean from 0 to 1 with its interval."""

    label: str
    mean: float
    low: float
    high: float


def bars(values: Sequence[Bar]) -> Markup:
    """A dot with its interval for each value, one below the other, on one scale."""
    width, line, left = 480, 26, 170
    low, high = min(value.low for value in values), max(value.high for value in values)
    across = (width - left - 60) / max(high - low, LEAST_SPAN / 4)

    def at(value: float) -> float:
        return left + (value - low) * across

    rows = Markup().join(
        Markup(
            '<text x="{}" y="{y}" dy=".35em" text-anchor="end">{}</text><path class="range" d="M{:.1f} {y}H{:.1f}"/>'
            '<circle class="front" cx="{:.1f}" cy="{y}" r="4.5"/><text x="{}" y="{y}" dy=".35em">{}</text>'
        ).format(
            left - 10,
            value.label if len(value.label) <= LABEL else f"…{value.label[-LABEL:]}",
            at(value.low),
            at(value.high),
            at(value.mean),
            width - 48,
            number(value.mean),
            y=line * row + line // 2,
        )
        for row, value in enumerate(values)
    )
    said = ", ".join(f"{value.label}: {number(value.mean)}" for value in values)
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, line * len(values), said, rows
    )


def address(picture: Markup) -> str:
    """The address of a picture that stands alone, outside a page with its style."""
    alone = str(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="480" ', 1)
    styled = alone.replace("</svg>", f"<style>{_ALONE}</style></svg>")
    return f"data:image/svg+xml;base64,{base64.b64encode(styled.encode()).decode()}"


_ALONE = "text{font:12px sans-serif;fill:#777}.range{stroke:#2456b8;stroke-width:2;opacity:.5}.front{fill:#2456b8}"
