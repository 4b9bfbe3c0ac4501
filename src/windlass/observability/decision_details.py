"""Decision details: the expander's options, the pods, the refusals of groups, the nodes, and what followed.

A detail is made with its entry of the decision log, while the snapshot is unchanged since the decision. Every list has
an upper limit, and `left_out` counts what is beyond it, so the size of a detail is bounded.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from windlass.engine.drain_loop import DrainLoopResult
from windlass.engine.model import cluster_health, plan
from windlass.engine.model.drains import DrainPhase
from windlass.engine.model.scale_up_status import PodEquivalenceGroup, ScaleUpProposal
from windlass.explain import explain_context
from windlass.explain.decision_view import DecisionView
from windlass.observability.status_model import (
    DecisionDetail,
    NodeDetail,
    OptionDetail,
    PodSetDetail,
    RefusalDetail,
)

MAX_OPTIONS = 20
MAX_POD_SETS = 20
MAX_REFUSALS = 30
MAX_NODES = 20
MAX_OUTCOMES = 20
"""Maximum of each in one detail."""

MAX_TEXT = 240
"""Maximum length of a text in a detail."""

_MAX_PODS_OF_NODE = 5
_MAX_AWAITED = 32
"""Maximum of scale-ups per group whose nodes are awaited: the oldest is given up first."""

T = TypeVar("T")


def describe_scale_up(proposal: ScaleUpProposal) -> DecisionDetail:
    """The detail of one round that grows groups."""
    helped = frozenset(proposal.helped)
    sizes = tuple((grown.group.id, grown.group.size, grown.new_size) for grown in proposal.increases)
    choice = explain_context.explain_choice(proposal)
    left_out = dict[str, int]()
    options = () if choice is None else tuple(_describe_options(choice))
    pods = sorted(_describe_pods(proposal.considered, helped), key=lambda pods: (not pods.is_helped, -pods.count))
    return DecisionDetail(
        sizes,
        _limit("options", options, MAX_OPTIONS, left_out),
        () if choice is None else tuple(step.expander for step in choice.steps),
        "" if choice is None else _cut(choice.opinion),
        _limit("pods", pods, MAX_POD_SETS, left_out),
        _limit("refusals", _describe_refusals(proposal, proposal.considered), MAX_REFUSALS, left_out),
        left_out=left_out,
    )


def describe_waiting(proposal: ScaleUpProposal) -> DecisionDetail:
    """The detail of pods that no group fits."""
    left_out = dict[str, int]()
    pods = sorted(_describe_pods(proposal.remaining, frozenset()), key=lambda pods: -pods.count)
    refusals = _describe_refusals(proposal, proposal.remaining)
    return DecisionDetail(
        pods=_limit("pods", pods, MAX_POD_SETS, left_out),
        refusals=_limit("refusals", refusals, MAX_REFUSALS, left_out),
        left_out=left_out,
    )


def describe_removals(view: DecisionView, drains: Sequence[plan.Drain]) -> DecisionDetail:
    """The detail of nodes of one group that are removed."""
    left_out = dict[str, int]()
    nodes = [_describe_node(view, drain) for drain in drains[:MAX_NODES]]
    if len(drains) > MAX_NODES:
        left_out["nodes"] = len(drains) - MAX_NODES
    return DecisionDetail(nodes=tuple(nodes), left_out=left_out)


def find_namespaces(detail: DecisionDetail) -> tuple[str, ...]:
    """Namespaces of the pods in a detail, each once."""
    pods = [pod_set.pod for pod_set in detail.pods] + [pod for node in detail.nodes for pod in node.pods]
    return tuple(sorted({pod.partition("/")[0] for pod in pods}))


def _describe_options(choice: explain_context.ChoiceExplanation) -> Iterator[OptionDetail]:
    """The chosen option first."""
    for option in sorted(choice.options, key=lambda option: (option.group != choice.winner, option.group)):
        dropped_by = next((step.expander for step in choice.steps if option.group not in step.kept), "")
        is_chosen = option.group == choice.winner
        yield OptionDetail(
            option.group,
            option.nodes,
            option.pods,
            round(option.waste, 3),
            option.price_per_hour,
            "" if is_chosen else dropped_by,
            is_chosen,
        )


def _describe_pods(sets: Sequence[PodEquivalenceGroup], helped: frozenset[int]) -> Iterator[PodSetDetail]:
    """Pods of one set may be helped in part: they are listed apart then."""
    for pod_set in sets:
        count = sum(row in helped for row in pod_set.rows)
        name, requests = f"{pod_set.pod.namespace}/{pod_set.pod.name}", dict(pod_set.pod.spec.requests)
        if count:
            yield PodSetDetail(name, count, requests)
        if len(pod_set.rows) > count:
            yield PodSetDetail(name, len(pod_set.rows) - count, requests, is_helped=False)


def _describe_refusals(proposal: ScaleUpProposal, sets: Sequence[PodEquivalenceGroup]) -> list[RefusalDetail]:
    """By group, the reason of most pods first."""
    counted: Counter[tuple[str, str]] = Counter()
    for pod_set in sets:
        for group, reasons in (*pod_set.rejected.items(), *proposal.skipped_for(pod_set).items()):
            for reason in reasons:
                counted[group, _cut(str(reason))] += len(pod_set.rows)
    ordered = sorted(counted.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    return [RefusalDetail(group, reason, pods) for (group, reason), pods in ordered]


def _describe_node(view: DecisionView, drain: plan.Drain) -> NodeDetail:
    evaluation = view.evaluation
    used = None if evaluation is None else evaluation.eligibility.utilization_of(drain.node)
    since_s = None if evaluation is None else evaluation.state.since.get(drain.node)
    return NodeDetail(
        drain.node,
        None if used is None else round(used.utilization, 3),
        "" if used is None else str(used.resource),
        None if since_s is None else round(view.record.at_s - since_s, 1),
        len(drain.evict),
        drain.evict[:_MAX_PODS_OF_NODE],
    )


def _limit(name: str, items: Sequence[T], most: int, left_out: dict[str, int]) -> tuple[T, ...]:
    if len(items) > most:
        left_out[name] = len(items) - most
    return tuple(items[:most])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


# ── What followed ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _AwaitedNodes:
    """Nodes of one scale-up that are not ready yet."""

    number: int
    missing: int


@dataclass(slots=True)
class _GroupArrivals:
    """Scale-ups of one group, oldest first, and the nodes that were ready before."""

    ready: frozenset[str]
    awaited: deque[_AwaitedNodes] = field(default_factory=lambda: deque(maxlen=_MAX_AWAITED))


class OutcomeTracker:
    """Follows decisions: nodes that became ready, requests that failed, nodes that are gone or stay.

    Nodes that become ready count for the oldest scale-up of their group that still misses some.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _GroupArrivals] = {}
        self._leaving: dict[str, int] = {}

    def follow_scale_up(self, number: int, proposal: ScaleUpProposal, view: DecisionView) -> None:
        """Await the nodes of a scale-up. `number`: of its entry."""
        for grown in proposal.increases:
            group = view.groups.get(grown.group.id)
            ready = frozenset[str]() if group is None else frozenset(group.readiness.ready)
            arrivals = self._groups.setdefault(grown.group.id, _GroupArrivals(ready))
            arrivals.awaited.append(_AwaitedNodes(number, grown.added))

    def follow_removals(self, number: int, drains: Sequence[plan.Drain]) -> None:
        """Await the end of nodes. `number`: of their entry."""
        self._leaving |= {drain.node: number for drain in drains}

    def observe(self, view: DecisionView) -> Iterator[tuple[int, str, bool]]:
        """Yield (number of the entry, what followed, whether it is bad) since the last decision."""
        for failure in view.record.health.failures:
            yield from self._observe_failure(failure)
        for id in list(self._groups):
            yield from self._observe_group(id, view)
        ended: dict[tuple[int, bool], list[str]] = {}
        for name in [name for name in self._leaving if name not in view.drains]:
            is_there = name in view.observation.snapshot.nodes.rows
            ended.setdefault((self._leaving.pop(name), is_there), []).append(name)
        for (number, is_there), names in ended.items():
            yield number, f"{_list(names)} {'stays: its removal ended' if is_there else 'gone'}", is_there

    def observe_drains(self, advanced: DrainLoopResult) -> Iterator[tuple[int, str, bool]]:
        """As `observe`, of drains that were rolled back."""
        for drain in advanced.story:
            if drain.phase is DrainPhase.ROLLED_BACK and drain.node in self._leaving:
                why = str(drain.failure.why) if drain.failure is not None else "the node is needed again"
                yield self._leaving.pop(drain.node), _cut(f"{drain.node} stays: {why}"), True

    def _observe_failure(self, failure: cluster_health.ScaleUpFailure) -> Iterator[tuple[int, str, bool]]:
        arrivals = self._groups.get(failure.group)
        if arrivals is not None and arrivals.awaited:
            number = arrivals.awaited[0].number
            self._take(arrivals, failure.nodes)
            what = "nodes" if failure.nodes != 1 else "node"
            yield number, _cut(f"{failure.nodes} {what} of {_short(failure.group)} failed: {failure.error.said}"), True

    def _observe_group(self, id: str, view: DecisionView) -> Iterator[tuple[int, str, bool]]:
        group, arrivals = view.groups.get(id), self._groups[id]
        if group is None:
            self._groups.pop(id)
            for awaited in arrivals.awaited:
                yield awaited.number, f"{_short(id)} is no longer a node group", True
            return
        if group.health is None:  # the loop ended before health was assessed
            return
        ready = frozenset(group.readiness.ready)
        came = sorted(ready - arrivals.ready)
        arrivals.ready = ready
        while came and arrivals.awaited:
            first = arrivals.awaited[0]
            taken, came = came[: first.missing], came[first.missing :]
            self._take(arrivals, len(taken))
            yield first.number, f"{_list(taken)} ready", False
        if not arrivals.awaited:
            self._groups.pop(id)

    def _take(self, arrivals: _GroupArrivals, nodes: int) -> None:
        while nodes > 0 and arrivals.awaited:
            first = arrivals.awaited[0]
            taken = min(first.missing, nodes)
            first.missing -= taken
            nodes -= taken
            if not first.missing:
                arrivals.awaited.popleft()


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} nodes ({names[0]} …)"


def _short(group: str) -> str:
    return group.rpartition("/")[2]
