"""Kubelets and the node lifecycle controllers.

Kubelets register their node, start the pods bound to it and end them with grace; annotations say how long pods of a
workload take to start, run and stop. The node lifecycle controllers (kube-controller-manager's and the cloud's, with
their default times) mark silent nodes unknown, taint them, evict their pods, and remove nodes without a machine.
"""

import functools
from collections.abc import Callable
from typing import Any

from windlass import product
from windlass.simulator.cluster import api_client, cloud
from windlass.simulator.cluster.api_client import Change, PodsByNode
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.node_groups import DelayDistribution, DelaySampler, RandomStreams
from windlass.simulator.reference_scheduler import node_filters

Json = dict[str, Any]

START, RUN, STOP = (product.SIMULATOR_PREFIX + verb for verb in ("start", "run", "stop"))

_DEFAULT_START = DelayDistribution(2.0)

_DEFAULT_STOP = DelayDistribution(1.0)


_OBSERVED = "observed"


def format_delay(delay: DelayDistribution) -> str:
    if delay.observed_s:
        return " ".join((_OBSERVED, *(f"{observed_s:g}" for observed_s in delay.observed_s)))
    return f"{delay.median_s:g} {delay.spread:g} {delay.least_s:g}"


@functools.lru_cache(maxsize=4096)
def parse_delay(text: str) -> DelayDistribution:
    first, *rest = text.split()
    if first == _OBSERVED:
        return DelayDistribution(0.0, observed_s=tuple(map(float, rest)))
    median_s, spread, least_s = map(float, (first, *rest))
    return DelayDistribution(median_s, spread, least_s)


def delay_of(pod: Json, name: str) -> DelayDistribution | None:
    text = (pod["metadata"].get("annotations") or {}).get(name)
    return parse_delay(text) if text else None


def _owner_uid(pod: Json) -> str:
    owner = api_client.controller_of(pod)
    return str(pod["metadata"]["uid"] if owner is None else owner["uid"])


