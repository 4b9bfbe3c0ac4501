"""Kubelets: they bring their node, start the pods that are bound to it, and end them with grace.

How long a pod of a workload takes to start, to run and to stop stands in annotations of the pod.
"""

import functools
from collections.abc import Callable
from typing import Any

from windlass.simulator.world import cloud, edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.chance import Delay, Dice
from windlass.simulator.world.lodgers import Lodgers
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

PREFIX = "simulator.windlass.dev/"
START, RUN, STOP = PREFIX + "start", PREFIX + "run", PREFIX + "stop"
_STARTING = Delay(2.0)
_STOPPING = Delay(1.0)


def spell_delay(delay: Delay) -> str:
    return f"{delay.median_s:g} {delay.spread:g} {delay.least_s:g}"


@functools.lru_cache(maxsize=4096)
def read_delay(text: str) -> Delay:
    median_s, spread, least_s = map(float, text.split())
    return Delay(median_s, spread, least_s)


def delay_of(pod: Json, name: str) -> Delay | None:
    text = (pod["metadata"].get("annotations") or {}).get(name)
    return read_delay(text) if text else None


class Kubelets:
    """All kubelets."""

    hears = (kinds.PODS, kinds.NODES)

    def __init__(self, pulse: Pulse, cloud_: cloud.Cloud, dice: Dice) -> None:
        self._pulse, self._api = pulse, pulse.api
        self._chance = dice.for_part("kubelets")
        self._instances: dict[str, cloud.Instance] = {}
        """By node name, as long as the machine is there."""
        self._pods = Lodgers()
        self._frozen: dict[str, list[Callable[[], None]]] = {}
        """What a kubelet will do once its machine is back."""
        self._unsettled: set[str] = set()
        self._cloud = cloud_
        cloud_.tell(self)

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_came(self, instance: cloud.Instance) -> None:
        """Nothing runs yet."""

    def instance_up(self, instance: cloud.Instance) -> None:
        name = instance.name
        self._instances[name] = instance
        node = self._api.find(kinds.NODES, name)
        if node is not None:
            self._report(name)
            for act in self._frozen.pop(name, ()):
                act()
            return
        self._register(instance)
        never = self._chance.random() < instance.group.unready_rate
        if self._cloud.is_founding:
            self._report(name)
        elif not never:
            self._unsettled.add(name)
            self._pulse.later(instance.group.settle.draw(self._chance), lambda: self._settle(name))

    def _settle(self, name: str) -> None:
        self._unsettled.discard(name)
        self._when_up(name, lambda: self._report(name))

    def instance_down(self, instance: cloud.Instance) -> None:
        """It is silent; the rest is for the node's lifecycle."""

    def instance_gone(self, instance: cloud.Instance) -> None:
        self._instances.pop(instance.name, None)
        self._frozen.pop(instance.name, None)

    def _register(self, instance: cloud.Instance) -> None:
        group, name = instance.group, instance.name
        not_ready = [{"key": "node.kubernetes.io/not-ready", "effect": effect} for effect in _EFFECTS]
        self._api.create(
            kinds.NODES,
            {
                "metadata": {
                    "name": name,
                    "labels": group.node_labels(name),
                    "annotations": {
                        "cluster.x-k8s.io/machine": instance.machine.partition("/")[2],
                        "cluster.x-k8s.io/cluster-namespace": instance.machine.partition("/")[0],
                    },
                },
                "spec": {"providerID": instance.provider_id, "taints": [*group.taints, *not_ready]},
                "status": {
                    "capacity": group.capacity,
                    "allocatable": group.allocatable,
                    "conditions": _conditions(False, self._api.now()),
                    "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.3"},
                },
            },
        )

    def _report(self, name: str) -> None:
        """The kubelet says that its node is ready."""
        node = self._api.find(kinds.NODES, name)
        if node is not None and name not in self._unsettled and not edit.is_ready(node):
            conditions = edit.with_conditions(node, _conditions(True, ""), self._api.now())
            self._api.update(kinds.NODES, edit.with_part(node, "status", conditions=conditions))

    # ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def react(self, change: Change) -> None:
        if change.kind == kinds.NODES:
            if change.now is not None and change.before is not None:
                self._follow(change.key, change.before, change.now)
            return
        before, now = change.before, change.now
        if now is None:
            self._pods.drop(edit.node_of(change.obj), change.key)
            return
        node = edit.node_of(now)
        if not node:
            return
        uid = now["metadata"]["uid"]
        if before is None or not edit.node_of(before):
            self._pods.put(node, change.key)
            start = delay_of(now, START) or _STARTING
            start_s = 0.0 if self._cloud.is_founding else start.draw(self._chance)
            self._pulse.later(start_s, lambda: self._when_up(node, lambda: self._start(change.key, uid)))
        if edit.is_deleting(now) and (before is None or not edit.is_deleting(before)):
            grace_s = now["metadata"].get("deletionGracePeriodSeconds") or 0
            stop_s = min((delay_of(now, STOP) or _STOPPING).draw(self._chance), grace_s)
            self._pulse.later(stop_s, lambda: self._when_up(node, lambda: self._end(change.key, uid)))

    def _when_up(self, node: str, act: Callable[[], None]) -> None:
        """Now, or once the machine is back; never, if it is gone."""
        instance = self._instances.get(node)
        if instance is None:
            return
        if instance.state == cloud.UP:
            act()
        else:
            self._frozen.setdefault(node, []).append(act)

    def _find(self, key: str, uid: str) -> Json | None:
        pod = self._api.find(kinds.PODS, key)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _start(self, key: str, uid: str) -> None:
        pod = self._find(key, uid)
        if pod is None or not edit.is_active(pod) or pod["status"].get("startTime"):
            return
        now = self._api.now()
        status = {"phase": "Running", "startTime": now, "conditions": _pod_conditions(pod, now, is_ready=True)}
        self._api.update(kinds.PODS, edit.with_part(pod, "status", **status))
        run = delay_of(pod, RUN)
        if run is not None:
            node = edit.node_of(pod)
            run_s = run.draw(self._chance)
            self._pulse.later(run_s, lambda: self._when_up(node, lambda: self._succeed(key, uid)))

    def _succeed(self, key: str, uid: str) -> None:
        pod = self._find(key, uid)
        if pod is not None and edit.is_active(pod):
            conditions = _pod_conditions(pod, self._api.now(), is_ready=False)
            self._api.update(kinds.PODS, edit.with_part(pod, "status", phase="Succeeded", conditions=conditions))

    def _end(self, key: str, uid: str) -> None:
        if self._find(key, uid) is not None:
            self._api.remove(kinds.PODS, key)

    def _follow(self, name: str, before: Json, now: Json) -> None:
        """Pods are as ready as their node."""
        is_ready = edit.is_ready(now)
        if is_ready == edit.is_ready(before):
            return
        for key in self._pods.on(name):
            pod = self._api.find(kinds.PODS, key)
            if pod is not None and pod["status"].get("phase") == "Running" and edit.is_ready(pod) != is_ready:
                conditions = _pod_conditions(pod, self._api.now(), is_ready=is_ready)
                self._api.update(kinds.PODS, edit.with_part(pod, "status", conditions=conditions))

    def act(self) -> bool:
        return False


_EFFECTS = ("NoSchedule", "NoExecute")
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def _conditions(is_ready: bool, now: str) -> list[Json]:
    ready: Json = {"type": "Ready", "status": "True" if is_ready else "False"}
    ready["reason"] = "KubeletReady" if is_ready else "KubeletNotReady"
    others: list[Json] = [{"type": type_, "status": "False"} for type_ in _PRESSURES]
    return [{**condition, "lastTransitionTime": now} for condition in (*others, ready)]


def _pod_conditions(pod: Json, now: str, *, is_ready: bool) -> list[Json]:
    said = "True" if is_ready else "False"
    conditions: list[Json] = [{"type": "Ready", "status": said}, {"type": "ContainersReady", "status": said}]
    return edit.with_conditions(pod, [{**one, "lastProbeTime": None} for one in conditions], now)
