"""What becomes of nodes that go silent: unknown after a while, tainted, their pods sent away, gone with the machine.

The parts of kube-controller-manager and of a cloud's controller manager that do this, with their default times.
"""

import functools
from typing import Any

from windlass.simulator.scheduler import taints
from windlass.simulator.world import cloud, edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.lodgers import Lodgers
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

SILENT_S = 50.0
"""How long a node may be silent before it counts as unknown."""
FORGOTTEN_S = 10.0
"""How soon after that a node without a machine is removed."""
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_EFFECTS = ("NoSchedule", "NoExecute")


class NodeLifecycle:
    """Taints by condition, evictions by taint, and the collection of pods whose node is gone."""

    hears = (kinds.NODES, kinds.PODS)

    def __init__(self, pulse: Pulse, cloud_: cloud.Cloud) -> None:
        self._pulse, self._api = pulse, pulse.api
        self._pods = Lodgers()
        self._due: dict[str, None] = {}
        cloud_.tell(self)

    # ── Machines ─────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_came(self, instance: cloud.Instance) -> None:
        """There is no node yet."""

    def instance_up(self, instance: cloud.Instance) -> None:
        """The kubelet speaks for itself."""

    def instance_down(self, instance: cloud.Instance) -> None:
        self._pulse.later(SILENT_S, lambda: self._doubt(instance))

    def instance_gone(self, instance: cloud.Instance) -> None:
        if not instance.is_ended_on_purpose:
            self._pulse.later(SILENT_S + FORGOTTEN_S, lambda: self._api.remove(kinds.NODES, instance.name))

    def _doubt(self, instance: cloud.Instance) -> None:
        node = self._api.find(kinds.NODES, instance.name)
        if node is None or instance.state == cloud.UP:
            return
        unknown: Json = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        conditions = edit.with_conditions(node, [unknown], self._api.now())
        self._api.update(kinds.NODES, edit.with_part(node, "status", conditions=conditions))

    # ── Nodes and pods ───────────────────────────────────────────────────────────────────────────────────────────

    def react(self, change: Change) -> None:
        if change.kind == kinds.NODES:
            self._due[change.key] = None
            return
        node = edit.node_of(change.obj)
        if change.now is None:
            self._pods.drop(node, change.key)
        elif node and (change.before is None or not edit.node_of(change.before)):
            self._pods.put(node, change.key)
            if self._api.find(kinds.NODES, node) is None:
                self._due[node] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for name in due:
            node = self._api.find(kinds.NODES, name)
            if node is None:
                for key in self._pods.on(name):
                    self._api.remove(kinds.PODS, key)
            else:
                self._taint(node)
        return bool(due)

    def _taint(self, node: Json) -> None:
        """The node's taints say what its condition says."""
        ready = edit.condition_of(node, "Ready")
        status = ready["status"] if ready else "Unknown"
        key = {"True": "", "False": NOT_READY}.get(status, UNREACHABLE)
        before = node["spec"].get("taints") or []
        wanted = [{"key": key, "effect": effect} for effect in _EFFECTS] if key else []
        ours = [taint for taint in before if taint["key"] in (NOT_READY, UNREACHABLE)]
        if ours == wanted:
            return
        others = [taint for taint in before if taint not in ours]
        self._api.update(kinds.NODES, edit.with_part(node, "spec", taints=[*others, *wanted]))
        if key:
            self._send_away(node["metadata"]["name"], {"key": key, "effect": "NoExecute"})

    def _send_away(self, name: str, taint: Json) -> None:
        """Each pod stays as long as it tolerates the taint."""
        for key in self._pods.on(name):
            pod = self._api.find(kinds.PODS, key)
            if pod is None:
                continue
            matching = [one for one in taints.tolerations_of(pod) if taints.is_tolerated(taint, [one])]
            waits = [one["tolerationSeconds"] for one in matching if "tolerationSeconds" in one]
            if matching and len(waits) < len(matching):
                continue
            uid = pod["metadata"]["uid"]
            self._pulse.later(min(waits, default=0), functools.partial(self._evict, key, uid, name, taint))

    def _evict(self, key: str, uid: str, name: str, taint: Json) -> None:
        pod, node = self._api.find(kinds.PODS, key), self._api.find(kinds.NODES, name)
        if pod is None or node is None or pod["metadata"]["uid"] != uid or edit.is_finished(pod):
            return
        if any(one["key"] == taint["key"] and one["effect"] == "NoExecute" for one in node["spec"].get("taints") or ()):
            self._api.delete_pod(pod)
