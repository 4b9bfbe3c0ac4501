"""What pods ask for and nodes have to give, as whole numbers: `cpu` in millicores, all else in its own unit.

Sums are exact and rounded once, at the end: two containers of `0.5m` ask for one millicore, not two.
"""

from typing import Any

from windlass import errors
from windlass.kube import quantity

Json = dict[str, Any]
Amounts = dict[str, int]
Exact = dict[str, quantity.Quantity]

POD_LEVEL = ("cpu", "memory")
"""Resources that a pod may ask for as a whole; hugepages too."""
_NOTHING: Exact = {}
_MISSING: Exact = {"cpu": quantity.read("100m"), "memory": quantity.read("200Mi")}
"""What scores take a container to request that requests nothing."""


def of_pending(pod: Json) -> Amounts:
    """What a pod asks for before it runs anywhere: its spec alone counts."""
    return _whole(_of_pod(pod, use_status=False))


def of_seated(pod: Json) -> Amounts:
    """What a pod on a node takes from it: while it is resized in place, the most of what was, is and shall be."""
    return _whole(_of_pod(pod, use_status=True))


def nonzero_of_pending(pod: Json) -> Amounts:
    """CPU and memory that scores count for a pod before it runs: containers that request none count with a default.

    Upstream forgets here what the pod requests as a whole.
    """
    containers = _of_containers(pod, use_status=False, missing=_MISSING)
    return _scored(_sum(containers, _overhead(pod)))


def nonzero_of_seated(pod: Json, amounts: Amounts) -> Amounts:
    """The same for a pod on a node, which takes `amounts` of it (`of_seated`).

    A pod that requests something as a whole has the default only for what neither it nor any container requests.
    """
    if _requests_both_everywhere(pod):
        return {name: amounts[name] for name in _MISSING}
    missing = _MISSING
    if _pod_level(pod):
        missing = {name: amount for name, amount in _MISSING.items() if name not in amounts}
    return _scored(_of_pod(pod, use_status=True, missing=missing))


def _requests_both_everywhere(pod: Json) -> bool:
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [(container.get("resources") or {}).get("requests") or {} for container in containers]
    return (
        bool(containers) and all(name in one for one in asked for name in _MISSING) and not _is_resize_infeasible(pod)
    )


def _scored(exact: Exact) -> Amounts:
    whole = _whole(exact)
    return {name: whole.get(name, 0) for name in _MISSING}


def of_node(node: Json) -> Amounts:
    return _whole(_read(node, "status.allocatable", (node.get("status") or {}).get("allocatable")))


def check_storage(obj: Json) -> None:
    """Refuse an object whose storage sizes cannot be read, before a scheduling cycle stumbles over it."""
    spec = obj.get("spec") or {}
    match obj["kind"]:
        case "PersistentVolume":
            _read(obj, "spec.capacity", spec.get("capacity"))
        case "PersistentVolumeClaim":
            _read(obj, "spec.resources.requests", (spec.get("resources") or {}).get("requests"))
        case "CSIStorageCapacity":
            sizes: Json = {name: obj[name] for name in ("capacity", "maximumVolumeSize") if name in obj}
            _read(obj, "", sizes)


def counts(name: str) -> bool:
    """Does the scheduler keep count of this resource? It passes over names it does not know, such as `storage`."""
    if name in ("cpu", "memory", "ephemeral-storage", "pods"):
        return True
    return name.startswith(("hugepages-", "attachable-volumes-")) or ("/" in name and not name.startswith("requests."))


def _pod_level(pod: Json) -> Exact:
    """What a pod asks for as a whole."""
    asked = _read(pod, "spec.resources.requests", (pod["spec"].get("resources") or {}).get("requests"))
    return {name: amount for name, amount in asked.items() if name in POD_LEVEL or name.startswith("hugepages-")}


def _of_pod(pod: Json, use_status: bool, missing: Exact = _NOTHING) -> Exact:
    """`missing`: what a container asks for that does not say."""
    status = pod.get("status") or {}
    total = _of_containers(pod, use_status, missing)
    pod_level = _pod_level(pod)
    resized = pod_level
    if use_status and "resources" in status:
        actual = _read(pod, "status.resources.requests", status["resources"].get("requests"))
        allocated = _read(pod, "status.allocatedResources", status.get("allocatedResources"))
        resized = _while_resized(pod, pod_level, actual, allocated)
    for name in pod_level:
        total[name] = resized.get(name, quantity.ZERO)
    return _sum(total, _overhead(pod))


def _overhead(pod: Json) -> Exact:
    return _read(pod, "spec.overhead", pod["spec"].get("overhead"))


def _of_containers(pod: Json, use_status: bool, missing: Exact) -> Exact:
    """The most that containers need at one time.

    Ordinary containers run together. Init containers run one after the other before them; one that restarts always
    (a sidecar) stays and runs beside all that follow.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    statuses: dict[str, Json] = {}
    if use_status:
        listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
        statuses = {one["name"]: one for one in listed}
    running: Exact = {}
    for index, container in enumerate(spec.get("containers") or ()):
        running = _sum(running, {**missing, **_of_container(pod, f"spec.containers[{index}]", container, statuses)})
    sidecars: Exact = {}
    starting: Exact = {}
    for index, container in enumerate(spec.get("initContainers") or ()):
        is_sidecar = container.get("restartPolicy") == "Always"
        reported = statuses if is_sidecar else {}
        needed = {**missing, **_of_container(pod, f"spec.initContainers[{index}]", container, reported)}
        if is_sidecar:
            running, sidecars = _sum(running, needed), _sum(sidecars, needed)
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _sum(sidecars, needed))
    return _most(running, starting)


def _of_container(pod: Json, path: str, container: Json, statuses: dict[str, Json]) -> Exact:
    wanted = _read(pod, f"{path}.resources.requests", (container.get("resources") or {}).get("requests"))
    reported = statuses.get(container["name"], {})
    if "resources" not in reported:
        return wanted
    actual = _read(pod, f"{path}: status requests", reported["resources"].get("requests"))
    allocated = _read(pod, f"{path}: status allocatedResources", reported.get("allocatedResources"))
    return _while_resized(pod, wanted, actual, allocated)


def _while_resized(pod: Json, wanted: Exact, actual: Exact, allocated: Exact) -> Exact:
    if _is_resize_infeasible(pod):
        return _most(actual, allocated)
    return _most(_most(wanted, actual), allocated)


def _is_resize_infeasible(pod: Json) -> bool:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _sum(one: Exact, other: Exact) -> Exact:
    return {name: one.get(name, quantity.ZERO) + other.get(name, quantity.ZERO) for name in {**one, **other}}


def _most(one: Exact, other: Exact) -> Exact:
    """The larger of both, by name."""
    merged = dict(one)
    for name, amount in other.items():
        if name not in merged or amount.nano > merged[name].nano:
            merged[name] = amount
    return merged


def _whole(exact: Exact) -> Amounts:
    return {
        name: amount.milli_value() if name == "cpu" else amount.value()
        for name, amount in exact.items()
        if counts(name)
    }


def _read(owner: Json, field: str, amounts: Json | None) -> Exact:
    read: Exact = {}
    for name, text in (amounts or {}).items():
        try:
            read[name] = quantity.read(text)
        except ValueError as error:
            metadata = owner["metadata"]
            key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
            raise errors.InvalidObject(
                owner["kind"], key, f"{field}[{name}]" if field else name, text, quantity.ACCEPTED
            ) from error
    return read
