"""/snapshotz: what a loop saw, whole, for whoever looks for a fault. Keys are the peer's; objects are as narrow as
decisions see them.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from windlass.engine import decide, facts
from windlass.engine.observation import Observation
from windlass.engine.scale_up import pending
from windlass.engine.scale_up.proposing import Proposal
from windlass.engine.settings import Settings
from windlass.kube import times

Json = dict[str, Any]


class Audience(Protocol):
    """Whoever may ask for a snapshot."""

    @property
    def is_wanted(self) -> bool:
        """Does somebody wait for one? Making it costs time."""

    def offer(self, snapshot: bytes) -> None:
        """What a loop saw, as JSON."""


def spell(document: Json) -> bytes:
    return msgspec.json.encode(document)


def describe(seen: Observation, decision: decide.Decision, settings: Settings, began_s: float, ended_s: float) -> Json:
    """The document. The snapshot must still be as it was decided on."""
    snapshot, table = seen.snapshot, seen.snapshot.nodes
    rows = [row for row, alive in enumerate(table.alive.tolist()) if alive]
    nodes = [
        {"Node": _node(table.facts[row]), "Pods": [_pod(snapshot.pod(pod)) for pod in snapshot.pods_on(row)]}
        for row in rows
    ]
    return {
        "NodeList": nodes,
        "UnscheduledPodsCanBeScheduled": [_pod(snapshot.pod(row)) for row in _find_placed(seen, decision, settings)],
        "StartTimestamp": times.spell_micro(began_s),
        "EndTimestamp": times.spell_micro(ended_s),
        "TemplateNodes": dict(_templates(seen, decision)),
    }


def describe_failure(error: str, began_s: float, ended_s: float) -> Json:
    """The document of a loop that failed."""
    return {
        "NodeList": None,
        "UnscheduledPodsCanBeScheduled": None,
        "Error": error,
        "StartTimestamp": times.spell_micro(began_s),
        "EndTimestamp": times.spell_micro(ended_s),
        "TemplateNodes": None,
    }


def _find_placed(seen: Observation, decision: decide.Decision, settings: Settings) -> list[int]:
    """Pods that wait although there is room for them, now or soon. Where nobody was helped, nobody knows."""
    waiting = pending.arrange(seen.snapshot, settings)
    helpless = {row for proposal in decision.story.scale_ups for row in _rows(proposal)}
    return [row for row in (*waiting.unschedulable, *waiting.unprocessed) if row not in helpless]


def _rows(proposal: Proposal) -> Iterator[int]:
    yield from (row for alike in (*proposal.remaining, *proposal.considered) for row in alike.rows)
    yield from proposal.helped
    yield from proposal.awaiting


def _templates(seen: Observation, decision: decide.Decision) -> Iterator[tuple[str, Json]]:
    made = decision.memory.volatile.templates
    for group in seen.groups:
        if group.id in made:
            yield group.id, {"Node": _node(made[group.id].node), "Pods": [_pod(pod) for pod in made[group.id].pods]}
        elif group.template is not None:
            yield group.id, {"Node": _node(group.template), "Pods": []}


# ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _node(node: facts.Node) -> Json:
    return {
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "labels": dict(node.labels),
            "annotations": dict(node.annotations),
            "creationTimestamp": times.spell(node.created_s),
        },
        "spec": {
            "providerID": node.provider_id,
            "unschedulable": node.unschedulable,
            "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        },
        "status": {
            "capacity": _amounts(node.capacity),
            "allocatable": _amounts(node.allocatable),
            "conditions": [
                {
                    "type": one.type,
                    "status": one.status,
                    "reason": one.reason,
                    "lastTransitionTime": times.spell(one.since_s),
                }
                for one in node.conditions
            ],
        },
    }


def _pod(pod: facts.Pod) -> Json:
    metadata: Json = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "labels": dict(pod.labels),
        "annotations": dict(pod.annotations),
        "creationTimestamp": times.spell(pod.created_s),
    }
    if pod.deleted_s is not None:
        metadata["deletionTimestamp"] = times.spell(pod.deleted_s)
    if pod.owner is not None:
        owner = pod.owner
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ]
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": pod.node_name,
            "schedulerName": pod.scheduler,
            "priority": pod.spec.priority,
            "containers": [{"name": "all", "resources": {"requests": _amounts(pod.spec.requests)}}],
        },
        "status": {"phase": pod.phase, "nominatedNodeName": pod.nominated_node},
    }


def _amounts(resources: facts.Resources) -> dict[str, str]:
    """Quantities; what a pod's containers request together stands as one container's."""
    return {name: f"{amount}m" if name == facts.CPU else str(amount) for name, amount in resources}
