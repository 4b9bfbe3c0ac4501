"""StatefulSets: pods with names that stay, made one after the other and taken away from the end."""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pod_keeping import PodKeeping
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]


class StatefulSets(PodKeeping):
    """The StatefulSet controller."""

    def __init__(self, pulse: Pulse) -> None:
        self._pods = Owned("StatefulSet", kinds.PODS)
        super().__init__(pulse, kinds.STATEFUL_SETS, self._pods)

    def reconcile(self, key: str, found: Json) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self._pods.of(found)}
        is_ordered = found["spec"].get("podManagementPolicy") != "Parallel"
        names = [f"{found['metadata']['name']}-{i}" for i in range(found["spec"]["replicas"])]
        for name in names:
            pod = pods.pop(name, None)
            if pod is None:
                index = {"statefulset.kubernetes.io/pod-name": name}
                self._api.create(kinds.PODS, self._stamps.make(found, name, index))
            # The next one waits until this one is up; a pod on its way out keeps its name until it is gone.
            if is_ordered and (pod is None or not edit.is_ready(pod) or edit.is_deleting(pod)):
                break
        self._shrink([pod for name, pod in pods.items() if name not in names], is_ordered)
        self._count(found)

    def _shrink(self, surplus: list[Json], is_ordered: bool) -> None:
        last_first = sorted(surplus, key=lambda pod: -int(pod["metadata"]["name"].rpartition("-")[2]))
        if is_ordered and any(edit.is_deleting(pod) for pod in last_first):
            return
        for pod in last_first[:1] if is_ordered else last_first:
            self._api.delete_pod(pod)

    def _count(self, found: Json) -> None:
        pods = [pod for pod in self._pods.of(found) if edit.is_active(pod)]
        ready = sum(map(edit.is_ready, pods))
        status = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if found.get("status") != status:
            self._api.update(kinds.STATEFUL_SETS, {**found, "status": status})