class Kubelets:
    """All kubelets."""

    watched_kinds = (api_client.PODS, api_client.NODES)

    def __init__(self, event_loop: EventLoop, cloud_: cloud.Cloud, generator: RandomStreams) -> None:
        self._event_loop, self._api = event_loop, event_loop.api
        self._rng = generator.for_component("kubelets")
        self._delays = DelaySampler(self._rng)
        self._instances: dict[str, cloud.Instance] = {}
        """Instances by node name, as long as they exist."""
        self._pods = PodsByNode()
        self._frozen: dict[str, list[Callable[[], None]]] = {}
        """Actions to run once the kubelet's machine is reachable again."""
        self._starting_nodes: set[str] = set()
        self._cloud = cloud_
        cloud_.add_listener(self)

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_created(self, instance: cloud.Instance) -> None:
        """No kubelet runs yet."""

    def instance_running(self, instance: cloud.Instance) -> None:
        name = instance.name
        self._instances[name] = instance
        node = self._api.find(api_client.NODES, name)
        if node is not None:
            self._report(name)
            for act in self._frozen.pop(name, ()):
                act()
            return
        self._register(instance)
        never = self._rng.random() < instance.group.unready_rate
        if self._cloud.is_starting:
            self._report(name)
        elif not never:
            self._starting_nodes.add(name)
            ready_s = self._delays.sample(instance.group.ready, ("ready", instance.group.name))
            self._event_loop.call_later(ready_s, lambda: self._become_ready(name))

    def _become_ready(self, name: str) -> None:
        self._starting_nodes.discard(name)
        self._when_up(name, lambda: self._report(name))

    def instance_unreachable(self, instance: cloud.Instance) -> None:
        """The kubelet is silent; the node lifecycle controller handles the rest."""

    def instance_terminated(self, instance: cloud.Instance) -> None:
        self._instances.pop(instance.name, None)
        self._frozen.pop(instance.name, None)

    def _register(self, instance: cloud.Instance) -> None:
        group, name = instance.group, instance.name
        not_ready = [{"key": "node.kubernetes.io/not-ready", "effect": effect} for effect in _EFFECTS]
        self._api.create(
            api_client.NODES,
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
                    "conditions": _node_conditions(False, self._api.now()),
                    "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.3"},
                },
            },
        )

    def _report(self, name: str) -> None:
        """The kubelet reports its node as ready."""
        node = self._api.find(api_client.NODES, name)
        if node is not None and name not in self._starting_nodes and not api_client.is_ready(node):
            conditions = api_client.with_conditions(node, _node_conditions(True, ""), self._api.now())
            self._api.update(api_client.NODES, api_client.with_part(node, "status", conditions=conditions))

    # ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_change(self, change: Change) -> None:
        if change.kind == api_client.NODES:
            if change.now is not None and change.before is not None:
                self._follow(change.key, change.before, change.now)
            return
        before, now = change.before, change.now
        if now is None:
            self._pods.remove(api_client.node_of(change.obj), change.key)
            return
        node = api_client.node_of(now)
        if not node:
            return
        uid = now["metadata"]["uid"]
        if before is None or not api_client.node_of(before):
            self._pods.add(node, change.key)
            start = delay_of(now, START) or _DEFAULT_START
            start_s = 0.0 if self._cloud.is_starting else self._delays.sample(start, (START, _owner_uid(now)))
            self._event_loop.call_later(start_s, lambda: self._when_up(node, lambda: self._start(change.key, uid)))
        if api_client.is_deleting(now) and (before is None or not api_client.is_deleting(before)):
            grace_s = now["metadata"].get("deletionGracePeriodSeconds") or 0
            stop = delay_of(now, STOP) or _DEFAULT_STOP
            stop_s = min(self._delays.sample(stop, (STOP, _owner_uid(now))), grace_s)
            self._event_loop.call_later(stop_s, lambda: self._when_up(node, lambda: self._end(change.key, uid)))

    def _when_up(self, node: str, act: Callable[[], None]) -> None:
        """Act now, or once the machine is reachable again; never if it is terminated."""
        instance = self._instances.get(node)
        if instance is None:
            return
        if instance.state == cloud.UP:
            act()
        else:
            self._frozen.setdefault(node, []).append(act)

    def _find(self, key: str, uid: str) -> Json | None:
        pod = self._api.find(api_client.PODS, key)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _start(self, key: str, uid: str) -> None:
        pod = self._find(key, uid)
        if pod is None or not api_client.is_active(pod) or pod["status"].get("startTime"):
            return
        now = self._api.now()
        status = {"phase": "Running", "startTime": now, "conditions": _pod_conditions(pod, now, is_ready=True)}
        self._api.update(api_client.PODS, api_client.with_part(pod, "status", **status))
        run = delay_of(pod, RUN)
        if run is not None:
            node = api_client.node_of(pod)
            run_s = self._delays.sample(run, (RUN, _owner_uid(pod)))
            self._event_loop.call_later(run_s, lambda: self._when_up(node, lambda: self._succeed(key, uid)))

    def _succeed(self, key: str, uid: str) -> None:
        pod = self._find(key, uid)
        if pod is not None and api_client.is_active(pod):
            conditions = _pod_conditions(pod, self._api.now(), is_ready=False)
            self._api.update(
                api_client.PODS, api_client.with_part(pod, "status", phase="Succeeded", conditions=conditions)
            )

    def _end(self, key: str, uid: str) -> None:
        if self._find(key, uid) is not None:
            self._api.remove(api_client.PODS, key)

    def _follow(self, name: str, before: Json, now: Json) -> None:
        """Pods are ready if their node is."""
        is_ready = api_client.is_ready(now)
        if is_ready == api_client.is_ready(before):
            return
        for key in self._pods.pods_on(name):
            pod = self._api.find(api_client.PODS, key)
            if pod is not None and pod["status"].get("phase") == "Running" and api_client.is_ready(pod) != is_ready:
                conditions = _pod_conditions(pod, self._api.now(), is_ready=is_ready)
                self._api.update(api_client.PODS, api_client.with_part(pod, "status", conditions=conditions))

    def sync(self) -> bool:
        return False


_EFFECTS = ("NoSchedule", "NoExecute")

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def _node_conditions(is_ready: bool, now: str) -> list[Json]:
    ready: Json = {"type": "Ready", "status": "True" if is_ready else "False"}
    ready["reason"] = "KubeletReady" if is_ready else "KubeletNotReady"
    others: list[Json] = [{"type": type_, "status": "False"} for type_ in _PRESSURES]
    return [{**condition, "lastTransitionTime": now} for condition in (*others, ready)]


def _pod_conditions(pod: Json, now: str, *, is_ready: bool) -> list[Json]:
    message = "True" if is_ready else "False"
    conditions: list[Json] = [{"type": "Ready", "status": message}, {"type": "ContainersReady", "status": message}]
    return api_client.with_conditions(pod, [{**item, "lastProbeTime": None} for item in conditions], now)


