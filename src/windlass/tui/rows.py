"""What is shown of a status, line by line. Nothing here decides or counts what the status does not say."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from windlass.autoscaler.published.model import Decided, Group, Help, Node, Pending, State, Status
from windlass.explain import amounts as quantities
from windlass.simulator.reporting import amounts
from windlass.tui import bars

Kind = Literal["group", "node", "pod", "decision"]
Sort = Literal["name", "cpu", "memory", "state"]
SORTS: tuple[Sort, ...] = ("name", "cpu", "memory", "state")

_MARKS: dict[State, tuple[str, str]] = {
    State.READY: ("●", "green"),
    State.UNNEEDED: ("○", "yellow"),
    State.DRAINING: ("▼", "blue"),
    State.BOOTING: ("◌", "cyan"),
    State.UNREADY: ("!", "red"),
    State.FAILED: ("✗", "red"),
}
"""A mark of its own for each state, for those who do not see its colour."""
_KINDS = {
    "up": ("▲ up", "green"),
    "down": ("▼ down", "blue"),
    "trouble": ("✗ trouble", "red"),
    "wait": ("… wait", "yellow"),
}
_COUNTS = ("ready", "booting", "unneeded", "draining", "unready", "failed")
_BAR = 12
_NAME = 34


@dataclass(frozen=True, slots=True)
class Row:
    """A line, and what it is about."""

    kind: Kind
    name: str
    text: Text


# ── The head ─────────────────────────────────────────────────────────────────────────────────────────────────────


def head(status: Status) -> Text:
    """The whole in one line."""
    one = status.cluster
    what = " ".join(filter(None, (one.mode, one.name)))
    parts = [f"{one.ready} of {one.nodes} nodes ready", amounts.count(one.pods, "pod"), f"{one.pending} pending"]
    parts += [f"cpu {amounts.share(one.cpu)}", f"memory {amounts.share(one.memory)}"]
    text = Text.assemble((f"{what}  ", "bold"), " · ".join(parts), no_wrap=True)
    if one.stop:
        text.append(f"  {one.stop}", "bold red")
    elif not one.is_healthy:
        text.append("  unhealthy", "bold red")
    return text


def trends(status: Status, width: int) -> Text:
    """Cost, pending pods and nodes over time, each on a line of its own."""
    cost, samples = status.cluster.cost, status.samples
    unknown = f", {cost.unpriced} nodes without a price" if cost.unpriced else ""
    spent = f", {amounts.money(cost.spent)} so far" if cost.spent else ""
    told = (
        (
            "cost",
            "blue",
            [one.cost_per_hour for one in samples],
            f"{amounts.money(cost.per_hour)}/h{spent}{unknown}",
        ),
        ("pending", "yellow", [one.pending for one in samples], f"{status.cluster.pending}"),
        ("nodes", "green", [one.nodes for one in samples], f"{status.cluster.nodes}"),
    )
    room = max(width - 10 - max(len(now) for *_, now in told), 10)
    text = Text(no_wrap=True)
    for name, colour, values, now in told:
        text.append(f"{name:>8} ", "dim").append(f"{bars.line(values, room):{room}}", colour).append(f" {now}\n")
    text.rstrip()
    return text


# ── Nodes by group ───────────────────────────────────────────────────────────────────────────────────────────────


def of_nodes(status: Status, sort: Sort, wanted: str) -> list[Row]:
    """Groups in their order, each with its nodes in the order that is asked for; those of no group last."""
    by_group: dict[str, list[Node]] = {}
    for node in status.nodes:
        by_group.setdefault(node.group, []).append(node)
    rows: list[Row] = []
    for group in status.groups:
        rows += _of_group(_tell_group(group), by_group.pop(group.id, []), status, sort, wanted)
    for name, nodes in sorted(by_group.items()):
        title = Row("group", name, Text(name or "of no group", "bold"))
        rows += _of_group(title, nodes, status, sort, wanted)
    return rows


def _of_group(title: Row, nodes: Sequence[Node], status: Status, sort: Sort, wanted: str) -> list[Row]:
    """The group with its nodes, as far as they are wanted: all of them if the group itself is."""
    chosen = nodes if _has(title.name, wanted) else [
        node for node in nodes if _has(f"{node.name} {node.state} {node.why}", wanted)]  # fmt: skip
    if wanted and not chosen and not _has(title.name, wanted):
        return []
    return [title, *(_tell_node(node, status.cluster.at_s) for node in sorted(chosen, key=_ORDERS[sort]))]


_ORDERS: dict[Sort, Callable[[Node], tuple[object, ...]]] = {
    "name": lambda node: (node.name,),
    "cpu": lambda node: (-node.cpu, node.name),
    "memory": lambda node: (-node.memory, node.name),
    "state": lambda node: (-list(State).index(node.state), node.name),
}


def _tell_group(group: Group) -> Row:
    counts = [f"{getattr(group, name)} {name}" for name in _COUNTS if getattr(group, name)]
    text = Text(f"{group.name}  ", "bold")
    text.append(f"size {group.target_size} of {group.min_size}–{group.max_size}", "not bold")
    text.append(f"  {', '.join(counts)}" if counts else "", "not bold dim")
    if group.cost_per_hour is not None:
        text.append(f"  {amounts.money(group.cost_per_hour)}/h", "not bold blue")
    if group.replicas_owner:
        text.append(f"  {group.replicas_owner}", "not bold red")
    if group.backoff is not None:
        text.append(f"  backs off until {_clock(group.backoff.until_s)}: {group.backoff.message}", "not bold red")
    elif not group.is_healthy:
        text.append("  unhealthy", "not bold red")
    return Row("group", group.id, text)


def _tell_node(node: Node, now_s: float) -> Row:
    mark, colour = _MARKS[node.state]
    since = f" {amounts.duration(max(now_s - node.since_s, 0.0))}" if node.since_s is not None else ""
    text = Text.assemble("  ", (mark, colour), f" {_cut(node.name, _NAME):{_NAME}} ")
    for name, share in (("cpu", node.cpu), ("mem", node.memory), ("gpu", node.gpu)):
        if share is not None:
            text.append(f"{name} ", "dim").append(bars.bar(share, _BAR), colour).append(f" {share:4.0%}  ")
    text.append(f"{node.pods:3} pods  ").append(f"{node.state}{since}", colour)
    text.append("  cordoned" if node.cordoned else "", "yellow").append(f"  {node.why}" if node.why else "", "dim")
    return Row("node", node.name, text)


# ── Pods and decisions ───────────────────────────────────────────────────────────────────────────────────────────


def of_pending(status: Status, wanted: str) -> list[Row]:
    return [_tell_pending(one, status.cluster.at_s) for one in status.pending if _has(f"{one.pod} {one.owner}", wanted)]


def _tell_pending(one: Pending, now_s: float) -> Row:
    many = f"{one.count}× " if one.count > 1 else ""
    waits = amounts.duration(max(now_s - one.since_s, 0.0)) if one.since_s else ""
    asks = ", ".join(f"{name} {amount}" for name, amount in quantities.spell_all(tuple(one.requests.items())).items())
    text = Text.assemble((f"{many}{one.pod}", "bold"), f"  {asks}  ", (f"{waits}  ", "dim"))
    text.append(" ".join(_tell_help(one)), "red" if one.help is Help.NOWHERE else "yellow")
    return Row("pod", one.pod, text)


def _tell_help(one: Pending) -> Iterator[str]:
    yield {
        Help.HELPED: f"{', '.join(one.groups)} grows for it",
        Help.ROOM: f"room on {_name_some(one.nodes) or 'a node to come'}",
        Help.LATER: "a group can help, later",
        Help.NOWHERE: "no group helps:",
        Help.WAITING: "nobody has come to it yet",
    }[one.help]
    if one.reasons:
        yield "; ".join(f"{reason.group.rpartition('/')[2]}: {', '.join(reason.texts)}" for reason in one.reasons)


def _name_some(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)


def of_decisions(status: Status, wanted: str) -> list[Row]:
    """The newest first."""
    return [
        _tell_decision(one) for one in reversed(status.decisions) if _has(f"{one.kind} {one.said} {one.why}", wanted)
    ]


def _tell_decision(one: Decided) -> Row:
    word, colour = _KINDS.get(one.kind, (one.kind, ""))
    text = Text.assemble(
        (_clock(one.at_s), "dim"), "  ", (f"{word:9}", colour), f"  {one.said}", (f"  {one.why}", "dim")
    )
    return Row("decision", str(one.number), text)


def describe_decision(status: Status, number: str) -> str:
    """A decision with all that is known of it."""
    for one in status.decisions:
        if str(one.number) == number:
            about = [
                f"{name}: {', '.join(found)}" for name, found in (("groups", one.groups), ("nodes", one.nodes)) if found
            ]
            return "\n\n".join([f"{_clock(one.at_s)}  {one.said}", *([one.why] if one.why else []), *about])
    return "It is too long ago: only the last decisions are kept."


def _has(text: str, wanted: str) -> bool:
    return wanted.lower() in text.lower()


def _clock(at_s: float) -> str:
    """Of the day, in UTC as logs have it."""
    return time.strftime("%H:%M:%S", time.gmtime(at_s))


def _cut(name: str, width: int) -> str:
    """The end of a name tells nodes apart."""
    return name if len(name) <= width else f"…{name[1 - width :]}"
