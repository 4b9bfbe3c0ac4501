"""Completing pod templates: what their pods would have besides, by the API server's word or, without it, by limits.

The API server is asked to create such a pod without keeping it: defaults, priorities and what webhooks add are in its
answer, and so is what admission has against it. It is asked again after a while, because webhooks change.
"""

from collections.abc import Mapping
from typing import Any

from windlass.autoscaler.batch import samples
from windlass.kube import client, resources

Json = dict[str, Any]
KNOWN_S = 300.0
"""How long an answer is believed."""
_TOKEN = "kube-api-access-"
"""Begins the name of the volume that every pod gets, each under a name of its own."""


class Completing:
    """The templates of buffers, completed."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[Json, float, Json]] = {}

    async def ask(self, api: client.Client, key: str, namespace: str, template: Json, now_s: float) -> Json:
        """As the API server would have it. `key`: whose template it is. KubeError if it would have no such pod."""
        asked, at_s, answer = self._answers.get(key, ({}, float("-inf"), {}))
        if asked != template or now_s >= at_s + KNOWN_S:
            metadata = {**tell(template.get("metadata") or {}), "generateName": "fake-pod-"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
            made: Json = await api.create(resources.PODS.untyped(), pod, namespace, dry_run=True)
            answer = of_pod(made)
            self._answers[key] = template, now_s, answer
        return answer


def complete(template: Mapping[str, Any]) -> Json:
    """The template with requests that follow from limits, nobody being asked."""
    return {"metadata": tell(template.get("metadata") or {}), "spec": samples.complete(template.get("spec") or {})}


def of_pod(pod: Mapping[str, Any]) -> Json:
    """The template of a pod: without its node, and the volume that is its own."""
    spec = samples.complete(pod["spec"])
    spec.pop("nodeName", None)
    _leave_out_token(spec, "volumes")
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _leave_out_token(container, "volumeMounts")
    return {"metadata": tell(pod["metadata"]), "spec": spec}


def _leave_out_token(holder: Json, what: str) -> None:
    holder[what] = [one for one in holder.get(what, ()) if not one.get("name", "").startswith(_TOKEN)]


def tell(metadata: Mapping[str, Any]) -> Json:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
