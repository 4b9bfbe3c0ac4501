"""Pods from templates: the API server admits the first, and every further one is a stamp of it."""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Api

Json = dict[str, Any]


class Stamps:
    """Stamps by owner and the generation of its template."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, tuple[int, Json]] = {}

    def forget(self, owner_uid: str) -> None:
        self._known.pop(owner_uid, None)

    def make(self, owner: Json, name: str = "", labels: dict[str, str] | None = None) -> Json:
        """A new pod of the owner's template, not yet created; its name begins like the owner's unless it is given."""
        stamp = self._find(owner)
        metadata: Json = {**stamp["metadata"]}
        if name:
            metadata.pop("generateName", None)
            metadata["name"] = name
        if labels:
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
        return {**stamp, "metadata": metadata}

    def _find(self, owner: Json) -> Json:
        uid, generation = owner["metadata"]["uid"], owner["metadata"].get("generation", 0)
        known = self._known.get(uid)
        if known is None or known[0] != generation:
            known = self._known[uid] = (generation, self._admit(owner))
        return known[1]

    def _admit(self, owner: Json) -> Json:
        template = owner["spec"]["template"]
        said = template.get("metadata") or {}
        metadata = {
            "generateName": owner["metadata"]["name"] + "-",
            "namespace": owner["metadata"]["namespace"],
            "labels": said.get("labels") or {},
            "annotations": said.get("annotations") or {},
            "ownerReferences": [edit.owned_by(owner)],
        }
        return self._api.admit(kinds.PODS, {"metadata": metadata, "spec": template["spec"]})
