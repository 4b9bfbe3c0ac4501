"""MachineDeployments of worker pools, shared by the EKS Anywhere and Lattice controllers. Pure.

A pool is static (its replicas come from its spec) or autoscaled (limits are annotations, and replicas are the
autoscaler's). A MachineDeployment is either made here or adopted:

- Made here: the pool names its templates. `build_manifest` gives the MachineDeployment in v1beta1 or v1beta2;
  `plan_apply` compares it with the live object. Manifests are written by server-side apply, always whole: leaving out
  a field that we applied removes it. So before a pool becomes autoscaled, a second field manager applies the current
  replicas (`ReplicasHandover`), and only then does the first one release the field. Selector and labels are explicit
  for the same reason.
- Adopted: the product's own controller makes it. `plan_adoption` applies the limits where nobody else does, and hands
  replicas over; every other field stays as it is.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import errors, selectors
from windlass.kube import unstructured


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """Min and max size of an autoscaled pool, both included."""

    min: int
    max: int

    def allow(self, replicas: int) -> bool:
        return self.min <= replicas <= self.max

    def clamp(self, replicas: int) -> int:
        """The nearest allowed size. With min greater than max the min counts, as in Cluster API."""
        return max(min(replicas, self.max), self.min)


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Size of a pool: replicas and, if autoscaled, limits."""

    replicas: int
    """Desired replicas; for an autoscaled pool an upper bound of the initial size."""
    limits: ReplicaLimits | None = None

    @property
    def is_autoscaled(self) -> bool:
        """True if the pool has limits. All differences between static and autoscaled pools depend on this property."""
        return self.limits is not None


MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

_MAX_INT32 = 2**31 - 1


class InvalidSizeAnnotation(errors.WindlassError):
    """A size annotation is not a number."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f'could not parse the value of the "{name}" annotation: found {found!r}, expected an integer')


def limits_to_annotations(limits: ReplicaLimits | None) -> dict[str, str]:
    return {} if limits is None else {MIN_SIZE_ANNOTATION: str(limits.min), MAX_SIZE_ANNOTATION: str(limits.max)}


def limits_from_annotations(annotations: Mapping[str, str]) -> ReplicaLimits | None:
    """Limits from annotations; None unless both are set. InvalidSizeAnnotation if one is not a number."""
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
"""Supported API versions of Cluster API, preferred first."""

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

DEPLOYMENT_NAME_LABEL = "cluster.x-k8s.io/deployment-name"


@dataclass(frozen=True, slots=True)
class MachineDeployment:
    """A live MachineDeployment."""

    name: str
    replicas: int | None = None
    """`spec.replicas`; None if unset."""
    generation: int = 0
    observed_generation: int = 0
    current: int = 0
    ready: int = 0
    up_to_date: int = 0
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Status of each condition, by type."""
    is_deleting: bool = False
    body: Mapping[str, Any] = field(default_factory=dict)
    """The object as read."""

    @property
    def annotations(self) -> Mapping[str, str]:
        return (self.body.get("metadata") or {}).get("annotations") or {}

    @property
    def cluster(self) -> str:
        """The name of its Cluster; empty if unset."""
        labels = (self.body.get("metadata") or {}).get("labels") or {}
        return (self.body.get("spec") or {}).get("clusterName") or labels.get(CLUSTER_NAME_LABEL) or ""

    @property
    def failure_domain(self) -> str:
        """The failure domain of its Machines; empty if unset."""
        template = (self.body.get("spec") or {}).get("template") or {}
        return (template.get("spec") or {}).get("failureDomain") or ""

    @property
    def limits(self) -> ReplicaLimits | None:
        """Limits from its annotations; None if they are missing or invalid."""
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
        conditions={item.get("type") or "": item.get("status") or "" for item in status.get("conditions") or ()},
        is_deleting=bool(metadata.get("deletionTimestamp")),
        body=body,
    )


def _up_to_date_replicas(status: Mapping[str, Any]) -> int:
    """Up-to-date replicas; v1beta1 names the field `updatedReplicas`."""
    found = status.get("upToDateReplicas")
    return (status.get("updatedReplicas") if found is None else found) or 0


