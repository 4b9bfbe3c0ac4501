"""Student's distribution: how far a mean of few values may be from the truth."""

import functools
import math

_HALVINGS = 60


@functools.cache
def find_quantile(probability: float, freedom: int) -> float:
    """The t that is exceeded with 1 - probability, for 0.5 ≤ probability < 1."""
    low, high = 0.0, 1.0
    while _share_below(high, freedom) < probability:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_below(middle, freedom) < probability else (low, middle)
    return high


def _share_below(t: float, freedom: int) -> float:
    """The probability of less than t ≥ 0, by the finite series for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine, 0.0) if freedom % 2 else (1.0, 0.0)
    for k in range(freedom // 2):
        total += term
        step = 2 * k + 1 + freedom % 2
        term *= cosine * cosine * step / (step + 1)
    within = 2 / math.pi * (angle + sine * total) if freedom % 2 else sine * total
    return 0.5 + within / 2
