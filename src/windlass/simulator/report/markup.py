"""Markup of report pages: the HTML document, embedded data, and series as SVG paths.

A page is one HTML file without external resources. Paths are steps; x counts samples, y is drawn on 1,000 units,
downwards as in SVG.
"""

import base64
import hashlib
import html
import importlib.resources
from collections.abc import Sequence
from typing import Any

import msgspec

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; script-src '{allowed}'">
<title>{title} · windlass</title>
<style>
{style}</style>
</head>
<body>
<main>
"""

_TAIL = """</main>
<script>{script}</script>
</body>
</html>
"""


def render_document(body: str, title: str, style: str = "", script: str = "") -> str:
    """The HTML document; `style` extends the shared style. The content security policy allows this script only."""
    script = f"\n{script}"
    allowed = f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    head = _HEAD.format(title=html.escape(title), style=read_resource("page.css") + style, allowed=allowed)
    return f"{head}\n{body}\n{_TAIL.format(script=script)}"


def embed_json(data: Any) -> str:
    """Data for the script. Without `<`, its text cannot begin or end an element."""
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    return f'<script type="application/json" class="data">{text}</script>'


def read_resource(name: str) -> str:
    """A resource file of this package."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


HEIGHT = 1000


def scale_y(value: float, most: float) -> int:
    """The y coordinate of a value."""
    return HEIGHT - round(HEIGHT * min(max(value / most, 0.0), 1.0)) if most else HEIGHT


def line_path(values: Sequence[float], most: float) -> str:
    """A value holds until the next sample."""
    return _steps([scale_y(value, most) for value in values], first="M")


def area_path(lower: Sequence[float], upper: Sequence[float], most: float) -> str:
    """The area between two lines."""
    forth = _steps([scale_y(value, most) for value in upper], first="M")
    heights = [scale_y(value, most) for value in lower]
    width, parts = len(heights) - 1, list[str]()
    at, x = heights[-1], width
    parts.append(f"V{at}")
    for i in range(width - 1, -1, -1):
        if heights[i] != at:
            x, at = i + 1, heights[i]
            parts.append(f"H{x}V{at}")
    return f"{forth}{''.join(parts)}H0Z"


def _steps(heights: Sequence[int], first: str) -> str:
    parts, at = [f"{first}0 {heights[0]}"], heights[0]
    for i, height in enumerate(heights):
        if height != at:
            parts.append(f"H{i}V{height}")
            at = height
    return f"{''.join(parts)}H{max(len(heights) - 1, 1)}"


_AXIS_ENDS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
"""Ends of an axis, times a power of ten; their quarters are round numbers."""


def round_axis_end(value: float, least: float = 1.0) -> float:
    """A round end of an axis that includes this value."""
    value = max(value, least)
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(round(power * step, 6) for step in _AXIS_ENDS if power * step >= value * (1 - 1e-9))
