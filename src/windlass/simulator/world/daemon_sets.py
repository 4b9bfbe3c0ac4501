"""DaemonSets: one pod for every node that will have it, pinned to its node and placed there by the scheduler."""

from typing import Any

from windlass.simulator.scheduler import affinity, taints
from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pulse import Pulse
from windlass.simulator.world.stamps import Stamps

Json = dict[str, Any]

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
TOLERATIONS: tuple[Json, ...] = tuple(
    {"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED
)
"""What the controller adds to every daemon pod."""


class DaemonSets:
    """The DaemonSet controller."""

    hears = (kinds.DAEMON_SETS, kinds.NODES, kinds.PODS)

    def __init__(self, pulse: Pulse) -> None:
        self._api = pulse.api
        self._stamps = Stamps(pulse.api)
        self._pods = Owned("DaemonSet", kinds.PODS)
        self._seats: dict[tuple[str, str], str] = {}
        """Pod keys by the set's uid and the node's name."""
        self._due: dict[tuple[str, str], None] = {}
        """Sets and nodes to look at, by key and name."""

    def react(self, change: Change) -> None:
        match change.kind:
            case kinds.NODES:
                if _is_other(change.now, change.before):
                    self._due.update(((key, change.key), None) for key in self._api.all(kinds.DAEMON_SETS))
            case kinds.DAEMON_SETS:
                if change.now is None:
                    self._stamps.forget(change.obj["metadata"]["uid"])
                elif change.before is None:
                    self._due.update(((change.key, name), None) for name in self._api.all(kinds.NODES))
            case kinds.PODS:
                self._hear_pod(change)

    def _hear_pod(self, change: Change) -> None:
        key = self._pods.hear(change)
        owner = edit.controller_of(change.obj)
        if key is None or owner is None:
            return
        node = pinned_to(change.obj)
        if change.now is None and self._seats.get((owner["uid"], node)) == change.key:
            del self._seats[owner["uid"], node]
            self._due[key, node] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key, name in due:
            found, node = self._api.find(kinds.DAEMON_SETS, key), self._api.find(kinds.NODES, name)
            if found is not None and node is not None and not edit.is_deleting(found):
                self._reconcile(found, node)
        return bool(due)

    def _reconcile(self, found: Json, node: Json) -> None:
        seat = (found["metadata"]["uid"], node["metadata"]["name"])
        if seat in self._seats or not runs_on(found, node):
            return
        pod = self._stamps.make(found)
        spec = {
            **pod["spec"],
            "affinity": pin(seat[1]),
            "tolerations": [*(pod["spec"].get("tolerations") or ()), *TOLERATIONS],
        }
        self._seats[seat] = edit.key_of(self._api.create(kinds.PODS, {**pod, "spec": spec}))


def pin(node: str) -> Json:
    """The affinity of a daemon pod: this node, by name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def pinned_to(pod: Json) -> str:
    """The one node that a pod's affinity names, and nothing else; empty for all other pods."""
    terms: list[Json] = (affinity.required_of(pod) or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: list[Json] = terms[0].get("matchFields") or []
    if len(fields) != 1 or fields[0]["operator"] != "In" or len(fields[0]["values"]) != 1:
        return ""
    return str(fields[0]["values"][0])


def _is_other(now: Json | None, before: Json | None) -> bool:
    """Might another answer come out than for the node as it was?"""
    if now is None:
        return False
    if before is None:
        return True
    return bool(
        now["spec"].get("taints") != before["spec"].get("taints")
        or now["metadata"].get("labels") != before["metadata"].get("labels")
    )


def runs_on(found: Json, node: Json) -> bool:
    """Does a DaemonSet want a pod on a node?"""
    template = found["spec"]["template"]
    tolerations = [*(template["spec"].get("tolerations") or ()), *TOLERATIONS]
    hard = [taint for taint in node["spec"].get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    # A node that is not ready yet gets its daemons all the same: they may be what makes it ready.
    waited_for = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    lasting = [taint for taint in hard if taint["key"] not in waited_for]
    if not all(taints.is_tolerated(taint, tolerations) for taint in lasting):
        return False
    return affinity.matches({"spec": template["spec"]}, node)
