"""Pod resource requests and node allocatable as integers: `cpu` in millicores, all else in its own unit.

Sums are exact and rounded once, at the end: two containers of `0.5m` request one millicore, not two.
"""

from typing import Any

from windlass import errors, quantity

Json = dict[str, Any]
ResourceList = dict[str, int]
ExactResources = dict[str, quantity.Quantity]

POD_LEVEL = ("cpu", "memory")
"""Resources of pod-level requests; hugepages, too."""
_NOTHING: ExactResources = {}
_DEFAULT_REQUESTS: ExactResources = {"cpu": quantity.read_quantity("100m"), "memory": quantity.read_quantity("200Mi")}
"""Default requests of a container for scores."""


def pending_pod_requests(pod: Json) -> ResourceList:
    """Requests of a pending pod, from its spec alone."""
    return _round_up(_of_pod(pod, use_status=False))


def assigned_pod_requests(pod: Json) -> ResourceList:
    """Requests of an assigned pod: during an in-place resize the maximum of allocated, actual and desired."""
    return _round_up(_of_pod(pod, use_status=True))


def nonzero_pending_requests(pod: Json) -> ResourceList:
    """CPU and memory that scores count for a pod before it runs: containers that request none count with a default.

    Upstream ignores pod-level requests here.
    """
    containers = _of_containers(pod, use_status=False, missing=_DEFAULT_REQUESTS)
    return _scored_resources(_sum(containers, _overhead(pod)))


def nonzero_assigned_requests(pod: Json, amounts: ResourceList) -> ResourceList:
    """The same for a pod on a node, which takes `amounts` of it (`of_seated`).

    With pod-level requests the default applies only to what neither the pod nor any container requests.
    """
    if _requests_both_everywhere(pod):
        return {name: amounts[name] for name in _DEFAULT_REQUESTS}
    missing = _DEFAULT_REQUESTS
    if _pod_level(pod):
        missing = {name: amount for name, amount in _DEFAULT_REQUESTS.items() if name not in amounts}
    return _scored_resources(_of_pod(pod, use_status=True, missing=missing))


def _requests_both_everywhere(pod: Json) -> bool:
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [(container.get("resources") or {}).get("requests") or {} for container in containers]
    return (
        bool(containers)
        and all(name in item for item in asked for name in _DEFAULT_REQUESTS)
        and not _is_resize_infeasible(pod)
    )


def _scored_resources(exact: ExactResources) -> ResourceList:
    whole = _round_up(exact)
    return {name: whole.get(name, 0) for name in _DEFAULT_REQUESTS}


def node_allocatable(node: Json) -> ResourceList:
    return _round_up(_read_resources(node, "status.allocatable", (node.get("status") or {}).get("allocatable")))


def validate_storage(obj: Json) -> None:
    """Raise on unreadable storage sizes, before a scheduling cycle reads them."""
    spec = obj.get("spec") or {}
    match obj["kind"]:
        case "PersistentVolume":
            _read_resources(obj, "spec.capacity", spec.get("capacity"))
        case "PersistentVolumeClaim":
            _read_resources(obj, "spec.resources.requests", (spec.get("resources") or {}).get("requests"))
        case "CSIStorageCapacity":
            sizes: Json = {name: obj[name] for name in ("capacity", "maximumVolumeSize") if name in obj}
            _read_resources(obj, "", sizes)


def is_counted(name: str) -> bool:
    """Does the scheduler account for this resource? It ignores unknown names, such as `storage`."""
    if name in ("cpu", "memory", "ephemeral-storage", "pods"):
        return True
    return name.startswith(("hugepages-", "attachable-volumes-")) or ("/" in name and not name.startswith("requests."))


def _pod_level(pod: Json) -> ExactResources:
    """Pod-level requests."""
    asked = _read_resources(pod, "spec.resources.requests", (pod["spec"].get("resources") or {}).get("requests"))
    return {name: amount for name, amount in asked.items() if name in POD_LEVEL or name.startswith("hugepages-")}


