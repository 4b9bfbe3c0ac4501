"""What kubectl shows of the built-in kinds: the cells that take more than a look at one field."""

from typing import Any

from windlass.apiserver.columns import AGE, NAME, Column, at, since
from windlass.apiserver.types.model import Json

_ROLE = "node-role.kubernetes.io/"


def _node_status(node: Json, now_s: float) -> Any:
    conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions") or ()}
    status = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "Unknown")
    if conditions.get("Ready") == "Unknown":
        status = "NotReady"
    return f"{status},SchedulingDisabled" if node["spec"].get("unschedulable") else status


def _node_roles(node: Json, now_s: float) -> Any:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    roles |= {labels["kubernetes.io/role"]} if labels.get("kubernetes.io/role") else set()
    return ",".join(sorted(roles)) or "<none>"


def _node_address(kind: str) -> Column:
    def render(node: Json, now_s: float) -> Any:
        addresses = node["status"].get("addresses") or ()
        return next((address["address"] for address in addresses if address["type"] == kind), "<none>")

    return Column(f"{kind.removesuffix('IP')}-IP", render, priority=1)


def _pod_ready(pod: Json, now_s: float) -> Any:
    statuses = pod["status"].get("containerStatuses") or ()
    ready = sum(1 for container in statuses if container.get("ready"))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(pod: Json, now_s: float) -> Any:
    status = pod["status"]
    shown = status.get("reason") or status.get("phase", "Unknown")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            if reason := (state.get(kind) or {}).get("reason"):
                shown = reason
                break
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return shown


def _pod_restarts(pod: Json, now_s: float) -> Any:
    return str(sum(container.get("restartCount", 0) for container in pod["status"].get("containerStatuses") or ()))


def _ready_of(path: str) -> Column:
    def render(obj: Json, now_s: float) -> Any:
        return f"{obj['status'].get(path, 0)}/{obj['spec'].get('replicas', 0)}"

    return Column("Ready", render)


def _count_data(obj: Json, now_s: float) -> Any:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _job_completions(job: Json, now_s: float) -> Any:
    return f"{job['status'].get('succeeded', 0)}/{job['spec'].get('completions', '1')}"


def _event_seen(event: Json, now_s: float) -> Any:
    series = (event.get("series") or {}).get("lastObservedTime")
    return since(series or event.get("lastTimestamp") or event.get("eventTime"), now_s)


def _event_object(event: Json, now_s: float) -> Any:
    involved = event.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _service_ports(service: Json, now_s: float) -> Any:
    ports = service["spec"].get("ports") or ()
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _claim_state(claim: Json, now_s: float) -> Any:
    status = claim.get("status") or {}
    states = ["allocated"] if status.get("allocation") else []
    states += ["reserved"] if status.get("reservedFor") else []
    return ",".join(states) or "pending"


def _count(name: str, path: str, priority: int = 0) -> Column:
    return at(name, path, type_="integer", missing=0, priority=priority)


NODES = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _node_roles),
    AGE,
    at("Version", ".status.nodeInfo.kubeletVersion", missing=""),
    _node_address("InternalIP"),
    _node_address("ExternalIP"),
    at("OS-Image", ".status.nodeInfo.osImage", priority=1, missing="<unknown>"),
    at("Kernel-Version", ".status.nodeInfo.kernelVersion", priority=1, missing="<unknown>"),
    at("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", priority=1, missing="<unknown>"),
)
PODS = (
    NAME,
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", _pod_restarts),
    AGE,
    at("IP", ".status.podIP", priority=1),
    at("Node", ".spec.nodeName", priority=1),
    at("Nominated Node", ".status.nominatedNodeName", priority=1),
)
NAMESPACES = (NAME, at("Status", ".status.phase"), AGE)
VOLUMES = (
    NAME,
    at("Capacity", ".spec.capacity.storage"),
    at("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
    at("Status", ".status.phase"),
    at("Claim", ".spec.claimRef.name", missing=""),
    at("StorageClass", ".spec.storageClassName", missing=""),
    AGE,
)
CLAIMS = (
    NAME,
    at("Status", ".status.phase"),
    at("Volume", ".spec.volumeName", missing=""),
    at("Capacity", ".status.capacity.storage", missing=""),
    at("StorageClass", ".spec.storageClassName", missing=""),
    AGE,
)
SERVICES = (
    NAME,
    at("Type", ".spec.type"),
    at("Cluster-IP", ".spec.clusterIP"),
    Column("Port(s)", _service_ports),
    AGE,
)
CONFIG_MAPS = (NAME, Column("Data", _count_data, "integer"), AGE)
SECRETS = (NAME, at("Type", ".type"), Column("Data", _count_data, "integer"), AGE)
EVENTS = (
    Column("Last Seen", _event_seen),
    at("Type", ".type", missing=""),
    at("Reason", ".reason", missing=""),
    Column("Object", _event_object),
    at("Message", ".message", missing=""),
    Column("Name", NAME.render, format="name", priority=1),
)
DEPLOYMENTS = (
    NAME,
    _ready_of("readyReplicas"),
    _count("Up-to-date", ".status.updatedReplicas"),
    _count("Available", ".status.availableReplicas"),
    AGE,
)
REPLICA_SETS = (
    NAME,
    _count("Desired", ".spec.replicas"),
    _count("Current", ".status.replicas"),
    _count("Ready", ".status.readyReplicas"),
    AGE,
)
STATEFUL_SETS = (NAME, _ready_of("readyReplicas"), AGE)
DAEMON_SETS = (
    NAME,
    _count("Desired", ".status.desiredNumberScheduled"),
    _count("Current", ".status.currentNumberScheduled"),
    _count("Ready", ".status.numberReady"),
    _count("Up-to-date", ".status.updatedNumberScheduled"),
    _count("Available", ".status.numberAvailable"),
    AGE,
)
JOBS = (NAME, Column("Completions", _job_completions), AGE)
BUDGETS = (
    NAME,
    at("Min Available", ".spec.minAvailable", missing="N/A"),
    at("Max Unavailable", ".spec.maxUnavailable", missing="N/A"),
    _count("Allowed Disruptions", ".status.disruptionsAllowed"),
    AGE,
)
STORAGE_CLASSES = (
    NAME,
    at("Provisioner", ".provisioner"),
    at("ReclaimPolicy", ".reclaimPolicy"),
    at("VolumeBindingMode", ".volumeBindingMode"),
    AGE,
)
LEASES = (NAME, at("Holder", ".spec.holderIdentity", missing=""), AGE)
PRIORITY_CLASSES = (
    NAME,
    at("Value", ".value", type_="integer", missing=0),
    at("Global-Default", ".globalDefault", missing=False),
    AGE,
)
DEVICE_CLAIMS = (NAME, Column("State", _claim_state), AGE)
ATTACHMENTS = (
    NAME,
    at("Attacher", ".spec.attacher"),
    at("PV", ".spec.source.persistentVolumeName"),
    at("Node", ".spec.nodeName"),
    at("Attached", ".status.attached"),
    AGE,
)
DEFINITIONS = (NAME, Column("Created At", lambda obj, now_s: obj["metadata"].get("creationTimestamp"), "date"))
DEFAULT = (NAME, AGE)
