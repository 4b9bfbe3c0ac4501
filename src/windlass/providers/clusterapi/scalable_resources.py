"""Scalable resources: MachineDeployments, MachineSets without one, and MachinePools, with their owners and Machines.

A MachineDeployment is rolling out while a MachineSet of an earlier revision has replicas; Cluster API then deletes old
Machines first, whatever is annotated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass import errors, selectors
from windlass.engine.model import node_groups
from windlass.kube import client, discovery, fields, resources, store
from windlass.kube.models import clusterapi, meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import group_annotations, group_discovery, machine_drain_rule, machines
from windlass.providers.clusterapi.group_discovery import Config
from windlass.providers.clusterapi.informers import ChangeHandler, NarrowChangeHandler, ResourceInformer
from windlass.providers.clusterapi.machines import Machine

MACHINE_DEPLOYMENT = "MachineDeployment"

MACHINE_SET = "MachineSet"

MACHINE_POOL = "MachinePool"

_MIRRORED_MACHINE_SETS = Resource(
    "machine.openshift.io/v1beta1", "machinesets", MACHINE_SET, True, clusterapi.MirroredMachineSet
)

_OWNER = "owner"

_PROVIDER_ID = "providerID"

_NODE = "nodeRef"


@dataclass(frozen=True, slots=True)
class ClusterApiObjects:
    """Everything that is followed from the start."""

    machines: ResourceInformer[Machine]
    machine_sets: ResourceInformer[clusterapi.MachineSet]
    machine_deployments: ResourceInformer[clusterapi.MachineDeployment] | None
    """None where the server has no such kind; so with the next."""
    machine_pools: ResourceInformer[clusterapi.MachinePool] | None
    mirrored: ResourceInformer[clusterapi.MirroredMachineSet] | None
    machine_drain_rules: ResourceInformer[node_groups.MachineDrainRule] | None = None
    clusters: ResourceInformer[machine_drain_rule.LabeledCluster] | None = None

    @property
    def scalable(self) -> list[ResourceInformer[Any]]:
        """Where groups are found."""
        found = (self.machine_deployments, self.machine_sets, self.machine_pools)
        return [followed for followed in found if followed is not None]

    @property
    def all(self) -> list[ResourceInformer[Any]]:
        return [self.machines, *self.scalable, *([] if self.mirrored is None else [self.mirrored])]

    @property
    def optional(self) -> list[ResourceInformer[Any]]:
        """What groups can do without: reading it may be refused."""
        return [followed for followed in (self.machine_drain_rules, self.clusters) if followed is not None]

    @property
    def malformed(self) -> list[errors.InvalidObject]:
        return [complaint for followed in (*self.all, *self.optional) for complaint in followed.malformed]

    @property
    def malformed_groups(self) -> list[errors.InvalidObject]:
        """Those of them that may be groups."""
        return [complaint for followed in self.scalable for complaint in followed.malformed]

    def find_unread_member(self, namespace: str) -> errors.InvalidObject | None:
        """A Machine or MachineSet that exists in the namespace and cannot be read: any group may own it."""
        both = (*self.machines.malformed, *self.machine_sets.malformed)
        return next((one for one in both if one.name.startswith(f"{namespace}/")), None)

    def machines_of(self, kind: str, namespace: str, name: str) -> Iterator[Machine]:
        """The Machines of a group, by who owns them."""
        for owner in self.owners_of(kind, namespace, name):
            yield from self.machines.find(_OWNER, owner)

    def machine_sets_of(self, namespace: str, deployment: str) -> Iterator[clusterapi.MachineSet]:
        return self.machine_sets.find(_OWNER, f"{MACHINE_DEPLOYMENT}/{namespace}/{deployment}")

    def find_machine(self, provider_id: str, node_name: str, key: str) -> Machine | None:
        """The Machine of a node: by provider id, by the key that the node's annotations give, or by the node's name."""
        namespace, _, name = key.partition("/")
        if provider_id and (
            found := next(self.machines.find(_PROVIDER_ID, machines.normalize_provider_id(provider_id)), None)
        ):
            return found
        if name and (found := self.machines.get(namespace, name)):
            return found
        return next(self.machines.find(_NODE, node_name), None) if node_name else None

    def machines_of_node(self, provider_id: str, node_name: str, key: str) -> Iterator[Machine]:
        """All Machines that may take this for their node: see `nodes.Nodes.of_machine`."""
        namespace, _, name = key.partition("/")
        if provider_id:
            yield from self.machines.find(_PROVIDER_ID, machines.normalize_provider_id(provider_id))
        if name and (found := self.machines.get(namespace, name)):
            yield found
        yield from self.machines.find(_NODE, node_name)

    def owners_of(self, kind: str, namespace: str, name: str) -> tuple[str, ...]:
        """Who owns the Machines of a group: itself, or the MachineSets of a MachineDeployment."""
        if kind != MACHINE_DEPLOYMENT:
            return (f"{kind}/{namespace}/{name}",)
        return tuple(f"{MACHINE_SET}/{namespace}/{one.meta.name}" for one in self.machine_sets_of(namespace, name))

    def is_mirror(self, machine_set: str) -> bool:
        """Does the MachineSet's twin of the same name hold the authority over both?"""
        for twin in self.mirrored or ():
            if twin.meta.name == machine_set:
                return twin.status is not None and twin.status.authoritative_api == "MachineAPI"
        return False


