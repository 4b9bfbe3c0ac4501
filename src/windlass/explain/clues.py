"""Clues: what decided on a node, in words, where the scheduler's own reason leaves a person asking.

Which taint? Which label? Which pod is in the way? One function for each filter that has an answer.
"""

from collections.abc import Callable

from windlass.engine import dtypes, facts, questions, shapes, snapshot, verdict
from windlass.engine.predicates import config, interpod, node_affinity, ports, spread, taints
from windlass.explain import amounts

Clue = Callable[[snapshot.Snapshot, shapes.Shape, int], str]


def find(found: snapshot.Snapshot, shape: shapes.Shape, row: int, rule: str, reason: verdict.Reason) -> str:
    """What decided on the node of this row; empty where the reason says it all."""
    if isinstance(reason, verdict.Insufficient):
        return describe_shortage(reason)
    look = _CLUES.get(rule)
    return look(found, shape, row) if look else ""


def describe_shortage(reason: verdict.Insufficient) -> str:
    needed = amounts.shorten(reason.resource, reason.requested, up=True)
    free = amounts.shorten(reason.resource, reason.capacity - reason.used)
    return f"needs {needed}, {free} of {amounts.shorten(reason.resource, reason.capacity)} free"


def name_taint(found: snapshot.Snapshot, shape: shapes.Shape, row: int) -> str:
    """The first taint of the node that the pod does not tolerate, as kubectl writes taints."""
    for taint in found.nodes.facts[row].taints:
        repels = taint.effect != "PreferNoSchedule"
        if repels and not any(toleration.tolerates(taint) for toleration in shape.spec.tolerations):
            return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
    return ""


def compare_labels(found: snapshot.Snapshot, shape: shapes.Shape, row: int) -> str:
    """What the node has instead of what the pod's nodeSelector asks for."""
    labels = found.nodes.facts[row].labels
    for key, value in shape.spec.node_selector:
        if labels.get(key) != value:
            return f"it has {key}={labels[key]}, not {value}" if key in labels else f"it has no {key}, not {value}"
    return ""


def count_skew(found: snapshot.Snapshot, shape: shapes.Shape, row: int) -> str:
    """How many matching pods the node's domain has, and how many the emptiest."""
    for spreading in spread.spreadings(found, shape, config.DEFAULT):
        domain, key = int(spreading.domains[row]), spreading.constraint.topology_key
        if domain == dtypes.ABSENT:
            return f"it has no {key}"
        if not spreading.open_domains()[domain]:
            value = found.nodes.label_column(key).values[domain]
            here, least = int(spreading.per_domain[domain]), spreading.emptiest
            return f"{_last(key)} {value} has {here}, the emptiest has {least}"
    return ""


def name_rival(found: snapshot.Snapshot, shape: shapes.Shape, row: int) -> str:
    """A pod that must not be near: one that the pod avoids, or one that avoids the pod."""
    for term in shape.spec.anti_affinity:
        counts = found.counts(questions.MatchesAll((term,)))
        near = _nearest(found, term.topology_key, counts, row)
        if near is not None:
            return _name_pod(found, near, lambda other, term=term: _matches(found, other, term))  # type: ignore[misc]
    for term, tally in found.tallies.repelling(shape):
        near = _nearest(found, term.topology_key, found.tallies.counts(tally, found.nodes.count), row)
        if near is not None:
            return _name_pod(found, near, lambda other, term=term: term in other.spec.anti_affinity)  # type: ignore[misc]
    return ""


def name_holder(found: snapshot.Snapshot, shape: shapes.Shape, row: int) -> str:
    """The pod that holds a host port that this one wants."""
    wanted = {(port.protocol, port.port) for port in shape.spec.host_ports}
    for pod_row in found.pods_on(row):
        for port in found.shape_of_row(pod_row).spec.host_ports:
            if (port.protocol, port.port) in wanted:
                return f"{found.pod(pod_row).key} holds {port.port}/{port.protocol}"
    return ""


def _nearest(found: snapshot.Snapshot, key: str, counts: dtypes.Counts, row: int) -> int | None:
    """A node of this one's domain on which something is counted."""
    domains = found.nodes.label_ids(key)
    if domains[row] == dtypes.ABSENT:
        return None
    near = ((domains == domains[row]) & (counts > 0) & found.nodes.alive).nonzero()[0]
    return int(near[0]) if len(near) else None


def _name_pod(found: snapshot.Snapshot, row: int, is_rival: Callable[[shapes.Shape], bool]) -> str:
    for pod_row in found.pods_on(row):
        if is_rival(found.shape_of_row(pod_row)):
            return f"{found.pod(pod_row).key} is on {found.nodes.names[row]}"
    return ""


def _matches(found: snapshot.Snapshot, other: shapes.Shape, term: facts.PodAffinityTerm) -> bool:
    return questions.own_term_matches(term, other.profile, found.tallies.namespaces)


def _last(key: str) -> str:
    """`zone` of `topology.kubernetes.io/zone`."""
    return key.rsplit("/", 1)[-1]


_CLUES: dict[str, Clue] = {
    taints.NAME: name_taint,
    node_affinity.NAME: compare_labels,
    spread.NAME: count_skew,
    interpod.NAME: name_rival,
    ports.NAME: name_holder,
}
