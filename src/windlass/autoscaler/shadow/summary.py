"""The summary of a shadow: how often both agreed, and what they differed in, for people."""

from collections.abc import Iterator, Sequence

from windlass.autoscaler.shadow.verdicts import Direction, Kind, Totals, Verdict
from windlass.kube import durations

_LAST = 20
"""Differences told one by one: the last ones."""


def write(totals: Totals, differences: Sequence[Verdict], ran_s: float) -> str:
    """The whole summary, without a line break at its end."""
    return "\n".join(_lines(totals, differences, ran_s))


def _lines(totals: Totals, differences: Sequence[Verdict], ran_s: float) -> Iterator[str]:
    yield f"shadow of another autoscaler for {durations.spell(round(ran_s))}"
    yield ""
    yield f"{'':12}" + "".join(f"{head:>16}" for head in (*Kind, "nodes here", "nodes there", "sooner by"))
    for direction in Direction:
        counts = [totals.counts[direction, kind] for kind in Kind]
        cells = [*map(str, counts), str(totals.wanted[direction]), str(totals.done[direction])]
        agreed = totals.agreements(direction)
        cells.append(durations.spell(round(totals.leads_s.get(direction, 0.0) / agreed, 1)) if agreed else "-")
        yield f"{direction:12}" + "".join(f"{cell:>16}" for cell in cells)
    yield ""
    agreed, all_of_them = (
        sum(count(direction) for direction in Direction) for count in (totals.agreements, totals.all)
    )
    yield f"agreed on {agreed} of {all_of_them}" if all_of_them else "neither of both did anything"
    if differences:
        yield ""
        yield "differences:" if len(differences) <= _LAST else f"the last {_LAST} of {len(differences)} differences:"
        yield from (f"  {verdict}" for verdict in differences[-_LAST:])
