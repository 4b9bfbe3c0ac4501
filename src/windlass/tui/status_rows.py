"""Rows of the terminal UI: groups, nodes, pending pods and decisions of a status as styled text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from windlass import formatting
from windlass.observability.status_model import (
    NodeState,
    PendingPods,
    PendingState,
    PublishedDecision,
    PublishedGroup,
    PublishedNode,
    PublishedStatus,
)

_EIGHTHS = " ▏▎▍▌▋▊▉█"

_HEIGHTS = "▁▂▃▄▅▆▇█"


def draw_bar(share: float, width: int) -> str:
    """A bar of a share of the width, to an eighth of a character; shares above 1 are drawn as 1."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, part = divmod(eighths, 8)
    return f"{'█' * whole}{_EIGHTHS[part] if part else ''}".ljust(width)


def draw_sparkline(values: Sequence[float], width: int) -> str:
    """The last values as heights from zero to their maximum, one character each; several per character: the highest."""
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
"""A distinct mark for each state, readable without colour."""

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
    """A line, and the object that it shows."""

    kind: RowKind
    name: str
    text: Text


# ── Summary ──────────────────────────────────────────────────────────────────────────────────────────────────────


def summary_line(status: PublishedStatus) -> Text:
    """The summary in one line."""
    cluster_summary = status.cluster
    what = " ".join(filter(None, (cluster_summary.mode, cluster_summary.name)))
    parts = [
        f"{cluster_summary.ready} of {cluster_summary.nodes} nodes ready",
        formatting.format_count(cluster_summary.pods, "pod", thousands=","),
        f"{cluster_summary.pending} pending",
    ]
    parts += [
        f"cpu {formatting.format_percent(cluster_summary.cpu)}",
        f"memory {formatting.format_percent(cluster_summary.memory)}",
    ]
    text = Text.assemble((f"{what}  ", "bold"), " · ".join(parts), no_wrap=True)
    if cluster_summary.stop:
        text.append(f"  {cluster_summary.stop}", "bold red")
    elif not cluster_summary.is_healthy:
        text.append("  unhealthy", "bold red")
    return text


def trend_lines(status: PublishedStatus, width: int) -> Text:
    """Cost, pending pods and nodes over time, one line each."""
    cost, samples = status.cluster.cost, status.samples
    unknown = f", {cost.unpriced} nodes without a price" if cost.unpriced else ""
    spent = f", {formatting.format_money(cost.spent, status.cluster.currency)} so far" if cost.spent else ""
    told = (
        (
            "cost",
            "blue",
            [cluster_sample.cost_per_hour for cluster_sample in samples],
            f"{formatting.format_money_per_hour(cost.per_hour, status.cluster.currency)}{spent}{unknown}",
        ),
        ("pending", "yellow", [sample.pending for sample in samples], f"{status.cluster.pending}"),
        ("nodes", "green", [sample.nodes for sample in samples], f"{status.cluster.nodes}"),
    )
    room = max(width - 10 - max(len(now) for *_, now in told), 10)
    text = Text(no_wrap=True)
    for name, colour, values, now in told:
        text.append(f"{name:>8} ", "dim").append(f"{draw_sparkline(values, room):{room}}", colour).append(f" {now}\n")
    text.rstrip()
    return text


# ── Nodes by group ───────────────────────────────────────────────────────────────────────────────────────────────


def node_rows(status: PublishedStatus, sort: SortKey, wanted: str) -> list[StatusRow]:
    """Groups in their order, each with its nodes sorted as selected; nodes without a group last."""
    by_group: dict[str, list[PublishedNode]] = {}
    for node in status.nodes:
        by_group.setdefault(node.group, []).append(node)
    rows: list[StatusRow] = []
    for group in status.groups:
        rows += _group_rows(
            _format_group(group, status.cluster.currency), by_group.pop(group.id, []), status, sort, wanted
        )
    for name, nodes in sorted(by_group.items()):
        title = StatusRow("group", name, Text(name or "without a group", "bold"))
        rows += _group_rows(title, nodes, status, sort, wanted)
    return rows


def _group_rows(
    title: StatusRow, nodes: Sequence[PublishedNode], status: PublishedStatus, sort: SortKey, wanted: str
) -> list[StatusRow]:
    """The group and those of its nodes that match the filter: all of them if the group itself matches."""
    published_nodes = nodes if _matches_filter(title.name, wanted) else [
        node for node in nodes if _matches_filter(f"{node.name} {node.state} {node.why}", wanted)]  # fmt: skip
    if wanted and not published_nodes and not _matches_filter(title.name, wanted):
        return []
    return [title, *(_format_node(node, status.cluster.at_s) for node in sorted(published_nodes, key=_ORDERS[sort]))]


