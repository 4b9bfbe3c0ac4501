"""Paths: series as SVG, in steps. x counts samples; y is drawn on 1,000 units, downwards as SVG has it."""

from collections.abc import Sequence

HEIGHT = 1000


def rise(value: float, most: float) -> int:
    """Where a value is drawn."""
    return HEIGHT - round(HEIGHT * min(max(value / most, 0.0), 1.0)) if most else HEIGHT


def line(values: Sequence[float], most: float) -> str:
    """A value holds until the next sample."""
    return _steps([rise(value, most) for value in values], first="M")


def area(lower: Sequence[float], upper: Sequence[float], most: float) -> str:
    """What lies between two lines."""
    forth = _steps([rise(value, most) for value in upper], first="M")
    heights = [rise(value, most) for value in lower]
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


_ENDS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
"""Of an axis, times a power of ten: each can be cut into quarters that read well."""


def round_up(value: float, least: float = 1.0) -> float:
    """Where an axis ends well that shows this value."""
    value = max(value, least)
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(round(power * step, 6) for step in _ENDS if power * step >= value * (1 - 1e-9))
