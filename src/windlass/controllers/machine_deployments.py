"""MachineDeployments of worker pools, shared by the EKS Anywhere and Lattice controllers. Pure.

A pool is static (we own its replicas) or autoscaled (limits are annotations, and replicas are the autoscaler's).
`build_manifest` gives the MachineDeployment in v1beta1 or v1beta2; `plan_apply` compares it with the live object.

Manifests are written by server-side apply, always whole: leaving out a field that we applied removes it. So before a
pool becomes autoscaled, a second field manager applies the current replicas (`ReplicasHandover`), and only then does
the first one release the field. Selector and labels are explicit for the same reason.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import errors, selectors
from windlass.kube import unstructured


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """Between which sizes an autoscaler moves a pool, both included."""

    min: int
    max: int

    def allow(self, replicas: int) -> bool:
        return self.min <= replicas <= self.max

    def clamp(self, replicas: int) -> int:
        """The nearest size that is allowed. Of bounds in the wrong order the lower one counts, as in Cluster API."""
        return max(min(replicas, self.max), self.min)


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many workers a pool has, and who says so."""

    replicas: int
    """What is asked for. An autoscaled pool begins with it at most."""
    limits: ReplicaLimits | None = None

    @property
    def is_autoscaled(self) -> bool:
        """The one predicate: everything that differs between the two kinds of pool asks this."""
        return self.limits is not None


MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

_MAX_INT32 = 2**31 - 1


class InvalidSizeAnnotation(errors.WindlassError):
    """An annotation that should be a number is none."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f'could not parse the value of the "{name}" annotation: found {found!r}, expected an integer')


def limits_to_annotations(limits: ReplicaLimits | None) -> dict[str, str]:
    return {} if limits is None else {MIN_SIZE_ANNOTATION: str(limits.min), MAX_SIZE_ANNOTATION: str(limits.max)}


def limits_from_annotations(annotations: Mapping[str, str]) -> ReplicaLimits | None:
    """The bounds, if both are there. `Unreadable` if one is no number."""
    if MIN_SIZE_ANNOTATION not in annotations or MAX_SIZE_ANNOTATION not in annotations:
        return None
    return ReplicaLimits(_parse_size(annotations, MIN_SIZE_ANNOTATION), _parse_size(annotations, MAX_SIZE_ANNOTATION))


def _parse_size(annotations: Mapping[str, str], name: str) -> int:
    found = annotations[name]
    number = selectors.parse_int64(found)
    if number is not None and -_MAX_INT32 - 1 <= number <= _MAX_INT32:
        return number
    raise InvalidSizeAnnotation(name, found)


CLUSTER_API_GROUP = "cluster.x-k8s.io"

CLUSTER_API_VERSIONS = ("v1beta2", "v1beta1")
"""Those that can be read here, the best first."""

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

DEPLOYMENT_NAME_LABEL = "cluster.x-k8s.io/deployment-name"


@dataclass(frozen=True, slots=True)
class MachineDeployment:
    """What is known of one."""

    name: str
    replicas: int | None = None
    """What is asked for; None where nobody asks."""
    generation: int = 0
    observed_generation: int = 0
    current: int = 0
    ready: int = 0
    up_to_date: int = 0
    conditions: Mapping[str, str] = field(default_factory=dict)
    """The status of each, by type."""
    is_deleting: bool = False
    body: Mapping[str, Any] = field(default_factory=dict)
    """As it was read."""

    @property
    def annotations(self) -> Mapping[str, str]:
        return (self.body.get("metadata") or {}).get("annotations") or {}

    @property
    def cluster(self) -> str:
        """The name of the Cluster that it belongs to; empty if it does not say."""
        labels = (self.body.get("metadata") or {}).get("labels") or {}
        return (self.body.get("spec") or {}).get("clusterName") or labels.get(CLUSTER_NAME_LABEL) or ""

    @property
    def limits(self) -> ReplicaLimits | None:
        """The bounds that it carries; None as well if they cannot be read."""
        try:
            return limits_from_annotations(self.annotations)
        except InvalidSizeAnnotation:
            return None


def parse_machine_deployment(body: Mapping[str, Any]) -> MachineDeployment:
    metadata, spec, status = body.get("metadata") or {}, body.get("spec") or {}, body.get("status") or {}
    return MachineDeployment(
        name=metadata.get("name") or "",
        replicas=spec.get("replicas"),
        generation=metadata.get("generation") or 0,
        observed_generation=status.get("observedGeneration") or 0,
        current=status.get("replicas") or 0,
        ready=status.get("readyReplicas") or 0,
        up_to_date=_up_to_date_replicas(status),
        conditions={each.get("type") or "": each.get("status") or "" for each in status.get("conditions") or ()},
        is_deleting=bool(metadata.get("deletionTimestamp")),
        body=body,
    )


def _up_to_date_replicas(status: Mapping[str, Any]) -> int:
    """v1beta1 calls it otherwise."""
    found = status.get("upToDateReplicas")
    return (status.get("updatedReplicas") if found is None else found) or 0


Json = dict[str, Any]

CLUSTER_API_V1BETA1 = f"{CLUSTER_API_GROUP}/v1beta1"

_MAX_LABEL_CHARACTERS = 63

_WHOLE_VERSION = re.compile(r"v?\d+\.\d+\.\d+\S*", re.ASCII)
"""`1.36` names no version that a Machine could have: then the templates say which it is."""


class IncompleteMachineDeployment(errors.WindlassError):
    """No MachineDeployment can be made of what is given."""


@dataclass(frozen=True, slots=True)
class MachineTemplate:
    """What machines of a pool are made of, as Cluster API has it in a Machine's spec."""

    bootstrap: Mapping[str, Any] = field(default_factory=dict)
    """`configRef`, or `dataSecretName`."""
    infrastructure: Mapping[str, Any] = field(default_factory=dict)
    """A reference: `apiGroup` (or `apiVersion`), `kind`, `name`."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class DesiredMachineDeployment:
    """A MachineDeployment that is wanted."""

    api_version: str
    namespace: str
    name: str
    cluster: str
    machine: MachineTemplate
    limits: ReplicaLimits | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its Machines, besides those that tell whose they are."""


