"""Job controller, TTL controller for finished Jobs, and a batch queue that submits Jobs with ProvisioningRequests."""

from typing import Any

from windlass.simulator.cluster import api_objects, api_resources
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.api_resources import GroupResource
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.pod_controller import OwnedObjects, PodController

Json = dict[str, Any]


class JobController(PodController):
    """Creates the pods of Jobs, and removes finished Jobs after their TTL."""

    def __init__(self, pulse: EventLoop) -> None:
        self._pods = OwnedObjects("Job", api_resources.PODS)
        super().__init__(pulse, api_resources.JOBS, self._pods)
        self._succeeded: dict[str, set[str]] = {}
        """Uids of succeeded pods by uid of their Job: they count even if their node was deleted."""

    def on_change(self, change: Change) -> None:
        super().on_change(change)
        if change.kind == api_resources.JOBS and change.now is None:
            self._succeeded.pop(change.obj["metadata"]["uid"], None)

    def reconcile(self, key: str, found: Json) -> None:
        if is_complete(found):
            return
        pods = self._pods.of(found)
        active = [pod for pod in pods if api_objects.is_active(pod)]
        done = self._succeeded.setdefault(found["metadata"]["uid"], set())
        done.update(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Succeeded")
        succeeded = len(done)
        wanted = found["spec"].get("completions", 1) - succeeded
        if wanted <= 0:
            self._finish(key, found, succeeded)
            return
        missing = min(found["spec"].get("parallelism", 1), wanted) - len(active)
        for _ in range(missing):
            self._api.create(api_resources.PODS, self._stamps.make_pod(found))
        self._count(found, {"active": len(active) + max(missing, 0), "succeeded": succeeded})

    def _count(self, found: Json, counts: dict[str, int]) -> None:
        status = {"startTime": found["metadata"]["creationTimestamp"], **counts}
        if found.get("status") != status:
            self._api.update(api_resources.JOBS, {**found, "status": status})

    def _finish(self, key: str, found: Json, succeeded: int) -> None:
        now = self._api.now()
        condition = {"type": "Complete", "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
        status = {
            "startTime": found["metadata"]["creationTimestamp"],
            "completionTime": now,
            "succeeded": succeeded,
            "conditions": [condition],
        }
        self._api.update(api_resources.JOBS, {**found, "status": status})
        ttl_s = found["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is not None:
            self._pulse.call_later(ttl_s, lambda: self._api.remove(api_resources.JOBS, key))


def is_complete(job: Json) -> bool:
    found = api_objects.condition_of(job, "Complete")
    return found is not None and found["status"] == "True"


CONSUME_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"

_VERSION = "autoscaling.x-k8s.io/v1"


class ProvisioningJobQueue:
    """Jobs that wait for their ProvisioningRequest. Jobs whose request has failed wait forever."""

    watched_kinds: tuple[GroupResource, ...] = (api_resources.PROVISIONING_REQUESTS,)

    def __init__(self, pulse: EventLoop) -> None:
        self._api = pulse.api
        self._waiting: dict[str, Json] = {}
        self._due: list[str] = []

    def submit(self, job: Json, provisioning_class: str) -> None:
        """Create a ProvisioningRequest for all pods of a Job."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        metadata, template = {"name": name, "namespace": namespace}, job["spec"]["template"]
        self._api.post(api_resources.POD_TEMPLATES, {"metadata": metadata, "template": template})
        pods = {"podTemplateRef": {"name": name}, "count": job["spec"]["parallelism"]}
        spec = {"provisioningClassName": provisioning_class, "podSets": [pods]}
        kind = {"apiVersion": _VERSION, "kind": "ProvisioningRequest"}
        self._api.post(api_resources.PROVISIONING_REQUESTS, {**kind, "metadata": metadata, "spec": spec})
        consuming = api_objects.with_annotation(template, CONSUME_ANNOTATION, name)
        self._waiting[f"{namespace}/{name}"] = api_objects.with_part(job, "spec", template=consuming)

    def on_change(self, change: Change) -> None:
        found = api_objects.condition_of(change.obj, "Provisioned")
        if change.key in self._waiting and found is not None and found["status"] == "True":
            self._due.append(change.key)

    def sync(self) -> bool:
        """Create the Jobs whose capacity was found or provisioned."""
        due, self._due = self._due, []
        for key in dict.fromkeys(due):
            self._api.post(api_resources.JOBS, self._waiting.pop(key))
        return bool(due)
