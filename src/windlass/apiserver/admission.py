"""Admission: kube-apiserver's built-in plugins for new objects, without policies and webhooks."""

from windlass.apiserver import status_errors
from windlass.apiserver.registry import ServerState
from windlass.apiserver.responses import ApiCall
from windlass.apiserver.storage import storage_key
from windlass.apiserver.value_types import Json

IMMORTAL = ("default", "kube-system", "kube-public")
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def check_namespace(core: ServerState, call: ApiCall) -> None:
    """NamespaceLifecycle: no objects are created in a namespace that is missing or terminating."""
    if not call.resource.is_namespaced:
        return
    namespaces = core.resource("", "namespaces")
    stored_object = core.table(namespaces).objects.get(call.namespace)
    if stored_object is None:
        raise status_errors.not_found(namespaces, call.namespace)
    if stored_object.is_deleting:
        reason = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        refused = status_errors.forbidden(call.resource, call.name, reason)
        cause = {"reason": "NamespaceTerminating", "message": f"namespace {call.namespace} is being terminated"}
        refused.details = {**(refused.details or {}), "causes": [{**cause, "field": "metadata.namespace"}]}
        raise refused


def check_deletion(call: ApiCall) -> None:
    """NamespaceLifecycle: some namespaces cannot be deleted."""
    if call.resource.key == ("", "namespaces") and call.name in IMMORTAL:
        raise status_errors.forbidden(call.resource, call.name, "this namespace may not be deleted")


def admit(core: ServerState, call: ApiCall, obj: Json) -> None:
    """Mutate a new object in place. Fields set by admission plugins have no field manager."""
    disabled = core.settings.disabled_admission
    match call.resource.key:
        case ("", "nodes"):
            if "TaintNodesByCondition" not in disabled:
                _taint_new_node(obj)
        case ("", "pods"):
            if "Priority" not in disabled:
                _set_priority(core, call, obj)
            if "DefaultTolerationSeconds" not in disabled:
                _add_default_tolerations(obj)


def _taint_new_node(node: Json) -> None:
    """TaintNodesByCondition: a new node is tainted as not ready."""
    taints = node["spec"].setdefault("taints", [])
    if not any(taint["key"] == _NOT_READY and taint["effect"] == "NoSchedule" for taint in taints):
        taints.append({"key": _NOT_READY, "effect": "NoSchedule"})


def _set_priority(core: ServerState, call: ApiCall, pod: Json) -> None:
    """Priority: value and preemption policy from the pod's PriorityClass or the default one."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    priority, preemption = 0, "PreemptLowerPriority"
    if name in _SYSTEM_PRIORITIES:
        priority = _SYSTEM_PRIORITIES[name]
    else:
        priority_class = _find_class(core, name)
        if priority_class is not None:
            priority, preemption = priority_class["value"], priority_class.get("preemptionPolicy", preemption)
            spec["priorityClassName"] = priority_class["metadata"]["name"]
        elif name:
            reason = f"no PriorityClass with name {name} was found"
            raise status_errors.forbidden(call.resource, pod["metadata"].get("name", ""), reason)
    if spec.get("priority", priority) != priority:
        reason = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise status_errors.forbidden(call.resource, pod["metadata"].get("name", ""), reason)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", preemption)


def _find_class(core: ServerState, name: str | None) -> Json | None:
    classes = core.table(core.resource("scheduling.k8s.io", "priorityclasses"))
    if name:
        stored = classes.objects.get(storage_key("", name))
        return stored.decode() if stored else None
    if not classes.objects:
        return None
    every = (stored.decode() for stored in classes.objects.values())
    defaults = [priority_class for priority_class in every if priority_class.get("globalDefault")]
    return min(defaults, key=lambda priority_class: int(priority_class["value"])) if defaults else None


def _add_default_tolerations(pod: Json) -> None:
    """DefaultTolerationSeconds: five minutes on an unreachable or unready node, unless the pod sets others."""
    tolerations = pod["spec"].setdefault("tolerations", [])
    for key in (_NOT_READY, _UNREACHABLE):
        is_said = any(
            toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute"
            for toleration in tolerations
        )
        if not is_said:
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(added)
