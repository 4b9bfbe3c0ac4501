"""Jobs: pods until enough of them have succeeded; then the job is done and goes after a while, pods and all."""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pod_keeping import PodKeeping
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]


class Jobs(PodKeeping):
    """The Job controller, and the one that removes finished jobs."""

    def __init__(self, pulse: Pulse) -> None:
        self._pods = Owned("Job", kinds.PODS)
        super().__init__(pulse, kinds.JOBS, self._pods)
        self._succeeded: dict[str, set[str]] = {}
        """Uids of pods by uid of their job: one that has done its work counts, though its node took it along."""

    def react(self, change: Change) -> None:
        super().react(change)
        if change.kind == kinds.JOBS and change.now is None:
            self._succeeded.pop(change.obj["metadata"]["uid"], None)

    def reconcile(self, key: str, found: Json) -> None:
        if is_complete(found):
            return
        pods = self._pods.of(found)
        active = [pod for pod in pods if edit.is_active(pod)]
        done = self._succeeded.setdefault(found["metadata"]["uid"], set())
        done.update(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Succeeded")
        succeeded = len(done)
        wanted = found["spec"].get("completions", 1) - succeeded
        if wanted <= 0:
            self._finish(key, found, succeeded)
            return
        missing = min(found["spec"].get("parallelism", 1), wanted) - len(active)
        for _ in range(missing):
            self._api.create(kinds.PODS, self._stamps.make(found))
        self._count(found, {"active": len(active) + max(missing, 0), "succeeded": succeeded})

    def _count(self, found: Json, counts: dict[str, int]) -> None:
        status = {"startTime": found["metadata"]["creationTimestamp"], **counts}
        if found.get("status") != status:
            self._api.update(kinds.JOBS, {**found, "status": status})

    def _finish(self, key: str, found: Json, succeeded: int) -> None:
        now = self._api.now()
        condition = {"type": "Complete", "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
        status = {
            "startTime": found["metadata"]["creationTimestamp"],
            "completionTime": now,
            "succeeded": succeeded,
            "conditions": [condition],
        }
        self._api.update(kinds.JOBS, {**found, "status": status})
        ttl_s = found["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is not None:
            self._pulse.later(ttl_s, lambda: self._api.remove(kinds.JOBS, key))


def is_complete(job: Json) -> bool:
    found = edit.condition_of(job, "Complete")
    return found is not None and found["status"] == "True"