async def discover_resources(api: client.Client, config: Config) -> Mapping[str, Resource[Any]] | None:
    """The resources of the API group in the version asked for, or preferred, by plural; None if there is none."""
    versions = [f"{config.group}/{config.version}"] if config.version else []
    versions = versions or await discovery.list_versions(api, config.group)
    if not versions:
        return None
    listed = {one.name for one in await discovery.list_resources(api, versions[0])}
    known: tuple[Resource[Any], ...] = (
        resources.MACHINES,
        resources.MACHINE_SETS,
        resources.MACHINE_DEPLOYMENTS,
        resources.MACHINE_POOLS,
        resources.MACHINE_DRAIN_RULES,
        resources.CLUSTERS,
    )
    found = {one.plural: one.at(versions[0]) for one in known if one.plural in listed}
    return found if {"machines", "machinesets"} <= found.keys() else None


def watch_resources(
    api: client.Client,
    config: Config,
    found: Mapping[str, Resource[Any]],
    on_change: Callable[[], None],
    on_machine: store.EventHandler[Machine],
    on_scalable: Callable[[Resource[Any], Any], None],
) -> ClusterApiObjects:
    """Prepare to follow what the server has; nothing is sent yet."""
    namespaces = group_discovery.find_namespaces(config.specs)

    def follow_scalable(plural: str, indexes: Any = None) -> ResourceInformer[Any]:
        resource = found[plural]
        handler: ChangeHandler[Any] = ChangeHandler(lambda changed: on_scalable(resource, changed))
        # MachineSets say which Machines are whose: without one, running Machines would seem to be nobody's.
        return ResourceInformer(api, resource, namespaces, handler, indexes, keeps_partial=plural == "machinesets")

    noted: ChangeHandler[Any] = ChangeHandler(lambda _: on_change())
    changed: NarrowChangeHandler[Any] = NarrowChangeHandler(on_change)
    follows_rules = config.respect_machine_drain_rules and "machinedrainrules" in found
    clusters = found.get("clusters", resources.CLUSTERS).read_as(meta.Object)
    return ClusterApiObjects(
        machines=ResourceInformer(
            api,
            found["machines"],
            namespaces,
            on_machine,
            {_OWNER: lambda one: one.owners, _PROVIDER_ID: _find_provider_id, _NODE: _find_node},
            keeps_partial=True,
            narrow=machines.narrow_machine(
                group_annotations.AnnotationKeys(config.group).delete_machine, keeps_labels=follows_rules
            ),
        ),
        machine_sets=follow_scalable("machinesets", {_OWNER: _find_owners}),
        machine_deployments=follow_scalable("machinedeployments") if "machinedeployments" in found else None,
        machine_pools=follow_scalable("machinepools") if "machinepools" in found else None,
        mirrored=(
            ResourceInformer(api, _MIRRORED_MACHINE_SETS, (config.mirrored_namespace,), noted)
            if config.mirrored_namespace
            else None
        ),
        machine_drain_rules=(
            ResourceInformer(
                api, found["machinedrainrules"], namespaces, changed, narrow=machine_drain_rule.read_drain_rule
            )
            if follows_rules
            else None
        ),
        clusters=(
            ResourceInformer(api, clusters, namespaces, changed, narrow=machine_drain_rule.narrow_cluster)
            if follows_rules and "clusters" in found
            else None
        ),
    )


def _find_owners(found: meta.Object) -> list[str]:
    owners = found.meta.owner_references or ()
    return [f"{owner.kind}/{found.meta.namespace}/{owner.name}" for owner in owners]


def _find_provider_id(machine: Machine) -> tuple[str, ...]:
    return (machines.normalize_provider_id(machine.provider_id),) if machine.provider_id else ()


def _find_node(machine: Machine) -> tuple[str, ...]:
    return (machine.node_name,) if machine.node_name else ()


def is_rolling_out(machine_sets: Iterable[clusterapi.MachineSet]) -> bool:
    """Does any MachineSet of the MachineDeployment but the latest have replicas?"""
    return len(find_active_machine_sets(machine_sets)) > 1


def find_active_machine_sets(machine_sets: Iterable[clusterapi.MachineSet]) -> list[clusterapi.MachineSet]:
    """The latest MachineSet of a MachineDeployment, and those before it that still have replicas."""
    in_order = sorted(machine_sets, key=_revision)
    return [*filter(_has_replicas, in_order[:-1]), *in_order[-1:]]


