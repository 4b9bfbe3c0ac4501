"""Validation of a pool: what the definition's rules refuse, refused once more. The first thing wrong is told."""

import re

from windlass.controllers.lattice import facts

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_CHARACTERS = 63


def check(pool: facts.Pool) -> str:
    """What is wrong with it; empty if nothing is."""
    if (pool.min is None) != (pool.max is None):
        return "min and max must both be set or both unset"
    for name, found in (("replicas", pool.replicas), ("min", pool.min), ("max", pool.max)):
        if found is not None and found < 0:
            return f"{name} ({found}) must be greater than or equal to 0"
    if pool.min is not None and pool.max is not None:
        if pool.min > pool.max:
            return f"min ({pool.min}) cannot exceed max ({pool.max})"
        if pool.min == 0:
            return "scale-from-zero not supported (min must be >= 1)"
    return ""


def check_id(name: str) -> str:
    if _DNS_LABEL.fullmatch(name) and len(name) <= _LABEL_CHARACTERS:
        return ""
    return f"pool id '{name}' is not a valid DNS label"
