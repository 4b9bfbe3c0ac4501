"""Printer columns: the tables of `kubectl get`, for built-in kinds and from a CRD's additionalPrinterColumns.

A column is a JSON path or a function of the object. Age and duration have kubectl's format.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass.apiserver.value_types import Json
from windlass.kube import time_formats

_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
      | \[\?\(@\.(?P<field>[\w.\-/]+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[(?P<mark>["'])(?P<key>.*?)(?P=mark)\]""",
    re.VERBOSE,
)

JsonPathGetter = Callable[[Any], list[Any]]


@functools.lru_cache(maxsize=1024)
def compile_json_path(path: str) -> JsonPathGetter | None:
    """A function that finds the values at a path; None for unsupported paths."""
    path = path if path.startswith(".") or path.startswith("[") else f".{path}"
    steps: list[JsonPathGetter] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        steps.append(_make_step(step))
        at = step.end()

    def find(value: Any) -> list[Any]:
        values = [value]
        for take in steps:
            values = [item for value in values for item in take(value)]
        return values

    return find


def _make_step(step: re.Match[str]) -> JsonPathGetter:
    if step["name"] is not None or step["key"] is not None:
        name = re.sub(r"\\(.)", r"\1", step["name"] or step["key"])
        return lambda value: [value[name]] if isinstance(value, dict) and name in value else []
    if step["index"] is not None:
        index = int(step["index"])
        return lambda value: value[index : index + 1 or None] if isinstance(value, list) else []
    if step["all"] is not None:
        return lambda value: list(value.values() if isinstance(value, dict) else value or ())
    field, desired = step["field"].split("."), step["value"]
    return lambda value: [item for item in value or () if _field_equals(item, field, desired)] if value else []


def _field_equals(item: Any, field: list[str], desired: str) -> bool:
    for name in field:
        if not isinstance(item, dict):
            return False
        item = item.get(name)
    return str(item) == desired


RenderCell = Callable[[Json, float], Any]
"""A cell: from the object and the time now."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Columns of priority above 0 are shown with `-o wide` only."""

    name: str
    render: RenderCell
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


def name_of(obj: Json, now_s: float) -> Any:
    return obj["metadata"]["name"]


def age_of(obj: Json, now_s: float) -> Any:
    return format_age(obj["metadata"].get("creationTimestamp"), now_s)


NAME = Column("Name", name_of, format="name")


def column_at(name: str, path: str, *, type_: str = "string", priority: int = 0, missing: Any = "<none>") -> Column:
    """A column of the value at a path, or `missing`."""
    find = compile_json_path(path) or (lambda value: [])

    def render(obj: Json, now_s: float) -> Any:
        values = find(obj)
        return values[0] if values and values[0] not in (None, "") else missing

    return Column(name, render, type_, priority=priority)


def format_age(time: Any, now_s: float) -> str:
    """The age of a time in kubectl's format."""
    if not time:
        return "<unknown>"
    try:
        return format_human_duration(now_s - time_formats.parse_server_time(time))
    except ValueError:
        return "<invalid>"


def format_human_duration(seconds: float) -> str:
    """A duration in at most two units: `45s`, `3m20s`, `5h`, `12d`."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    rest = days % 365
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


AGE = Column("Age", age_of)


def custom_column(spec: Json) -> Column:
    """A column of a CRD's `additionalPrinterColumns`."""
    find = compile_json_path(spec["jsonPath"]) or (lambda value: [])
    kind = spec["type"]

    def render(obj: Json, now_s: float) -> Any:
        values = find(obj)
        if not values or values[0] is None:
            return None
        if kind == "date":
            return format_age(values[0], now_s)
        value = values[0] if len(values) == 1 else " ".join(str(item) for item in values)
        return value if kind != "string" or isinstance(value, str) else _format_cell(value)

    return Column(
        spec["name"], render, kind, spec.get("format", ""), spec.get("priority", 0), spec.get("description", "")
    )


def _format_cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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


def _ready_column(path: str) -> Column:
    def render(obj: Json, now_s: float) -> Any:
        return f"{obj['status'].get(path, 0)}/{obj['spec'].get('replicas', 0)}"

    return Column("Ready", render)


def _count_data(obj: Json, now_s: float) -> Any:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _job_completions(job: Json, now_s: float) -> Any:
    return f"{job['status'].get('succeeded', 0)}/{job['spec'].get('completions', '1')}"


def _event_seen(event: Json, now_s: float) -> Any:
    series = (event.get("series") or {}).get("lastObservedTime")
    return format_age(series or event.get("lastTimestamp") or event.get("eventTime"), now_s)


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


def _count_column(name: str, path: str, priority: int = 0) -> Column:
    return column_at(name, path, type_="integer", missing=0, priority=priority)


