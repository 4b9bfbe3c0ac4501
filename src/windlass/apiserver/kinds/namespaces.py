"""Namespaces: active until deleted, then terminating until nothing is left in them."""

from windlass.apiserver import names, status
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json

NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"


class Namespaces(Strategy):
    """Namespaces."""

    def check_name(self, name: str) -> tuple[str, ...]:
        return names.check_label(name)

    def default(self, obj: Json) -> None:
        if name := obj["metadata"].get("name"):
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name
        obj["status"].setdefault("phase", "Active")

    def new_status(self, obj: Json) -> Json:
        return {"phase": "Active"}

    def prepare_create(self, obj: Json) -> None:
        super().prepare_create(obj)
        finalizers = obj["spec"].setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"]["name"]

    def prepare_update(self, new: Json, old: Json) -> None:
        super().prepare_update(new, old)
        new["spec"] = old["spec"]

    def validate_update(self, new: Json, old: Json) -> Errors:
        name, label = new["metadata"]["name"], (new["metadata"].get("labels") or {}).get(NAME_LABEL)
        return [] if label == name else [status.wrong(f"metadata.labels[{NAME_LABEL}]", label, f"must be {name}")]

    def may_vanish(self, obj: Json) -> bool:
        return not obj["spec"].get("finalizers")