def _of_pod(pod: Json, use_status: bool, missing: ExactResources = _NOTHING) -> ExactResources:
    """`missing`: default requests of a container."""
    status = pod.get("status") or {}
    total = _of_containers(pod, use_status, missing)
    pod_level = _pod_level(pod)
    resized = pod_level
    if use_status and "resources" in status:
        actual = _read_resources(pod, "status.resources.requests", status["resources"].get("requests"))
        allocated = _read_resources(pod, "status.allocatedResources", status.get("allocatedResources"))
        resized = _while_resized(pod, pod_level, actual, allocated)
    for name in pod_level:
        total[name] = resized.get(name, quantity.ZERO)
    return _sum(total, _overhead(pod))


def _overhead(pod: Json) -> ExactResources:
    return _read_resources(pod, "spec.overhead", pod["spec"].get("overhead"))


def _of_containers(pod: Json, use_status: bool, missing: ExactResources) -> ExactResources:
    """The maximum of concurrent requests of containers.

    Ordinary containers run together. Init containers run one after the other before them; one that restarts always
    (a sidecar) stays and runs beside all that follow.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    statuses: dict[str, Json] = {}
    if use_status:
        listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
        statuses = {item["name"]: item for item in listed}
    running: ExactResources = {}
    for index, container in enumerate(spec.get("containers") or ()):
        running = _sum(running, {**missing, **_of_container(pod, f"spec.containers[{index}]", container, statuses)})
    sidecars: ExactResources = {}
    starting: ExactResources = {}
    for index, container in enumerate(spec.get("initContainers") or ()):
        is_sidecar = container.get("restartPolicy") == "Always"
        reported = statuses if is_sidecar else {}
        needed = {**missing, **_of_container(pod, f"spec.initContainers[{index}]", container, reported)}
        if is_sidecar:
            running, sidecars = _sum(running, needed), _sum(sidecars, needed)
            starting = _maximum(starting, sidecars)
        else:
            starting = _maximum(starting, _sum(sidecars, needed))
    return _maximum(running, starting)


def _of_container(pod: Json, path: str, container: Json, statuses: dict[str, Json]) -> ExactResources:
    resources = _read_resources(pod, f"{path}.resources.requests", (container.get("resources") or {}).get("requests"))
    reported = statuses.get(container["name"], {})
    if "resources" not in reported:
        return resources
    actual = _read_resources(pod, f"{path}: status requests", reported["resources"].get("requests"))
    allocated = _read_resources(pod, f"{path}: status allocatedResources", reported.get("allocatedResources"))
    return _while_resized(pod, resources, actual, allocated)


def _while_resized(
    pod: Json, exact_resources: ExactResources, actual: ExactResources, allocated: ExactResources
) -> ExactResources:
    if _is_resize_infeasible(pod):
        return _maximum(actual, allocated)
    return _maximum(_maximum(exact_resources, actual), allocated)


def _is_resize_infeasible(pod: Json) -> bool:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _sum(quantities: ExactResources, other: ExactResources) -> ExactResources:
    return {
        name: quantities.get(name, quantity.ZERO) + other.get(name, quantity.ZERO) for name in {**quantities, **other}
    }


def _maximum(quantities: ExactResources, other: ExactResources) -> ExactResources:
    """The larger of both, by name."""
    merged = dict(quantities)
    for name, amount in other.items():
        if name not in merged or amount.nano > merged[name].nano:
            merged[name] = amount
    return merged


def _round_up(exact: ExactResources) -> ResourceList:
    return {
        name: amount.milli_value() if name == "cpu" else amount.value()
        for name, amount in exact.items()
        if is_counted(name)
    }


def _read_resources(owner: Json, field: str, amounts: Json | None) -> ExactResources:
    read: ExactResources = {}
    for name, text in (amounts or {}).items():
        try:
            read[name] = quantity.read_quantity(text)
        except ValueError as error:
            metadata = owner["metadata"]
            key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
            raise errors.InvalidObject(
                owner["kind"], key, f"{field}[{name}]" if field else name, text, quantity.ACCEPTED_QUANTITY
            ) from error
    return read