NODES = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _node_roles),
    AGE,
    column_at("Version", ".status.nodeInfo.kubeletVersion", missing=""),
    _node_address("InternalIP"),
    _node_address("ExternalIP"),
    column_at("OS-Image", ".status.nodeInfo.osImage", priority=1, missing="<unknown>"),
    column_at("Kernel-Version", ".status.nodeInfo.kernelVersion", priority=1, missing="<unknown>"),
    column_at("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", priority=1, missing="<unknown>"),
)

PODS = (
    NAME,
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", _pod_restarts),
    AGE,
    column_at("IP", ".status.podIP", priority=1),
    column_at("Node", ".spec.nodeName", priority=1),
    column_at("Nominated Node", ".status.nominatedNodeName", priority=1),
)

NAMESPACES = (NAME, column_at("Status", ".status.phase"), AGE)

PERSISTENT_VOLUMES = (
    NAME,
    column_at("Capacity", ".spec.capacity.storage"),
    column_at("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
    column_at("Status", ".status.phase"),
    column_at("Claim", ".spec.claimRef.name", missing=""),
    column_at("StorageClass", ".spec.storageClassName", missing=""),
    AGE,
)

PERSISTENT_VOLUME_CLAIMS = (
    NAME,
    column_at("Status", ".status.phase"),
    column_at("Volume", ".spec.volumeName", missing=""),
    column_at("Capacity", ".status.capacity.storage", missing=""),
    column_at("StorageClass", ".spec.storageClassName", missing=""),
    AGE,
)

SERVICES = (
    NAME,
    column_at("Type", ".spec.type"),
    column_at("Cluster-IP", ".spec.clusterIP"),
    Column("Port(s)", _service_ports),
    AGE,
)

CONFIG_MAPS = (NAME, Column("Data", _count_data, "integer"), AGE)

SECRETS = (NAME, column_at("Type", ".type"), Column("Data", _count_data, "integer"), AGE)

EVENTS = (
    Column("Last Seen", _event_seen),
    column_at("Type", ".type", missing=""),
    column_at("Reason", ".reason", missing=""),
    Column("Object", _event_object),
    column_at("Message", ".message", missing=""),
    Column("Name", NAME.render, format="name", priority=1),
)

DEPLOYMENTS = (
    NAME,
    _ready_column("readyReplicas"),
    _count_column("Up-to-date", ".status.updatedReplicas"),
    _count_column("Available", ".status.availableReplicas"),
    AGE,
)

REPLICA_SETS = (
    NAME,
    _count_column("Desired", ".spec.replicas"),
    _count_column("Current", ".status.replicas"),
    _count_column("Ready", ".status.readyReplicas"),
    AGE,
)

STATEFUL_SETS = (NAME, _ready_column("readyReplicas"), AGE)

DAEMON_SETS = (
    NAME,
    _count_column("Desired", ".status.desiredNumberScheduled"),
    _count_column("Current", ".status.currentNumberScheduled"),
    _count_column("Ready", ".status.numberReady"),
    _count_column("Up-to-date", ".status.updatedNumberScheduled"),
    _count_column("Available", ".status.numberAvailable"),
    AGE,
)

JOBS = (NAME, Column("Completions", _job_completions), AGE)

POD_DISRUPTION_BUDGETS = (
    NAME,
    column_at("Min Available", ".spec.minAvailable", missing="N/A"),
    column_at("Max Unavailable", ".spec.maxUnavailable", missing="N/A"),
    _count_column("Allowed Disruptions", ".status.disruptionsAllowed"),
    AGE,
)

STORAGE_CLASSES = (
    NAME,
    column_at("Provisioner", ".provisioner"),
    column_at("ReclaimPolicy", ".reclaimPolicy"),
    column_at("VolumeBindingMode", ".volumeBindingMode"),
    AGE,
)

LEASES = (NAME, column_at("Holder", ".spec.holderIdentity", missing=""), AGE)

PRIORITY_CLASSES = (
    NAME,
    column_at("Value", ".value", type_="integer", missing=0),
    column_at("Global-Default", ".globalDefault", missing=False),
    AGE,
)

RESOURCE_CLAIMS = (NAME, Column("State", _claim_state), AGE)

VOLUME_ATTACHMENTS = (
    NAME,
    column_at("Attacher", ".spec.attacher"),
    column_at("PV", ".spec.source.persistentVolumeName"),
    column_at("Node", ".spec.nodeName"),
    column_at("Attached", ".status.attached"),
    AGE,
)

CUSTOM_RESOURCE_DEFINITIONS = (
    NAME,
    Column("Created At", lambda obj, now_s: obj["metadata"].get("creationTimestamp"), "date"),
)

DEFAULT_COLUMNS = (NAME, AGE)
