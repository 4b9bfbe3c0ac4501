"""Queueing: Jobs that ask for their capacity as a whole, and are handed in once it is there, as batch queues do."""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.kinds import Kind
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
_VERSION = "autoscaling.x-k8s.io/v1"


class Queue:
    """Jobs that wait for an answer to their ProvisioningRequest. One that is refused for good waits for ever."""

    hears: tuple[Kind, ...] = (kinds.PROVISIONING_REQUESTS,)

    def __init__(self, pulse: Pulse) -> None:
        self._api = pulse.api
        self._waiting: dict[str, Json] = {}
        self._due: list[str] = []

    def submit(self, job: Json, provisioning_class: str) -> None:
        """Ask for room for all pods of a Job at a time."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        metadata, template = {"name": name, "namespace": namespace}, job["spec"]["template"]
        self._api.post(kinds.POD_TEMPLATES, {"metadata": metadata, "template": template})
        pods = {"podTemplateRef": {"name": name}, "count": job["spec"]["parallelism"]}
        spec = {"provisioningClassName": provisioning_class, "podSets": [pods]}
        kind = {"apiVersion": _VERSION, "kind": "ProvisioningRequest"}
        self._api.post(kinds.PROVISIONING_REQUESTS, {**kind, "metadata": metadata, "spec": spec})
        consuming = edit.with_annotation(template, CONSUME, name)
        self._waiting[f"{namespace}/{name}"] = edit.with_part(job, "spec", template=consuming)

    def react(self, change: Change) -> None:
        found = edit.condition_of(change.obj, "Provisioned")
        if change.key in self._waiting and found is not None and found["status"] == "True":
            self._due.append(change.key)

    def act(self) -> bool:
        """Hand in the Jobs whose capacity was found or ordered."""
        due, self._due = self._due, []
        for key in dict.fromkeys(due):
            self._api.post(kinds.JOBS, self._waiting.pop(key))
        return bool(due)