_ORDERS: dict[SortKey, Callable[[PublishedNode], tuple[object, ...]]] = {
    "name": lambda node: (node.name,),
    "cpu": lambda node: (-node.cpu, node.name),
    "memory": lambda node: (-node.memory, node.name),
    "state": lambda node: (-list(NodeState).index(node.state), node.name),
}


def _format_group(group: PublishedGroup, currency: str) -> StatusRow:
    counts = [f"{getattr(group, name)} {name}" for name in _GROUP_COUNTS if getattr(group, name)]
    text = Text(f"{group.name}  ", "bold")
    text.append(f"size {group.target_size} of {group.min_size}–{group.max_size}", "not bold")
    text.append(f"  {', '.join(counts)}" if counts else "", "not bold dim")
    if group.cost_per_hour is not None:
        text.append(f"  {formatting.format_money_per_hour(group.cost_per_hour, currency)}", "not bold blue")
    if group.replicas_owner:
        text.append(f"  {group.replicas_owner}", "not bold red")
    if group.backoff is not None:
        text.append(
            f"  backs off until {formatting.format_time_of_day(group.backoff.until_s)}: {group.backoff.message}",
            "not bold red",
        )
    elif not group.is_healthy:
        text.append("  unhealthy", "not bold red")
    return StatusRow("group", group.id, text)


def _format_node(node: PublishedNode, now_s: float) -> StatusRow:
    mark, colour = _STATE_MARKS[node.state]
    since = f" {formatting.format_padded_duration(max(now_s - node.since_s, 0.0))}" if node.since_s is not None else ""
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
        _format_pending(pending_pods, status.cluster.at_s)
        for pending_pods in status.pending
        if _matches_filter(f"{pending_pods.pod} {pending_pods.owner}", wanted)
    ]


def _format_pending(pending_pods: PendingPods, now_s: float) -> StatusRow:
    many = f"{pending_pods.count}× " if pending_pods.count > 1 else ""
    waits = formatting.format_padded_duration(max(now_s - pending_pods.since_s, 0.0)) if pending_pods.since_s else ""
    asks = ", ".join(
        f"{name} {amount}"
        for name, amount in formatting.format_quantities(tuple(pending_pods.requests.items())).items()
    )
    text = Text.assemble((f"{many}{pending_pods.pod}", "bold"), f"  {asks}  ", (f"{waits}  ", "dim"))
    text.append(
        " ".join(_format_remedy(pending_pods)), "red" if pending_pods.help is PendingState.NOWHERE else "yellow"
    )
    return StatusRow("pod", pending_pods.pod, text)


def _format_remedy(pending_pods: PendingPods) -> Iterator[str]:
    yield {
        PendingState.HELPED: f"{', '.join(pending_pods.groups)} grows for it",
        PendingState.ROOM: f"fits on {_format_names(pending_pods.nodes) or 'an upcoming node'}",
        PendingState.LATER: "a group can scale up later",
        PendingState.NOWHERE: "no group can scale up:",
        PendingState.WAITING: "not processed yet",
    }[pending_pods.help]
    if pending_pods.reasons:
        yield "; ".join(
            f"{reason.group.rpartition('/')[2]}: {', '.join(reason.texts)}" for reason in pending_pods.reasons
        )


def _format_names(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)


def decision_rows(status: PublishedStatus, wanted: str) -> list[StatusRow]:
    """Decisions, the newest first."""
    return [
        _format_decision(published_decision)
        for published_decision in reversed(status.decisions)
        if _matches_filter(f"{published_decision.kind} {published_decision.said} {published_decision.why}", wanted)
    ]


def _format_decision(published_decision: PublishedDecision) -> StatusRow:
    word, colour = _DECISION_MARKS.get(published_decision.kind, (published_decision.kind, ""))
    text = Text.assemble(
        (formatting.format_time_of_day(published_decision.at_s), "dim"),
        "  ",
        (f"{word:9}", colour),
        f"  {published_decision.said}",
        (f"  {published_decision.why}", "dim"),
    )
    return StatusRow("decision", str(published_decision.number), text)


def describe_decision(status: PublishedStatus, number: str) -> str:
    """A decision with its reason, groups and nodes."""
    for published_decision in status.decisions:
        if str(published_decision.number) == number:
            about = [
                f"{name}: {', '.join(found)}"
                for name, found in (("groups", published_decision.groups), ("nodes", published_decision.nodes))
                if found
            ]
            return "\n\n".join(
                [
                    f"{formatting.format_time_of_day(published_decision.at_s)}  {published_decision.said}",
                    *([published_decision.why] if published_decision.why else []),
                    *about,
                ]
            )
    return "Only the last decisions are kept, and this one is older."


def _matches_filter(text: str, wanted: str) -> bool:
    return wanted.lower() in text.lower()


def _shorten(name: str, width: int) -> str:
    """Shorten at the front: the end of a name distinguishes nodes."""
    return name if len(name) <= width else f"…{name[1 - width :]}"
