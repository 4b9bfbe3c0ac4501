"""pods/binding: the scheduler says where a pod runs. Written past ownership: nobody owns `spec.nodeName`."""

from windlass.apiserver import rendering, status
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core
from windlass.apiserver.kinds import pods
from windlass.apiserver.types.model import Json

_SCHEDULED: Json = {"type": "PodScheduled", "status": "True"}


def bind(core: Core, call: Call) -> Answer:
    binding = call.read_object()
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name", call.name) != call.name:
        raise status.bad_request("name in URL does not match name in Binding object")
    _check_target(target)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status.not_found(call.resource, call.name)
    pod = stored.decode()
    if why := _refusal(pod, metadata):
        raise status.conflict(call.resource, call.name, why, "pods/binding")
    pod["spec"]["nodeName"] = target["name"]
    pod["status"].pop("nominatedNodeName", None)
    for kind in ("annotations", "labels"):
        if metadata.get(kind):
            pod["metadata"].setdefault(kind, {}).update(metadata[kind])
    pods.set_condition(pod, _SCHEDULED, call.now)
    if not call.is_dry_run:
        core.store.write(core.table(call.resource), stored.key, pod)
    return rendering.answer_json(201, status.success() | {"code": 201})


def _check_target(target: Json) -> None:
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(status.unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(status.required("target.name"))
    if errors:
        raise status.unclassified("; ".join(str(error) for error in errors))


def _refusal(pod: Json, metadata: Json) -> str:
    """Why the pod cannot be bound; empty if it can."""
    found, name = pod["metadata"], pod["metadata"]["name"]
    if metadata.get("uid") and metadata["uid"] != found["uid"]:
        said = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {found['uid']}"
        return said
    if "deletionTimestamp" in found:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if pod["spec"].get("schedulingGates") else ""