Json = dict[str, Any]

CLUSTER_API_V1BETA1 = f"{CLUSTER_API_GROUP}/v1beta1"

_MAX_LABEL_CHARACTERS = 63

_WHOLE_VERSION = re.compile(r"v?\d+\.\d+\.\d+\S*", re.ASCII)
"""A full version. A partial one such as `1.36` is not valid for a Machine; the version then comes from the
templates."""


class IncompleteMachineDeployment(errors.WindlassError):
    """A required field of a MachineDeployment is missing."""


@dataclass(frozen=True, slots=True)
class MachineTemplate:
    """Template of a Machine's spec: bootstrap, infrastructure, version."""

    bootstrap: Mapping[str, Any] = field(default_factory=dict)
    """`configRef`, or `dataSecretName`."""
    infrastructure: Mapping[str, Any] = field(default_factory=dict)
    """An object reference: `apiGroup` (or `apiVersion`), `kind`, `name`."""
    version: str = ""

    @property
    def is_named(self) -> bool:
        """True if the pool names templates. If it names none, its MachineDeployment is adopted."""
        return bool(self.bootstrap or self.infrastructure)


@dataclass(frozen=True, slots=True)
class DesiredMachineDeployment:
    """A desired MachineDeployment."""

    api_version: str
    namespace: str
    name: str
    cluster: str
    machine: MachineTemplate
    limits: ReplicaLimits | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its Machines, in addition to the selector labels."""


def parse_machine_template(given: Mapping[str, Any], version: str = "") -> MachineTemplate:
    """The machine template of a pool that references templates as Cluster API does."""
    return MachineTemplate(given.get("bootstrap") or {}, given.get("infrastructureRef") or {}, version)


def build_manifest(desired: DesiredMachineDeployment, replicas: int | None) -> Json:
    """The manifest to apply, without `replicas` if None. IncompleteMachineDeployment if a reference is incomplete."""
    if len(desired.name) > _MAX_LABEL_CHARACTERS:
        found, most = len(desired.name), _MAX_LABEL_CHARACTERS
        raise IncompleteMachineDeployment(
            f"MachineDeployment {desired.name}: found {found} characters, expected {most} at most"
        )
    own = {
        CLUSTER_NAME_LABEL: desired.cluster,
        DEPLOYMENT_NAME_LABEL: desired.name,
    }
    metadata: Json = {
        "name": desired.name,
        "namespace": desired.namespace,
        "labels": {CLUSTER_NAME_LABEL: desired.cluster},
    }
    if bounds := limits_to_annotations(desired.limits):
        metadata["annotations"] = bounds
    spec: Json = {
        "clusterName": desired.cluster,
        "selector": {"matchLabels": own},
        "template": {"metadata": {"labels": {**desired.labels, **own}}, "spec": _build_machine_spec(desired)},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": desired.api_version, "kind": "MachineDeployment", "metadata": metadata, "spec": spec}


def _build_machine_spec(desired: DesiredMachineDeployment) -> Json:
    machine = desired.machine
    spec: Json = {
        "clusterName": desired.cluster,
        "bootstrap": _build_bootstrap(desired),
        "infrastructureRef": _build_reference(desired, machine.infrastructure, "infrastructureRef"),
    }
    if _WHOLE_VERSION.fullmatch(machine.version):
        spec["version"] = f"v{machine.version.removeprefix('v')}"
    return spec


def _build_bootstrap(desired: DesiredMachineDeployment) -> Json:
    given = desired.machine.bootstrap
    if given.get("configRef"):
        return {"configRef": _build_reference(desired, given["configRef"], "bootstrap.configRef")}
    if given.get("dataSecretName"):
        return {"dataSecretName": given["dataSecretName"]}
    raise IncompleteMachineDeployment("bootstrap: found nothing, expected configRef or dataSecretName")


def _build_reference(desired: DesiredMachineDeployment, given: Mapping[str, Any], path: str) -> Json:
    """An object reference: v1beta2 has `apiGroup`; v1beta1 has `apiVersion` and `namespace`."""
    for name in ("kind", "name"):
        if not given.get(name):
            raise IncompleteMachineDeployment(f"{path}.{name}: found nothing, expected one")
    version = given.get("apiVersion") or ""
    named = {"kind": given["kind"], "name": given["name"]}
    if desired.api_version == CLUSTER_API_V1BETA1:
        if not version:
            raise IncompleteMachineDeployment(
                f"{path}.apiVersion: found nothing, expected one: {CLUSTER_API_V1BETA1} refers by version"
            )
        return {"apiVersion": version, **named, "namespace": desired.namespace}
    group = given.get("apiGroup") or version.partition("/")[0]
    if not group:
        raise IncompleteMachineDeployment(f"{path}.apiGroup: found nothing, expected one")
    return {"apiGroup": group, **named}


FieldPath = tuple[str, ...]

_REPLICAS_PATH = ("spec", "replicas")


@dataclass(frozen=True, slots=True)
class ReplicasHandover:
    """Replicas to be applied by the second field manager."""

    replicas: int
    force: bool
    """True if the value differs from the live one, so that the apply needs force."""


@dataclass(frozen=True, slots=True)
class ApplyMachineDeployment:
    """Apply one MachineDeployment: first the handover; the manifest only if the handover succeeds."""

    name: str
    body: Json | None
    """The manifest; None if only the handover is needed."""
    handover: ReplicasHandover | None = None
    uid: str = ""
    resource_version: str = ""
    manager: str = ""
    """The field manager of an adopted MachineDeployment; empty for one that is made here."""


@dataclass(frozen=True, slots=True)
class DeleteMachineDeployment:
    """Delete a MachineDeployment whose pool was removed."""

    name: str
    uid: str


MachineDeploymentStep = ApplyMachineDeployment | DeleteMachineDeployment


def handover_manager(manager: str) -> str:
    """The field manager that takes over `spec.replicas`."""
    return f"{manager}-handover"


def plan_apply(
    desired: DesiredMachineDeployment, size: PoolSize, initial: int | None, live: MachineDeployment | None, manager: str
) -> ApplyMachineDeployment | None:
    """The step toward the desired state; None if nothing differs.

    `initial` is the size of a new autoscaled pool; None leaves it to Cluster API. IncompleteMachineDeployment if the
    manifest cannot be built.
    """
    if live is None:
        return ApplyMachineDeployment(
            desired.name, build_manifest(desired, initial if size.is_autoscaled else size.replicas)
        )
    body = build_manifest(desired, None if size.is_autoscaled else size.replicas)
    handover = None if size.limits is None else plan_handover(live, size.limits, manager)
    is_done = is_applied(live.body, body, manager)
    if is_done and handover is None:
        return None
    metadata = live.body.get("metadata") or {}
    written = None if is_done else body
    return ApplyMachineDeployment(
        desired.name, written, handover, metadata.get("uid") or "", metadata.get("resourceVersion") or ""
    )


def plan_handover(live: MachineDeployment, limits: ReplicaLimits, manager: str) -> ReplicasHandover | None:
    """The handover of `spec.replicas`; None if another manager owns it already.

    A pool that becomes autoscaled is clamped to its limits once, as Cluster API's webhook does. An autoscaled pool
    keeps its replicas.
    """
    owners = _find_owners(live, _REPLICAS_PATH)
    if owners - {(manager, "Apply"), (handover_manager(manager), "Apply")}:
        return None
    return _plan_replicas(live, _initial_autoscaled_size(live, limits), manager)


def _initial_autoscaled_size(live: MachineDeployment, limits: ReplicaLimits) -> int:
    if live.replicas is None:
        return limits.min
    return live.replicas if live.limits is not None else limits.clamp(live.replicas)


def _plan_replicas(live: MachineDeployment, desired: int, manager: str) -> ReplicasHandover | None:
    """The handover that makes `replicas` the desired ones; None if the second field manager applied them already."""
    is_ours = (handover_manager(manager), "Apply") in _find_owners(live, _REPLICAS_PATH)
    return None if is_ours and desired == live.replicas else ReplicasHandover(desired, force=desired != live.replicas)


_Owner = tuple[str, str]
"""Field manager and operation."""


def _find_owners(live: MachineDeployment, path: FieldPath) -> set[_Owner]:
    return {(owner.manager, owner.operation) for owner in unstructured.find_field_owners(live.body, path)}


def _find_makers(live: MachineDeployment) -> set[_Owner]:
    """Who applies the MachineDeployment as a whole: the product's controller, or its command line."""
    return {owner for owner in _find_owners(live, ("spec", "clusterName")) if owner[1] == "Apply"}


