"""Where a memory is kept that is too large for one ConfigMap: in more of them, whose names follow from the first."""

MOST = 4
"""The first one included; each name must be in the role of whoever writes."""


def names(first: str) -> tuple[str, ...]:
    """The ConfigMaps that a large memory takes besides the first: those of even generations, then those of odd ones."""
    return tuple(f"{first}-{number}" for number in range(1, 2 * MOST - 1))
