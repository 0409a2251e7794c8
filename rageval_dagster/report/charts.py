"""Charts of the report: drawn by pygal as SVG within the file, styled by the page, without scripts."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from xml.etree import ElementTree

from markupsafe import Markup

_SVG = "http://www.w3.org/2000/svg"
_UNUSED = {"script", "style", "defs"}
_WIDTH, _HEIGHT = 640, 220
LAST_LABEL = 36
"""Half of a label of the time axis, the last of which stands around the end of the lines."""

MOST_LABELS = 5
"""Of the time axis: so many fit beside one another with the time of day."""


def trend_chart(title: str, series: Mapping[str, Sequence[tuple[datetime, float | None]]]) -> Markup:
    """Lines of means from 0 to 1 over time, each point with its value to be read out; empty without two points."""
    import pygal

    if all(sum(value is not None for _, value in points) < 2 for points in series.values()):
        return Markup()
    moments = sorted({moment for points in series.values() for moment, _ in points})
    chart = pygal.Line(
        js=[],
        disable_xml_declaration=True,
        width=_WIDTH,
        height=_HEIGHT,
        range=(0, 1),
        y_labels=[0, 0.25, 0.5, 0.75, 1],
        show_legend=False,
        dots_size=3,
        margin=6,
        margin_right=LAST_LABEL,
        title=None,
        truncate_label=-1,
    )
    several_a_day = len({moment.date() for moment in moments}) < len(moments)
    labels = [f"{moment:%d %b %H:%M}" if several_a_day else f"{moment:%d %b}" for moment in moments]
    # Chosen by place: pygal goes by the text, and would show all of one minute.
    step = math.ceil(len(labels) / MOST_LABELS)
    chart.x_labels = [label if (len(labels) - 1 - place) % step == 0 else "" for place, label in enumerate(labels)]
    for name, points in series.items():
        known = dict(points)
        chart.add(name, [known.get(moment) for moment in moments], formatter=lambda value: f"{value:.3f}")
    return _within_page(chart.render_tree(), title)


def _within_page(tree: ElementTree.Element, title: str) -> Markup:
    """The chart without what belongs to a file of its own; each value as the title of its point."""
    for parent in list(tree.iter()):
        for child in list(parent):
            kind = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else "comment"
            if kind in _UNUSED or kind == "comment" or "tooltip-overlay" in child.get("class", ""):
                parent.remove(child)
            elif kind == "desc":
                if child.get("class") == "value":
                    child.tag = f"{{{_SVG}}}title" if "}" in child.tag else "title"
                    child.attrib.clear()
                else:
                    parent.remove(child)
            elif kind == "title" and parent is tree:
                child.text = title
    tree.attrib.pop("id", None)
    tree.set("role", "img")
    tree.set("aria-label", title)
    ElementTree.register_namespace("", _SVG)
    # What stands here was written by the serialiser of an element tree, which escapes every text.
    return Markup(ElementTree.tostring(tree, encoding="unicode"))  # noqa: S704
