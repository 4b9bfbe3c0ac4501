"""Rows of the terminal UI: groups, nodes, pending pods and decisions of a status as styled text."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from windlass.explain import formatting
from windlass.observability.status_model import (
    NodeState,
    PendingPods,
    PendingState,
    PublishedDecision,
    PublishedGroup,
    PublishedNode,
    PublishedStatus,
)
from windlass.simulator.report import number_format

_EIGHTHS = " ▏▎▍▌▋▊▉█"

_HEIGHTS = "▁▂▃▄▅▆▇█"


def draw_bar(share: float, width: int) -> str:
    """A share of the width, to an eighth of a character; what is more than all is drawn as all."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, part = divmod(eighths, 8)
    return f"{'█' * whole}{_EIGHTHS[part] if part else ''}".ljust(width)


def draw_sparkline(values: Sequence[float], width: int) -> str:
    """The last values as heights from zero to the most of them, one for each character; of several, the highest."""
    if not values or width < 1:
        return ""
    per = -(-len(values) // width)
    first = len(values) % per
    cut = ([values[:first]] if first else []) + [values[i : i + per] for i in range(first, len(values), per)]
    highest = [max(part) for part in cut]
    most = max(highest)
    return "".join(_HEIGHTS[round(value / most * 7)] if most > 0 else _HEIGHTS[0] for value in highest)


RowKind = Literal["group", "node", "pod", "decision"]

SortKey = Literal["name", "cpu", "memory", "state"]

SORT_KEYS: tuple[SortKey, ...] = ("name", "cpu", "memory", "state")

_STATE_MARKS: dict[NodeState, tuple[str, str]] = {
    NodeState.READY: ("●", "green"),
    NodeState.UNNEEDED: ("○", "yellow"),
    NodeState.DRAINING: ("▼", "blue"),
    NodeState.BOOTING: ("◌", "cyan"),
    NodeState.UNREADY: ("!", "red"),
    NodeState.FAILED: ("✗", "red"),
}
"""A mark of its own for each state, for those who do not see its colour."""

_DECISION_MARKS = {
    "up": ("▲ up", "green"),
    "down": ("▼ down", "blue"),
    "trouble": ("✗ trouble", "red"),
    "wait": ("… wait", "yellow"),
}

_GROUP_COUNTS = ("ready", "booting", "unneeded", "draining", "unready", "failed")

_BAR_WIDTH = 12

_NAME_WIDTH = 34


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A line, and what it is about."""

    kind: RowKind
    name: str
    text: Text


# ── The head ─────────────────────────────────────────────────────────────────────────────────────────────────────


def summary_line(status: PublishedStatus) -> Text:
    """The whole in one line."""
    one = status.cluster
    what = " ".join(filter(None, (one.mode, one.name)))
    parts = [
        f"{one.ready} of {one.nodes} nodes ready",
        number_format.format_count(one.pods, "pod"),
        f"{one.pending} pending",
    ]
    parts += [f"cpu {number_format.format_percent(one.cpu)}", f"memory {number_format.format_percent(one.memory)}"]
    text = Text.assemble((f"{what}  ", "bold"), " · ".join(parts), no_wrap=True)
    if one.stop:
        text.append(f"  {one.stop}", "bold red")
    elif not one.is_healthy:
        text.append("  unhealthy", "bold red")
    return text


def trend_lines(status: PublishedStatus, width: int) -> Text:
    """Cost, pending pods and nodes over time, each on a line of its own."""
    cost, samples = status.cluster.cost, status.samples
    unknown = f", {cost.unpriced} nodes without a price" if cost.unpriced else ""
    spent = f", {number_format.format_money(cost.spent)} so far" if cost.spent else ""
    told = (
        (
            "cost",
            "blue",
            [one.cost_per_hour for one in samples],
            f"{number_format.format_money(cost.per_hour)}/h{spent}{unknown}",
        ),
        ("pending", "yellow", [one.pending for one in samples], f"{status.cluster.pending}"),
        ("nodes", "green", [one.nodes for one in samples], f"{status.cluster.nodes}"),
    )
    room = max(width - 10 - max(len(now) for *_, now in told), 10)
    text = Text(no_wrap=True)
    for name, colour, values, now in told:
        text.append(f"{name:>8} ", "dim").append(f"{draw_sparkline(values, room):{room}}", colour).append(f" {now}\n")
    text.rstrip()
    return text


# ── Nodes by group ───────────────────────────────────────────────────────────────────────────────────────────────


def node_rows(status: PublishedStatus, sort: SortKey, wanted: str) -> list[StatusRow]:
    """Groups in their order, each with its nodes in the order that is asked for; those of no group last."""
    by_group: dict[str, list[PublishedNode]] = {}
    for node in status.nodes:
        by_group.setdefault(node.group, []).append(node)
    rows: list[StatusRow] = []
    for group in status.groups:
        rows += _group_rows(_format_group(group), by_group.pop(group.id, []), status, sort, wanted)
    for name, nodes in sorted(by_group.items()):
        title = StatusRow("group", name, Text(name or "of no group", "bold"))
        rows += _group_rows(title, nodes, status, sort, wanted)
    return rows


def _group_rows(
    title: StatusRow, nodes: Sequence[PublishedNode], status: PublishedStatus, sort: SortKey, wanted: str
) -> list[StatusRow]:
    """The group with its nodes, as far as they are wanted: all of them if the group itself is."""
    chosen = nodes if _matches_filter(title.name, wanted) else [
        node for node in nodes if _matches_filter(f"{node.name} {node.state} {node.why}", wanted)]  # fmt: skip
    if wanted and not chosen and not _matches_filter(title.name, wanted):
        return []
    return [title, *(_format_node(node, status.cluster.at_s) for node in sorted(chosen, key=_ORDERS[sort]))]


_ORDERS: dict[SortKey, Callable[[PublishedNode], tuple[object, ...]]] = {
    "name": lambda node: (node.name,),
    "cpu": lambda node: (-node.cpu, node.name),
    "memory": lambda node: (-node.memory, node.name),
    "state": lambda node: (-list(NodeState).index(node.state), node.name),
}


def _format_group(group: PublishedGroup) -> StatusRow:
    counts = [f"{getattr(group, name)} {name}" for name in _GROUP_COUNTS if getattr(group, name)]
    text = Text(f"{group.name}  ", "bold")
    text.append(f"size {group.target_size} of {group.min_size}–{group.max_size}", "not bold")
    text.append(f"  {', '.join(counts)}" if counts else "", "not bold dim")
    if group.cost_per_hour is not None:
        text.append(f"  {number_format.format_money(group.cost_per_hour)}/h", "not bold blue")
    if group.replicas_owner:
        text.append(f"  {group.replicas_owner}", "not bold red")
    if group.backoff is not None:
        text.append(
            f"  backs off until {_format_clock(group.backoff.until_s)}: {group.backoff.message}", "not bold red"
        )
    elif not group.is_healthy:
        text.append("  unhealthy", "not bold red")
    return StatusRow("group", group.id, text)


def _format_node(node: PublishedNode, now_s: float) -> StatusRow:
    mark, colour = _STATE_MARKS[node.state]
    since = f" {number_format.format_duration(max(now_s - node.since_s, 0.0))}" if node.since_s is not None else ""
    text = Text.assemble("  ", (mark, colour), f" {_shorten(node.name, _NAME_WIDTH):{_NAME_WIDTH}} ")
    for name, share in (("cpu", node.cpu), ("mem", node.memory), ("gpu", node.gpu)):
        if share is not None:
            text.append(f"{name} ", "dim").append(draw_bar(share, _BAR_WIDTH), colour).append(f" {share:4.0%}  ")
    text.append(f"{node.pods:3} pods  ").append(f"{node.state}{since}", colour)
    text.append("  cordoned" if node.cordoned else "", "yellow").append(f"  {node.why}" if node.why else "", "dim")
    return StatusRow("node", node.name, text)


# ── Pods and decisions ───────────────────────────────────────────────────────────────────────────────────────────


def pending_rows(status: PublishedStatus, wanted: str) -> list[StatusRow]:
    return [
        _format_pending(one, status.cluster.at_s)
        for one in status.pending
        if _matches_filter(f"{one.pod} {one.owner}", wanted)
    ]


def _format_pending(one: PendingPods, now_s: float) -> StatusRow:
    many = f"{one.count}× " if one.count > 1 else ""
    waits = number_format.format_duration(max(now_s - one.since_s, 0.0)) if one.since_s else ""
    asks = ", ".join(
        f"{name} {amount}" for name, amount in formatting.format_quantities(tuple(one.requests.items())).items()
    )
    text = Text.assemble((f"{many}{one.pod}", "bold"), f"  {asks}  ", (f"{waits}  ", "dim"))
    text.append(" ".join(_format_remedy(one)), "red" if one.help is PendingState.NOWHERE else "yellow")
    return StatusRow("pod", one.pod, text)


def _format_remedy(one: PendingPods) -> Iterator[str]:
    yield {
        PendingState.HELPED: f"{', '.join(one.groups)} grows for it",
        PendingState.ROOM: f"room on {_format_names(one.nodes) or 'a node to come'}",
        PendingState.LATER: "a group can help, later",
        PendingState.NOWHERE: "no group helps:",
        PendingState.WAITING: "nobody has come to it yet",
    }[one.help]
    if one.reasons:
        yield "; ".join(f"{reason.group.rpartition('/')[2]}: {', '.join(reason.texts)}" for reason in one.reasons)


def _format_names(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)


def decision_rows(status: PublishedStatus, wanted: str) -> list[StatusRow]:
    """The newest first."""
    return [
        _format_decision(one)
        for one in reversed(status.decisions)
        if _matches_filter(f"{one.kind} {one.said} {one.why}", wanted)
    ]


def _format_decision(one: PublishedDecision) -> StatusRow:
    word, colour = _DECISION_MARKS.get(one.kind, (one.kind, ""))
    text = Text.assemble(
        (_format_clock(one.at_s), "dim"), "  ", (f"{word:9}", colour), f"  {one.said}", (f"  {one.why}", "dim")
    )
    return StatusRow("decision", str(one.number), text)


def describe_decision(status: PublishedStatus, number: str) -> str:
    """A decision with all that is known of it."""
    for one in status.decisions:
        if str(one.number) == number:
            about = [
                f"{name}: {', '.join(found)}" for name, found in (("groups", one.groups), ("nodes", one.nodes)) if found
            ]
            return "\n\n".join([f"{_format_clock(one.at_s)}  {one.said}", *([one.why] if one.why else []), *about])
    return "It is too long ago: only the last decisions are kept."


def _matches_filter(text: str, wanted: str) -> bool:
    return wanted.lower() in text.lower()


def _format_clock(at_s: float) -> str:
    """Of the day, in UTC as logs have it."""
    return time.strftime("%H:%M:%S", time.gmtime(at_s))


def _shorten(name: str, width: int) -> str:
    """The end of a name tells nodes apart."""
    return name if len(name) <= width else f"…{name[1 - width :]}"