def find_settled_replicas(live: MachineDeployment) -> int | None:
    """The replicas of an autoscaled MachineDeployment, unless its maker decided them.

    Replicas without an owner are settled too: a scale to 0 leaves none, because the Scale of the API omits 0.
    """
    return live.replicas if live.limits is not None and not _is_decided_by_maker(live) else None


def _is_decided_by_maker(live: MachineDeployment) -> bool:
    owners = _find_owners(live, _REPLICAS_PATH)
    return bool(owners) and owners <= _find_makers(live)


def plan_adoption(
    live: MachineDeployment,
    size: PoolSize,
    manager: str,
    *,
    settled: int | None = None,
    is_whole_pool: bool = True,
) -> ApplyMachineDeployment | None:
    """The step for a MachineDeployment that the product's own controller makes; None if nothing differs.

    Limits are applied only where nobody else applies them, so that they go when the product removes them. `settled` are
    the replicas found by `find_settled_replicas` before: a maker that applies a lower count to an autoscaled pool
    would otherwise delete the autoscaler's nodes. `is_whole_pool` is False if other MachineDeployments share the count.
    """
    limits = {
        name: value
        for name, value in limits_to_annotations(size.limits).items()
        if live.annotations.get(name) != value or not _is_applied_by_other(live, name, manager)
    }
    metadata = live.body.get("metadata") or {}
    body: Json = {"metadata": {"name": live.name, "namespace": metadata.get("namespace") or ""}}
    if limits:
        body["metadata"]["annotations"] = limits
    handover = _plan_adopted_replicas(live, size, manager, settled, is_whole_pool)
    is_done = is_applied(live.body, body, manager)
    if is_done and handover is None:
        return None
    written = None if is_done else body
    return ApplyMachineDeployment(
        live.name, written, handover, metadata.get("uid") or "", metadata.get("resourceVersion") or "", manager
    )