def parse_machine_template(given: Mapping[str, Any], version: str = "") -> MachineTemplate:
    """Out of a pool that names its templates as Cluster API does."""
    return MachineTemplate(given.get("bootstrap") or {}, given.get("infrastructureRef") or {}, version)


def build_manifest(wanted: DesiredMachineDeployment, replicas: int | None) -> Json:
    """What is applied. Replicas of None are left out. `Incomplete` if a reference is missing or lacks something."""
    if len(wanted.name) > _MAX_LABEL_CHARACTERS:
        found, most = len(wanted.name), _MAX_LABEL_CHARACTERS
        raise IncompleteMachineDeployment(
            f"MachineDeployment {wanted.name}: found {found} characters, expected {most} at most"
        )
    own = {
        CLUSTER_NAME_LABEL: wanted.cluster,
        DEPLOYMENT_NAME_LABEL: wanted.name,
    }
    metadata: Json = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "labels": {CLUSTER_NAME_LABEL: wanted.cluster},
    }
    if bounds := limits_to_annotations(wanted.limits):
        metadata["annotations"] = bounds
    spec: Json = {
        "clusterName": wanted.cluster,
        "selector": {"matchLabels": own},
        "template": {"metadata": {"labels": {**wanted.labels, **own}}, "spec": _build_machine_spec(wanted)},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": wanted.api_version, "kind": "MachineDeployment", "metadata": metadata, "spec": spec}


def _build_machine_spec(wanted: DesiredMachineDeployment) -> Json:
    machine = wanted.machine
    spec: Json = {
        "clusterName": wanted.cluster,
        "bootstrap": _build_bootstrap(wanted),
        "infrastructureRef": _build_reference(wanted, machine.infrastructure, "infrastructureRef"),
    }
    if _WHOLE_VERSION.fullmatch(machine.version):
        spec["version"] = f"v{machine.version.removeprefix('v')}"
    return spec


def _build_bootstrap(wanted: DesiredMachineDeployment) -> Json:
    given = wanted.machine.bootstrap
    if given.get("configRef"):
        return {"configRef": _build_reference(wanted, given["configRef"], "bootstrap.configRef")}
    if given.get("dataSecretName"):
        return {"dataSecretName": given["dataSecretName"]}
    raise IncompleteMachineDeployment("bootstrap: found nothing, expected configRef or dataSecretName")


def _build_reference(wanted: DesiredMachineDeployment, given: Mapping[str, Any], path: str) -> Json:
    """v1beta2 has the group alone; v1beta1 the version as well, and the namespace."""
    for name in ("kind", "name"):
        if not given.get(name):
            raise IncompleteMachineDeployment(f"{path}.{name}: found nothing, expected one")
    version = given.get("apiVersion") or ""
    named = {"kind": given["kind"], "name": given["name"]}
    if wanted.api_version == CLUSTER_API_V1BETA1:
        if not version:
            raise IncompleteMachineDeployment(
                f"{path}.apiVersion: found nothing, expected one: {CLUSTER_API_V1BETA1} refers by version"
            )
        return {"apiVersion": version, **named, "namespace": wanted.namespace}
    group = given.get("apiGroup") or version.partition("/")[0]
    if not group:
        raise IncompleteMachineDeployment(f"{path}.apiGroup: found nothing, expected one")
    return {"apiGroup": group, **named}


FieldPath = tuple[str, ...]

_REPLICAS_PATH = ("spec", "replicas")


@dataclass(frozen=True, slots=True)
class ReplicasHandover:
    """Replicas, as the second manager applies them."""

    replicas: int
    force: bool
    """Is it another value than the one that is there?"""


@dataclass(frozen=True, slots=True)
class ApplyMachineDeployment:
    """What is to be written of one MachineDeployment; the handover first, and nothing else if it fails."""

    name: str
    body: Json | None
    """None: it is as it should be, but for the handover."""
    handover: ReplicasHandover | None = None
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class DeleteMachineDeployment:
    """A MachineDeployment that nobody wants any longer."""

    name: str
    uid: str


MachineDeploymentStep = ApplyMachineDeployment | DeleteMachineDeployment


def handover_manager(manager: str) -> str:
    """The manager that replicas are handed over to."""
    return f"{manager}-handover"


def plan_apply(
    wanted: DesiredMachineDeployment, size: PoolSize, initial: int | None, live: MachineDeployment | None, manager: str
) -> ApplyMachineDeployment | None:
    """What makes it so; None if it is. `initial` is the size of a new autoscaled one, None leaves it to Cluster API.

    `manifest.Incomplete` if it cannot be made.
    """
    if live is None:
        return ApplyMachineDeployment(
            wanted.name, build_manifest(wanted, initial if size.is_autoscaled else size.replicas)
        )
    body = build_manifest(wanted, None if size.is_autoscaled else size.replicas)
    handover = None if size.limits is None else plan_handover(live, size.limits, manager)
    is_done = is_applied(live.body, body, manager)
    if is_done and handover is None:
        return None
    metadata = live.body.get("metadata") or {}
    written = None if is_done else body
    return ApplyMachineDeployment(
        wanted.name, written, handover, metadata.get("uid") or "", metadata.get("resourceVersion") or ""
    )


def plan_handover(live: MachineDeployment, limits: ReplicaLimits, manager: str) -> ReplicasHandover | None:
    """None if replicas are someone else's already.

    A pool that was static until now moves into its bounds, once, as Cluster API's webhook would move it. One that was
    autoscaled keeps what it has.
    """
    ours = {(manager, "Apply"), (handover_manager(manager), "Apply")}
    owners = {(owner.manager, owner.operation) for owner in unstructured.find_field_owners(live.body, _REPLICAS_PATH)}
    if owners - ours:
        return None
    found = live.replicas
    wanted = limits.min if found is None else found if live.limits is not None else limits.clamp(found)
    if wanted == found and (handover_manager(manager), "Apply") in owners:
        return None
    return ReplicasHandover(wanted, force=wanted != found)


def is_applied(live: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> bool:
    """Whether to apply this would change nothing: all of it is there, and ours, and nothing else is.

    Maps and lists that are owned as one piece are one field in managedFields.
    """
    wanted = {path: value for path, value in _leaf_fields(body) if path not in _IDENTITY_PATHS}
    if not all(unstructured.is_subset(_lookup_field(live, path), value) for path, value in wanted.items()):
        return False
    owned = _owned_paths(live, manager)
    is_ours = all(any(path[: len(each)] == each for each in owned) for path in wanted)
    return is_ours and all(any(path[: len(each)] == each for path in wanted) for each in owned)


_IDENTITY_PATHS = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def _owned_paths(live: Mapping[str, Any], manager: str) -> set[FieldPath]:
    """The fields that a manager applied, each list as one."""
    found: set[FieldPath] = set()
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "") == (manager, "Apply", ""):
            owner = unstructured.FieldOwner(manager, "Apply", "", entry.get("apiVersion") or "")
            found.update(_named_prefix(path) for path in unstructured.owned_paths(live, owner))
    return {path for path in found if not any(other[: len(path)] == path and other != path for other in found)}


def _named_prefix(path: unstructured.FieldPath) -> FieldPath:
    steps = []
    for step in path:
        if not isinstance(step, str):
            break
        steps.append(step)
    return tuple(steps)


def _leaf_fields(body: Mapping[str, Any], path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    for name, value in body.items():
        if isinstance(value, Mapping) and value:
            yield from _leaf_fields(value, (*path, name))
        else:
            yield (*path, name), value


def _lookup_field(live: Mapping[str, Any], path: FieldPath) -> Any:
    found: Any = live
    for step in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found
