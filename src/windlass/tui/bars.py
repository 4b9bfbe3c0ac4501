"""Bars and lines out of characters."""

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """A share of the width, to an eighth of a character; what is more than all is drawn as all."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, part = divmod(eighths, 8)
    return f"{'█' * whole}{_EIGHTHS[part] if part else ''}".ljust(width)


def line(values: Sequence[float], width: int) -> str:
    """The last values as heights from zero to the most of them, one for each character; of several, the highest."""
    if not values or width < 1:
        return ""
    per = -(-len(values) // width)
    first = len(values) % per
    cut = ([values[:first]] if first else []) + [values[i : i + per] for i in range(first, len(values), per)]
    highest = [max(part) for part in cut]
    most = max(highest)
    return "".join(_HEIGHTS[round(value / most * 7)] if most > 0 else _HEIGHTS[0] for value in highest)