MONITOR_GRACE_S = 50.0
"""Time without heartbeats after which a node's status becomes Unknown."""

NODE_REMOVAL_DELAY_S = 10.0
"""Time after that until a node without a machine is deleted."""

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class NodeLifecycleController:
    """Taints nodes by condition, evicts pods by NoExecute taint, and collects pods of deleted nodes."""

    watched_kinds = (api_client.NODES, api_client.PODS)

    def __init__(self, event_loop: EventLoop, cloud_: cloud.Cloud) -> None:
        self._event_loop, self._api = event_loop, event_loop.api
        self._pods = PodsByNode()
        self._due: dict[str, None] = {}
        cloud_.add_listener(self)

    # ── Machines ─────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_created(self, instance: cloud.Instance) -> None:
        """The node is not registered yet."""

    def instance_running(self, instance: cloud.Instance) -> None:
        """The kubelet reports the status."""

    def instance_unreachable(self, instance: cloud.Instance) -> None:
        self._event_loop.call_later(MONITOR_GRACE_S, lambda: self._mark_unknown(instance))

    def instance_terminated(self, instance: cloud.Instance) -> None:
        if not instance.is_ended_on_purpose:
            self._event_loop.call_later(
                MONITOR_GRACE_S + NODE_REMOVAL_DELAY_S, lambda: self._api.remove(api_client.NODES, instance.name)
            )

    def _mark_unknown(self, instance: cloud.Instance) -> None:
        node = self._api.find(api_client.NODES, instance.name)
        if node is None or instance.state == cloud.UP:
            return
        unknown: Json = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        conditions = api_client.with_conditions(node, [unknown], self._api.now())
        self._api.update(api_client.NODES, api_client.with_part(node, "status", conditions=conditions))

    # ── Nodes and pods ───────────────────────────────────────────────────────────────────────────────────────────

    def on_change(self, change: Change) -> None:
        if change.kind == api_client.NODES:
            self._due[change.key] = None
            return
        node = api_client.node_of(change.obj)
        if change.now is None:
            self._pods.remove(node, change.key)
        elif node and (change.before is None or not api_client.node_of(change.before)):
            self._pods.add(node, change.key)
            if self._api.find(api_client.NODES, node) is None:
                self._due[node] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for name in due:
            node = self._api.find(api_client.NODES, name)
            if node is None:
                for key in self._pods.pods_on(name):
                    self._api.remove(api_client.PODS, key)
            else:
                self._taint(node)
        return bool(due)

    def _taint(self, node: Json) -> None:
        """Set the node's taints according to its Ready condition."""
        ready = api_client.condition_of(node, "Ready")
        status = ready["status"] if ready else "Unknown"
        key = {"True": "", "False": NOT_READY}.get(status, UNREACHABLE)
        before = node["spec"].get("taints") or []
        desired = [{"key": key, "effect": effect} for effect in _EFFECTS] if key else []
        ours = [taint for taint in before if taint["key"] in (NOT_READY, UNREACHABLE)]
        if ours == desired:
            return
        others = [taint for taint in before if taint not in ours]
        self._api.update(api_client.NODES, api_client.with_part(node, "spec", taints=[*others, *desired]))
        if key:
            self._evict_intolerant(node["metadata"]["name"], {"key": key, "effect": "NoExecute"})

    def _evict_intolerant(self, name: str, taint: Json) -> None:
        """Evict each pod after its toleration seconds."""
        for key in self._pods.pods_on(name):
            pod = self._api.find(api_client.PODS, key)
            if pod is None:
                continue
            matching = [item for item in node_filters.tolerations_of(pod) if node_filters.is_tolerated(taint, [item])]
            waits = [entry["tolerationSeconds"] for entry in matching if "tolerationSeconds" in entry]
            if matching and len(waits) < len(matching):
                continue
            uid = pod["metadata"]["uid"]
            self._event_loop.call_later(min(waits, default=0), functools.partial(self._evict, key, uid, name, taint))

    def _evict(self, key: str, uid: str, name: str, taint: Json) -> None:
        pod, node = self._api.find(api_client.PODS, key), self._api.find(api_client.NODES, name)
        if pod is None or node is None or pod["metadata"]["uid"] != uid or api_client.is_finished(pod):
            return
        if any(
            item["key"] == taint["key"] and item["effect"] == "NoExecute" for item in node["spec"].get("taints") or ()
        ):
            self._api.delete_pod(pod)