def _is_applied_by_other(live: MachineDeployment, annotation: str, manager: str) -> bool:
    return bool(_find_owners(live, ("metadata", "annotations", annotation)) - {(manager, "Apply")})


def _plan_adopted_replicas(
    live: MachineDeployment, size: PoolSize, manager: str, settled: int | None, is_whole_pool: bool
) -> ReplicasHandover | None:
    """The handover of an adopted pool; None where the product's controller or the autoscaler decides."""
    owners, handed = _find_owners(live, _REPLICAS_PATH), (handover_manager(manager), "Apply")
    if size.limits is None:
        is_left_to_us = owners == {handed} and is_whole_pool
        return _plan_replicas(live, size.replicas, manager) if is_left_to_us else None
    if owners - _find_makers(live) - {handed}:
        return None
    desired = _initial_autoscaled_size(live, size.limits)
    is_reset = settled is not None and settled > desired and live.limits is not None and _is_decided_by_maker(live)
    return _plan_replicas(live, settled if is_reset and settled is not None else desired, manager)


def is_applied(live: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> bool:
    """True if applying `body` would change nothing: its fields exist, the manager owns them and owns no others.

    Atomic maps and lists are a single field in managedFields.
    """
    desired = {path: value for path, value in _leaf_fields(body) if path not in _IDENTITY_PATHS}
    if not all(unstructured.is_subset(_lookup_field(live, path), value) for path, value in desired.items()):
        return False
    owned = _owned_paths(live, manager)
    is_ours = all(any(path[: len(item)] == item for item in owned) for path in desired)
    return is_ours and all(any(path[: len(entry)] == entry for path in desired) for entry in owned)


_IDENTITY_PATHS = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def _owned_paths(live: Mapping[str, Any], manager: str) -> set[FieldPath]:
    """Field paths that the manager's apply owns; a list counts as one path."""
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
