"""Report of `windlass fit`: findings per pending pod as values, and as a table for people.

The fields of these classes are the fields of `windlass fit -o json`. Amounts are Kubernetes quantities.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from windlass import formatting
from windlass.cli.terminal_output import TextStyle


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """A node with too little of a resource."""

    resource: str
    requested: str
    free: str
    capacity: str
    """The node's allocatable amount."""
    node: str


@dataclass(frozen=True, slots=True)
class FitReason:
    """One reason for which nodes reject the pod."""

    reason: str
    """kube-scheduler's text: `Insufficient cpu`."""
    rule: str
    """The filter plugin: `NodeResourcesFit`."""
    count: int
    """Number of nodes with this reason. One node may have several reasons."""
    nodes: tuple[str, ...]
    """The first few of these nodes; empty for a PreFilter rejection."""
    closest: ResourceShortage | None
    """The node with the smallest shortage."""
    detail: str
    """The detail that decided; may be empty."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The verdict for the pod on one node."""

    node: str
    fits: bool
    rule: str = ""
    code: str = ""
    """`Unschedulable` where preemption might help, `UnschedulableAndUnresolvable` where it cannot."""
    reasons: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """One detail for each reason; some are empty."""


@dataclass(frozen=True, slots=True)
class PodFinding:
    """One pending pod, or several of one owner that are equal for all filters."""

    pod: str
    """`namespace/name` of the first."""
    count: int
    pods: tuple[str, ...]
    """Names of all pods."""
    owner: str | None
    """`Kind/name` of their controller."""
    requests: dict[str, str]
    """Requests of one pod by resource; CPU and memory come first."""
    notes: tuple[str, ...]
    """Further obstacles: a scheduling gate, another scheduler."""
    fits: tuple[str, ...]
    """Nodes on which one of the pods could run now, without the other pending pods."""
    nodes: int
    """Number of nodes in the cluster."""
    message: str
    """kube-scheduler's FitError message: `0/5 nodes are available: 3 Insufficient cpu, …`."""
    reasons: tuple[FitReason, ...]
    """Most nodes first."""
    verdicts: tuple[NodeVerdict, ...]
    """The verdict of each node, with `--explain` and `--verbose`."""


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
    """The whole report."""

    nodes: int
    running: int
    """Pods on these nodes that have not finished."""
    pending: tuple[PodFinding, ...]
    set_aside: tuple[UnreadableObject, ...]
    warnings: tuple[str, ...] = field(default=())
    """Warnings about the input."""


_NAMES = 4
"""Node names that are listed before the rest is counted."""

_INDENT = 7

_COLUMN = 34
"""Width of the reason; longer reasons push their detail to the right."""

_MARGIN = " " * _INDENT


def report_lines(report: FitReport, style: TextStyle, width: int) -> Iterator[str]:
    """The table, line by line."""
    waiting = sum(finding.count for finding in report.pending)
    nodes, running = formatting.format_count(report.nodes, "node"), formatting.format_count(report.running, "pod")
    yield f"{nodes}, {running} running, {waiting} pending"
    fitting = [finding for finding in report.pending if finding.fits]
    unschedulable = [finding for finding in report.pending if not finding.fits]
    yield from _fitting_lines(fitting, style)
    for finding in unschedulable:
        yield ""
        yield from _unschedulable_lines(finding, style, width)
    yield ""
    yield _conclusion(waiting, sum(finding.count for finding in unschedulable))


def finding_lines(finding: PodFinding, style: TextStyle, width: int) -> Iterator[str]:
    """The table of one pod, node by node."""
    yield f"{style.strong(_pod_title(finding))}  {_format_requests(finding)}"
    for note in finding.notes:
        yield style.note(f"note: {note}")
    yield ""
    names = formatting.max_width(("NODE", *(verdict.node for verdict in finding.verdicts)))
    rules = formatting.max_width(("REFUSED BY", *(verdict.rule for verdict in finding.verdicts)))
    yield style.faint(f"{'NODE':{names}}  {'REFUSED BY':{rules}}  WHY")
    for verdict in finding.verdicts:
        if verdict.fits:
            yield f"{verdict.node:{names}}  {style.good('fits')}"
        else:
            head = f"{verdict.node:{names}}  {style.bad(f'{verdict.rule:{rules}}')}  "
            for line in _verdict_lines(verdict, width - names - rules - 4):
                yield head + line
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
    """Unreadable objects and warnings."""
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
    width = formatting.max_width(_pod_title(finding) for finding in fitting)
    yield style.faint(f"{'FITS':{_INDENT}}{'POD':{width}}  ON")
    for finding in fitting:
        share = style.good(f"{_format_share(finding):{_INDENT}}")
        yield f"{share}{style.strong(f'{_pod_title(finding):{width}}')}  {formatting.format_list(finding.fits, _NAMES)}"
        yield from _note_lines(finding, style)


def _unschedulable_lines(finding: PodFinding, style: TextStyle, width: int) -> Iterator[str]:
    share = style.bad(f"{_format_share(finding):{_INDENT}}")
    yield f"{share}{style.strong(_pod_title(finding))}  {_format_requests(finding)}"
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


def _conclusion(waiting: int, unschedulable: int) -> str:
    fitting = waiting - unschedulable
    if not waiting:
        return "No pod is pending."
    if not unschedulable:
        return "The pending pod fits." if waiting == 1 else f"Each of the {waiting} pending pods fits somewhere."
    if not fitting:
        return "The pending pod fits nowhere." if waiting == 1 else f"None of the {waiting} pending pods fits anywhere."
    nowhere = f"{unschedulable} {_fit_phrase(unschedulable)} nowhere"
    return f"{fitting} of {waiting} pending pods {_fit_phrase(fitting)}, {nowhere}."


def _fit_phrase(number: int) -> str:
    return "fits" if number == 1 else "fit"


def _pod_title(finding: PodFinding) -> str:
    return finding.pod if finding.count == 1 else f"{finding.pod} and {finding.count - 1} more"


def _format_requests(finding: PodFinding) -> str:
    return ", ".join(f"{resource} {amount}" for resource, amount in finding.requests.items()) or "no requests"


def _format_share(finding: PodFinding) -> str:
    return f"{len(finding.fits)}/{finding.nodes}"
