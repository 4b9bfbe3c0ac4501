"""Debugging snapshot (/snapshotz): the complete input and result of one loop as JSON, with Cluster Autoscaler's
keys.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
from aiohttp import web

from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.scale_up import pending_pods
from windlass.explain.decision_view import DecisionView
from windlass.kube import time_formats

_SNAPSHOT_TIMEOUT_S = 60.0
"""Request timeout: several loops of the default interval."""


class DebuggingSnapshotter:
    """Passes the snapshot of the next loop to one requester at a time. Without a running loop, the request times
    out.
    """

    def __init__(self, is_leading: Callable[[], bool] = lambda: True, within_s: float = _SNAPSHOT_TIMEOUT_S) -> None:
        self._is_leading, self._within_s = is_leading, within_s
        self._asked: asyncio.Future[bytes] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether a request is pending. Snapshots cost time, so loops make them on request only."""
        return self._asked is not None and not self._asked.done()

    def offer(self, snapshot: bytes) -> None:
        """Store the snapshot of the loop that just ended, as JSON."""
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(snapshot)

    def close(self) -> None:
        """Answer pending requests with an error."""
        if self._asked is not None:
            self._asked.cancel()

    async def handle(self, _: web.Request) -> web.Response:
        if self._asked is not None:
            text = "Another debugging snapshot request is being processed. Concurrent requests not supported"
            return web.Response(status=429, text=text)
        if not self._is_leading():
            return web.Response(status=503, text="this replica does not lead, so no loop runs here; ask the leader\n")
        self._asked = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((self._asked,), timeout=self._within_s)
            if not self._asked.done():
                return web.Response(status=503, text=f"no loop ended within {self._within_s:g} s\n")
            if self._asked.cancelled():
                return web.Response(status=503, text="the autoscaler ends\n")
            return web.Response(body=self._asked.result(), content_type="application/json")
        finally:
            self._asked = None


Json = dict[str, Any]


class SnapshotRequester(Protocol):
    """Source of snapshot requests."""

    @property
    def is_wanted(self) -> bool:
        """Whether a request is pending. Snapshots cost time."""

    def offer(self, snapshot: bytes) -> None:
        """Answer with the snapshot of a loop, as JSON."""


def encode_snapshot(document: Json) -> bytes:
    return msgspec.json.encode(document)


def build_snapshot(view: DecisionView, settings: Settings, began_s: float, ended_s: float) -> Json:
    """Build the document. The snapshot must be unchanged since the decision."""
    snapshot, table = view.observation.snapshot, view.observation.snapshot.nodes
    rows = [row for row, alive in enumerate(table.alive.tolist()) if alive]
    nodes = [
        {
            "Node": _node_document(table.facts[row]),
            "Pods": [_pod_document(snapshot.pod(pod)) for pod in snapshot.pods_on(row)],
        }
        for row in rows
    ]
    return {
        "NodeList": nodes,
        "UnscheduledPodsCanBeScheduled": [_pod_document(snapshot.pod(row)) for row in _placeable_rows(view, settings)],
        "StartTimestamp": time_formats.format_micro_time(began_s),
        "EndTimestamp": time_formats.format_micro_time(ended_s),
        "TemplateNodes": dict(_template_nodes(view)),
    }


def build_failure_snapshot(error: str, began_s: float, ended_s: float) -> Json:
    """Build the document of a failed loop."""
    return {
        "NodeList": None,
        "UnscheduledPodsCanBeScheduled": None,
        "Error": error,
        "StartTimestamp": time_formats.format_micro_time(began_s),
        "EndTimestamp": time_formats.format_micro_time(ended_s),
        "TemplateNodes": None,
    }


def _placeable_rows(view: DecisionView, settings: Settings) -> list[int]:
    """Return pending pods that fit on an existing or upcoming node; none without a scale-up."""
    pending = pending_pods.sort_pending(view.observation.snapshot, settings)
    considered = {row for proposal in view.record.scale_ups for pods in proposal.considered for row in pods.rows}
    unschedulable = considered | view.pods.keys()
    return [row for row in (*pending.unschedulable, *pending.unprocessed) if row not in unschedulable]


def _template_nodes(view: DecisionView) -> Iterator[tuple[str, Json]]:
    templates = view.decision.memory.volatile.templates
    for group in view.observation.groups:
        if group.id in templates:
            template = templates[group.id]
            pods = [_pod_document(pod) for pod in template.pods]
            yield group.id, {"Node": _node_document(template.node), "Pods": pods}
        elif group.template is not None:
            yield group.id, {"Node": _node_document(group.template), "Pods": []}


# ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _node_document(node: facts.Node) -> Json:
    return {
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "labels": dict(node.labels),
            "annotations": dict(node.annotations),
            "creationTimestamp": time_formats.format_time(node.created_s),
        },
        "spec": {
            "providerID": node.provider_id,
            "unschedulable": node.unschedulable,
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
        },
        "status": {
            "capacity": _format_amounts(node.capacity),
            "allocatable": _format_amounts(node.allocatable),
            "conditions": [
                {
                    "type": condition.type,
                    "status": condition.status,
                    "reason": condition.reason,
                    "lastTransitionTime": time_formats.format_time(condition.since_s),
                }
                for condition in node.conditions
            ],
        },
    }


def _pod_document(pod: facts.Pod) -> Json:
    metadata: Json = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "labels": dict(pod.labels),
        "annotations": dict(pod.annotations),
        "creationTimestamp": time_formats.format_time(pod.created_s),
    }
    if pod.deleted_s is not None:
        metadata["deletionTimestamp"] = time_formats.format_time(pod.deleted_s)
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
            "containers": [{"name": "all", "resources": {"requests": _format_amounts(pod.spec.requests)}}],
        },
        "status": {"phase": pod.phase, "nominatedNodeName": pod.nominated_node},
    }


def _format_amounts(resources: facts.Resources) -> dict[str, str]:
    """Format quantities; the sum of a pod's requests is shown as one container's."""
    return {name: f"{amount}m" if name == facts.CPU else str(amount) for name, amount in resources}
