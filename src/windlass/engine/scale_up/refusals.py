"""Refusals: what groups have against pods that none of them helps, counted for people to read."""

from collections import Counter
from collections.abc import Collection

from windlass.engine.scale_up.proposing import Alike, Proposal


def count_reasons(proposal: Proposal, alike: Alike, existing: Collection[str]) -> str:
    """`2 Insufficient cpu, 1 max node group size reached`: of these groups, the most common first."""
    said = (*alike.rejected.items(), *proposal.skipped_for(alike).items())
    return spell(Counter(reason for group, reasons in said if group in existing for reason in reasons))


def spell(counts: Counter[str]) -> str:
    """The peer's order is that of chance."""
    ordered = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)
