"""Pods that wait, as they are published: those alike together, with what the loop said to them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.autoscaler.published.model import MOST_PENDING, Help, Pending, Reason
from windlass.engine.decide import Decision
from windlass.engine.observation import Observation
from windlass.engine.scale_up.proposing import Alike, Proposal, Result

_MAX_TOTAL = "max total nodes in cluster reached"
_NAMED = 3
"""Nodes that are named, at most."""


@dataclass(frozen=True, slots=True)
class _Answer:
    help: Help
    groups: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(slots=True)
class _Set:
    rows: list[int] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)


def describe(seen: Observation, decision: Decision, rows: list[int]) -> tuple[Pending, ...]:
    """The pods of these rows, which wait; those that wait longest first. Only so many sets are told."""
    table, told = seen.snapshot.pods, _answers(decision)
    places = decision.memory.volatile.pending.hints.old
    sets: dict[tuple[int, int, _Answer], _Set] = {}
    waiting, room = _Answer(Help.WAITING), _Answer(Help.ROOM)
    for row, shape, kind in zip(rows, table.shape_ids[rows].tolist(), table.kind_ids[rows].tolist(), strict=True):
        answer, place = told.get(row), places.get(table.uids[row])
        if answer is None:
            answer = waiting if place is None else room
        found = sets.setdefault((shape, kind, answer), _Set())
        found.rows.append(row)
        if place is not None and answer is room and len(found.nodes) < _NAMED:
            found.nodes[place] = None
    made = (_tell(seen, found, answer) for (_, _, answer), found in sets.items())
    return tuple(sorted(made, key=lambda one: (one.since_s, one.pod))[:MOST_PENDING])


def _tell(seen: Observation, found: _Set, answer: _Answer) -> Pending:
    table, first = seen.snapshot.pods, found.rows[0]
    kind = table.kind(first)
    return Pending(
        table.key(first),
        len(found.rows),
        answer.help,
        f"{kind.owner.kind} {kind.owner.name}" if kind.owner else "",
        dict(kind.spec.requests),
        float(table.created_s[found.rows].min()),
        answer.groups,
        tuple(found.nodes),
        answer.reasons,
    )


def _answers(decision: Decision) -> Mapping[int, _Answer]:
    """What was said, by row. The last round has the last word, but for those that an earlier one helped."""
    told: dict[int, _Answer] = {}
    for proposal in decision.story.scale_ups:
        for row, answer in _answer(proposal):
            if row not in told or told[row].help is not Help.HELPED:
                told[row] = answer
    return told


def _answer(proposal: Proposal) -> Iterator[tuple[int, _Answer]]:
    for alike in proposal.remaining:
        refused = _Answer(Help.NOWHERE, reasons=tuple(_reasons(proposal, alike)))
        yield from ((row, refused) for row in alike.rows)
    later = _Answer(Help.LATER)
    yield from ((row, later) for row in proposal.awaiting)
    helped = _Answer(Help.HELPED, tuple(one.group.id for one in proposal.increases))
    yield from ((row, helped) for row in proposal.helped)


def _reasons(proposal: Proposal, alike: Alike) -> Iterator[Reason]:
    if proposal.result is Result.LIMITED_BY_MAX_NODES_TOTAL:
        yield Reason("", (_MAX_TOTAL,))
    for group, texts in sorted({**alike.rejected, **proposal.skipped_for(alike)}.items()):
        if texts:
            yield Reason(group, tuple(map(str, texts)))
