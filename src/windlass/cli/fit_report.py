"""Report of `windlass fit`: findings per pending pod as values, and as a table for people.

The fields of these classes are the fields of `windlass fit -o json`. Amounts are Kubernetes quantities.
"""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from windlass.cli.terminal_output import TextStyle


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """A node has too little of a resource."""

    resource: str
    requested: str
    free: str
    capacity: str
    """All that pods may have of it on the node."""
    node: str


@dataclass(frozen=True, slots=True)
class FitReason:
    """Why some nodes refuse the pod."""

    reason: str
    """In the scheduler's words, as it counts them: `Insufficient cpu`."""
    rule: str
    """The filter that says so: `NodeResourcesFit`."""
    count: int
    """How many nodes it refuses for this reason. One node may have several."""
    nodes: tuple[str, ...]
    """The first few of them; none where no node was looked at."""
    closest: ResourceShortage | None
    """Of those that have too little, the one that has most."""
    detail: str
    """What decided, in words; may be empty."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The pod on one node."""

    node: str
    fits: bool
    rule: str = ""
    code: str = ""
    """`Unschedulable` where removing pods might help, `UnschedulableAndUnresolvable` where it would not."""
    reasons: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """What decided, in words: one for each reason, some empty."""


@dataclass(frozen=True, slots=True)
class PodFinding:
    """One pending pod, or several of one owner that no filter can tell apart."""

    pod: str
    """`namespace/name` of the first."""
    count: int
    pods: tuple[str, ...]
    """All of them."""
    owner: str | None
    """`Kind/name` of their controller."""
    requests: dict[str, str]
    """What each of them requests, by resource; CPU and memory come first."""
    notes: tuple[str, ...]
    """What else keeps them from being scheduled: a gate, another scheduler."""
    fits: tuple[str, ...]
    """The nodes on which one of them could run now, all others aside."""
    nodes: int
    """How many nodes there are."""
    message: str
    """What the scheduler would say: `0/5 nodes are available: 3 Insufficient cpu, …`."""
    reasons: tuple[FitReason, ...]
    """Most nodes first."""
    verdicts: tuple[NodeVerdict, ...]
    """Node by node, where that was asked for."""


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that could not be read: which field, what was found, what is accepted."""

    kind: str
    name: str
    field: str
    found: object
    accepted: str


@dataclass(frozen=True, slots=True)
class FitReport:
    """All that was found."""

    nodes: int
    running: int
    """Pods on these nodes, finished ones aside."""
    pending: tuple[PodFinding, ...]
    set_aside: tuple[UnreadableObject, ...]
    warnings: tuple[str, ...] = field(default=())
    """What to know before trusting the rest."""


_NAMES = 4
"""Node names that are told before the rest is counted."""

_INDENT = 7

_COLUMN = 34
"""Room for what most filters say; longer reasons push their detail to the right."""

_MARGIN = " " * _INDENT


def report_lines(report: FitReport, style: TextStyle, width: int) -> Iterator[str]:
    """The table, line by line."""
    waiting = sum(finding.count for finding in report.pending)
    yield f"{_format_count(report.nodes, 'node')}, {_format_count(report.running, 'pod')} running, {waiting} pending"
    fitting = [finding for finding in report.pending if finding.fits]
    homeless = [finding for finding in report.pending if not finding.fits]
    yield from _fitting_lines(fitting, style)
    for finding in homeless:
        yield ""
        yield from _unschedulable_lines(finding, style, width)
    yield ""
    yield _conclusion(waiting, sum(finding.count for finding in homeless))


def finding_lines(finding: PodFinding, style: TextStyle, width: int) -> Iterator[str]:
    """One pod, node by node."""
    yield f"{style.strong(_pod_title(finding))}  {_format_requests(finding)}"
    for note in finding.notes:
        yield style.note(f"note: {note}")
    yield ""
    names = _widest(("NODE", *(verdict.node for verdict in finding.verdicts)))
    rules = _widest(("REFUSED BY", *(verdict.rule for verdict in finding.verdicts)))
    yield style.faint(f"{'NODE':{names}}  {'REFUSED BY':{rules}}  WHY")
    for verdict in finding.verdicts:
        if verdict.fits:
            yield f"{verdict.node:{names}}  {style.good('fits')}"
        else:
            head = f"{verdict.node:{names}}  {style.bad(f'{verdict.rule:{rules}}')}  "
            for told in _verdict_lines(verdict, width - names - rules - 4):
                yield head + told
                head = " " * (names + rules + 4)
    yield ""
    yield from textwrap.wrap(finding.message, width)


def _verdict_lines(verdict: NodeVerdict, width: int) -> Iterator[str]:
    for reason, detail in zip(verdict.reasons, verdict.details, strict=True):
        if len(reason) + 2 + len(detail) <= width:
            yield f"{reason}: {detail}" if detail else reason
        else:
            yield f"{reason}:"
            yield f"  {detail}"


def unreadable_lines(report: FitReport, style: TextStyle) -> Iterator[str]:
    """What could not be read, and what else to know."""
    for warning in report.warnings:
        yield f"{style.note('warning:')} {warning}"
    for error in report.set_aside:
        found = "nothing" if error.found is None else str(error.found)
        yield f"{style.note('set aside:')} {error.kind} {error.name}, {error.field}"
        yield f"  found {found}, expected {error.accepted}"


def _fitting_lines(fitting: list[PodFinding], style: TextStyle) -> Iterator[str]:
    if not fitting:
        return
    yield ""
    width = _widest(_pod_title(finding) for finding in fitting)
    yield style.faint(f"{'FITS':{_INDENT}}{'POD':{width}}  ON")
    for finding in fitting:
        share = style.good(f"{_format_share(finding):{_INDENT}}")
        yield f"{share}{style.strong(f'{_pod_title(finding):{width}}')}  {_format_list(finding.fits, _NAMES)}"
        yield from _note_lines(finding, style)


def _unschedulable_lines(finding: PodFinding, style: TextStyle, width: int) -> Iterator[str]:
    yield f"{style.bad(f'{_format_share(finding):{_INDENT}}')}{style.strong(_pod_title(finding))}  {_format_requests(finding)}"
    yield from _note_lines(finding, style)
    if not finding.reasons:
        yield f"{_MARGIN}{finding.message}"
    heads = [f"{reason.count} {reason.reason}" if reason.nodes else reason.reason for reason in finding.reasons]
    for head, reason in zip(heads, finding.reasons, strict=True):
        line = f"{_MARGIN}{head:{_COLUMN}}  " if reason.detail else f"{_MARGIN}{head}"
        if len(line) + len(reason.detail) <= width:
            yield line + style.faint(reason.detail)
        else:
            yield line.rstrip()
            yield f"{_MARGIN}{'':{_COLUMN}}  {style.faint(reason.detail)}"


def _note_lines(finding: PodFinding, style: TextStyle) -> Iterator[str]:
    for note in finding.notes:
        yield f"{_MARGIN}{style.note(f'note: {note}')}"


def _conclusion(waiting: int, homeless: int) -> str:
    fitting = waiting - homeless
    if not waiting:
        return "No pod is pending."
    if not homeless:
        return "The pending pod fits." if waiting == 1 else f"Each of the {waiting} pending pods fits somewhere."
    if not fitting:
        return "The pending pod fits nowhere." if waiting == 1 else f"None of the {waiting} pending pods fits anywhere."
    return f"{fitting} of {waiting} pending pods {_fit_phrase(fitting)}, {homeless} {_fit_phrase(homeless)} nowhere."


def _fit_phrase(number: int) -> str:
    return "fits" if number == 1 else "fit"


def _pod_title(finding: PodFinding) -> str:
    return finding.pod if finding.count == 1 else f"{finding.pod} and {finding.count - 1} more"


def _format_requests(finding: PodFinding) -> str:
    return ", ".join(f"{resource} {amount}" for resource, amount in finding.requests.items()) or "no requests"


def _format_share(finding: PodFinding) -> str:
    return f"{len(finding.fits)}/{finding.nodes}"


def _format_count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _format_list(names: tuple[str, ...], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)