def _revision(machine_set: clusterapi.MachineSet) -> int:
    return selectors.parse_int64((machine_set.meta.annotations or {}).get(group_annotations.REVISION)) or 0


def _has_replicas(machine_set: clusterapi.MachineSet) -> bool:
    wanted = machine_set.spec.replicas if machine_set.spec else None
    there = machine_set.status.replicas if machine_set.status else None
    return bool(wanted or there)


ScalableObject: TypeAlias = clusterapi.MachineDeployment | clusterapi.MachineSet | clusterapi.MachinePool

_NO_SPEC = clusterapi.MachineGroupSpec()


@dataclass(frozen=True, slots=True)
class ScalableResource:
    """An object with replicas, as it was seen last."""

    resource: Resource[Any]
    found: ScalableObject

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def meta(self) -> meta.ObjectMeta:
        return self.found.meta

    @property
    def namespace(self) -> str:
        return self.meta.namespace or ""

    @property
    def name(self) -> str:
        return self.meta.name or ""

    @property
    def id(self) -> str:
        """The group's id, as people know it."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def spec(self) -> clusterapi.MachineGroupSpec:
        return self.found.spec or _NO_SPEC

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.meta.annotations or {}

    @property
    def is_pool(self) -> bool:
        return self.kind == MACHINE_POOL

    @property
    def provider_ids(self) -> list[str]:
        """Of a MachinePool: its instances."""
        spec = self.found.spec
        return (spec.provider_id_list if isinstance(spec, clusterapi.MachinePoolSpec) else None) or []

    def to_invalid_object(self, error: fields.InvalidField) -> errors.InvalidObject:
        return error.of(self.kind, self.meta.key)


def select_scalable(kinds: ClusterApiObjects, config: Config) -> Iterator[ScalableResource]:
    """All that are ours: selected, and not on their way out."""
    for followed in kinds.scalable:
        yield from select_scalable_of(followed, config)


def select_scalable_of(followed: ResourceInformer[Any], config: Config) -> Iterator[ScalableResource]:
    """Those of one kind that are ours."""
    for found in followed:
        one = ScalableResource(followed.resource, found)
        if is_selected(one, config):
            yield one


def find_scalable(kinds: ClusterApiObjects, config: Config, id: str) -> ScalableResource | None:
    """The one of this id, if it is still ours."""
    kind, _, key = id.partition("/")
    namespace, _, name = key.partition("/")
    for followed in kinds.scalable:
        found = followed.get(namespace, name) if followed.resource.kind == kind else None
        if found is not None:
            one = ScalableResource(followed.resource, found)
            return one if is_selected(one, config) else None
    return None


def is_selected(one: ScalableResource, config: Config) -> bool:
    """Is it ours, and no part of another group?"""
    if one.meta.deletion_timestamp is not None or _has_deployment(one):
        return False
    if not config.specs:
        return True
    labels = one.meta.labels or {}
    cluster = group_discovery.find_cluster_name(
        one.found.spec, labels, group_annotations.AnnotationKeys(config.group).cluster_name
    )
    return any(spec.matches(one.namespace, cluster, labels) for spec in config.specs)


def _has_deployment(one: ScalableResource) -> bool:
    owners = one.meta.owner_references or ()
    return one.kind == MACHINE_SET and any(owner.kind == "MachineDeployment" and owner.name for owner in owners)


def find_machine_pause(one: ScalableResource, machine: Machine, kinds: ClusterApiObjects) -> str:
    """Why one of its Machines is left alone; empty if it is not. Machines of a mirror are paused as the mirror is."""
    return "" if is_mirrored(one, kinds) else machine.pause


def is_mirrored(one: ScalableResource, kinds: ClusterApiObjects) -> bool:
    """Is it a MachineSet whose twin in another API holds the authority?"""
    return one.kind == MACHINE_SET and kinds.is_mirror(one.name)


def find_pause(one: ScalableResource, kinds: ClusterApiObjects) -> str:
    """Why its controller leaves it alone; empty if it does not. OpenShift's own does, where another API holds, or is
    about to. A MachineDeployment is also held up by a MachineSet of its own that is paused.
    """
    status = one.found.status
    if status is not None and status.authoritative_api not in (None, "", "MachineAPI"):
        return f"status.authoritativeAPI is {status.authoritative_api}"
    if is_mirrored(one, kinds):
        return ""
    if why := group_annotations.find_pause_reason(one.found):
        return why
    if one.kind == MACHINE_DEPLOYMENT:
        for machine_set in find_active_machine_sets(kinds.machine_sets_of(one.namespace, one.name)):
            if why := group_annotations.find_pause_reason(machine_set):
                return f"MachineSet {machine_set.meta.key}: {why}"
    return ""
