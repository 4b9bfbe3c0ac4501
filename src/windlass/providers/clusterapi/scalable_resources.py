"""Scalable resources: MachineDeployments, MachineSets without one, and MachinePools, with their owners and Machines.

A MachineDeployment is rolling out while a MachineSet that is not of its newest revision has replicas; Cluster API then
deletes old Machines first, whatever is annotated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass import errors, selectors
from windlass.engine.model import node_groups
from windlass.kube import client, discovery, fields, resources, store
from windlass.kube.models import clusterapi, meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import auto_discovery, group_annotations, machine_drain_rule, machines
from windlass.providers.clusterapi.auto_discovery import Config
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
    """Informers of Cluster API resources."""

    machines: ResourceInformer[Machine]
    machine_sets: ResourceInformer[clusterapi.MachineSet]
    machine_deployments: ResourceInformer[clusterapi.MachineDeployment] | None
    """None if the server lacks the kind, as for the next ones."""
    machine_pools: ResourceInformer[clusterapi.MachinePool] | None
    mirrored: ResourceInformer[clusterapi.MirroredMachineSet] | None
    machine_drain_rules: ResourceInformer[node_groups.MachineDrainRule] | None = None
    clusters: ResourceInformer[machine_drain_rule.LabeledCluster] | None = None

    @property
    def scalable(self) -> list[ResourceInformer[Any]]:
        """Informers of kinds that may be node groups."""
        informers = (self.machine_deployments, self.machine_sets, self.machine_pools)
        return [followed for followed in informers if followed is not None]

    @property
    def all(self) -> list[ResourceInformer[Any]]:
        return [self.machines, *self.scalable, *([] if self.mirrored is None else [self.mirrored])]

    @property
    def optional(self) -> list[ResourceInformer[Any]]:
        """Informers that may be refused without affecting groups."""
        return [followed for followed in (self.machine_drain_rules, self.clusters) if followed is not None]

    @property
    def malformed(self) -> list[errors.InvalidObject]:
        return [complaint for followed in (*self.all, *self.optional) for complaint in followed.malformed]

    @property
    def malformed_groups(self) -> list[errors.InvalidObject]:
        """Malformed objects that may be node groups."""
        return [complaint for followed in self.scalable for complaint in followed.malformed]

    def find_unread_member(self, namespace: str) -> errors.InvalidObject | None:
        """A malformed Machine or MachineSet of the namespace: any group may own it."""
        both = (*self.machines.malformed, *self.machine_sets.malformed)
        return next((invalid for invalid in both if invalid.name.startswith(f"{namespace}/")), None)

    def machines_of(self, kind: str, namespace: str, name: str) -> Iterator[Machine]:
        """The Machines of a group, by owner."""
        for owner in self.owners_of(kind, namespace, name):
            yield from self.machines.find(_OWNER, owner)

    def machine_sets_of(self, namespace: str, deployment: str) -> Iterator[clusterapi.MachineSet]:
        return self.machine_sets.find(_OWNER, f"{MACHINE_DEPLOYMENT}/{namespace}/{deployment}")

    def find_machine(self, provider_id: str, node_name: str, key: str) -> Machine | None:
        """The Machine of a node: by provider id, by the node's annotations, or by name."""
        namespace, _, name = key.partition("/")
        if provider_id and (
            machine := next(self.machines.find(_PROVIDER_ID, machines.normalize_provider_id(provider_id)), None)
        ):
            return machine
        if name and (machine := self.machines.get(namespace, name)):
            return machine
        return next(self.machines.find(_NODE, node_name), None) if node_name else None

    def machines_of_node(self, provider_id: str, node_name: str, key: str) -> Iterator[Machine]:
        """All Machines that may match this node: see `machines.NodeIndex.find_by_machine`."""
        namespace, _, name = key.partition("/")
        if provider_id:
            yield from self.machines.find(_PROVIDER_ID, machines.normalize_provider_id(provider_id))
        if name and (machine := self.machines.get(namespace, name)):
            yield machine
        yield from self.machines.find(_NODE, node_name)

    def owners_of(self, kind: str, namespace: str, name: str) -> tuple[str, ...]:
        """Owners of the group's Machines: itself, or the MachineSets of a MachineDeployment."""
        if kind != MACHINE_DEPLOYMENT:
            return (f"{kind}/{namespace}/{name}",)
        return tuple(
            f"{MACHINE_SET}/{namespace}/{machine_set.meta.name}"
            for machine_set in self.machine_sets_of(namespace, name)
        )

    def is_mirror(self, machine_set: str) -> bool:
        """True if the MachineSet's counterpart in OpenShift's Machine API is authoritative."""
        for twin in self.mirrored or ():
            if twin.meta.name == machine_set:
                return twin.status is not None and twin.status.authoritative_api == "MachineAPI"
        return False


async def discover_resources(api: client.Client, config: Config) -> Mapping[str, Resource[Any]] | None:
    """Resources of the API group by plural, in the given or preferred version; None if it serves none."""
    versions = [f"{config.group}/{config.version}"] if config.version else []
    versions = versions or await discovery.list_versions(api, config.group)
    if not versions:
        return None
    listed = {api_resource.name for api_resource in await discovery.list_resources(api, versions[0])}
    known: tuple[Resource[Any], ...] = (
        resources.MACHINES,
        resources.MACHINE_SETS,
        resources.MACHINE_DEPLOYMENTS,
        resources.MACHINE_POOLS,
        resources.MACHINE_DRAIN_RULES,
        resources.CLUSTERS,
    )
    discovered = {resource.plural: resource.at(versions[0]) for resource in known if resource.plural in listed}
    return discovered if {"machines", "machinesets"} <= discovered.keys() else None


def watch_resources(
    api: client.Client,
    config: Config,
    discovered: Mapping[str, Resource[Any]],
    on_change: Callable[[], None],
    on_machine: store.EventHandler[Machine],
    on_scalable: Callable[[Resource[Any], Any], None],
) -> ClusterApiObjects:
    """Create informers of the served resources; nothing is sent yet."""
    namespaces = auto_discovery.find_namespaces(config.specs)

    def follow_scalable(plural: str, indexes: Any = None) -> ResourceInformer[Any]:
        resource = discovered[plural]
        handler: ChangeHandler[Any] = ChangeHandler(lambda changed: on_scalable(resource, changed))
        # Owners of Machines are MachineSets: without them running Machines would belong to no group.
        return ResourceInformer(api, resource, namespaces, handler, indexes, keeps_partial=plural == "machinesets")

    noted: ChangeHandler[Any] = ChangeHandler(lambda _: on_change())
    changed: NarrowChangeHandler[Any] = NarrowChangeHandler(on_change)
    follows_rules = config.respect_machine_drain_rules and "machinedrainrules" in discovered
    clusters = discovered.get("clusters", resources.CLUSTERS).read_as(meta.Object)
    return ClusterApiObjects(
        machines=ResourceInformer(
            api,
            discovered["machines"],
            namespaces,
            on_machine,
            {_OWNER: lambda machine: machine.owners, _PROVIDER_ID: _find_provider_id, _NODE: _find_node},
            keeps_partial=True,
            narrow=machines.narrow_machine(
                group_annotations.AnnotationKeys(config.group).delete_machine, keeps_labels=follows_rules
            ),
        ),
        machine_sets=follow_scalable("machinesets", {_OWNER: _find_owners}),
        machine_deployments=follow_scalable("machinedeployments") if "machinedeployments" in discovered else None,
        machine_pools=follow_scalable("machinepools") if "machinepools" in discovered else None,
        mirrored=(
            ResourceInformer(api, _MIRRORED_MACHINE_SETS, (config.mirrored_namespace,), noted)
            if config.mirrored_namespace
            else None
        ),
        machine_drain_rules=(
            ResourceInformer(
                api, discovered["machinedrainrules"], namespaces, changed, narrow=machine_drain_rule.read_drain_rule
            )
            if follows_rules
            else None
        ),
        clusters=(
            ResourceInformer(api, clusters, namespaces, changed, narrow=machine_drain_rule.narrow_cluster)
            if follows_rules and "clusters" in discovered
            else None
        ),
    )


def _find_owners(obj: meta.Object) -> list[str]:
    owners = obj.meta.owner_references or ()
    return [f"{owner.kind}/{obj.meta.namespace}/{owner.name}" for owner in owners]


def _find_provider_id(machine: Machine) -> tuple[str, ...]:
    return (machines.normalize_provider_id(machine.provider_id),) if machine.provider_id else ()


def _find_node(machine: Machine) -> tuple[str, ...]:
    return (machine.node_name,) if machine.node_name else ()


def is_rolling_out(machine_sets: Iterable[clusterapi.MachineSet]) -> bool:
    """True if a MachineSet of the MachineDeployment is outdated and has replicas, or has an unreadable revision.

    A MachineSet without a revision is outdated: Cluster API has not compared it with its MachineDeployment yet.
    """
    revisions = [(_read_revision(machine_set), machine_set) for machine_set in machine_sets]
    newest = _find_newest(revisions)
    return any(
        isinstance(revision, str) or (_has_replicas(machine_set) and (revision is None or revision != newest))
        for revision, machine_set in revisions
    )


def find_active_machine_sets(machine_sets: Iterable[clusterapi.MachineSet]) -> list[clusterapi.MachineSet]:
    """The newest MachineSet of a MachineDeployment, and others with replicas; all of them if none has a revision."""
    revisions = [(_read_revision(machine_set), machine_set) for machine_set in machine_sets]
    newest = _find_newest(revisions)
    return [machine_set for revision, machine_set in revisions if revision == newest or _has_replicas(machine_set)]


def _find_newest(revisions: Iterable[tuple[int | str | None, clusterapi.MachineSet]]) -> int | None:
    return max((revision for revision, _ in revisions if isinstance(revision, int)), default=None)


def _read_revision(machine_set: clusterapi.MachineSet) -> int | str | None:
    """Revision of a MachineSet; the annotation as it is if it is no number, None without it."""
    text = (machine_set.meta.annotations or {}).get(group_annotations.REVISION)
    number = selectors.parse_int64(text)
    return text if number is None else number


def _has_replicas(machine_set: clusterapi.MachineSet) -> bool:
    desired = machine_set.spec.replicas if machine_set.spec else None
    there = machine_set.status.replicas if machine_set.status else None
    return bool(desired or there)


ScalableObject: TypeAlias = clusterapi.MachineDeployment | clusterapi.MachineSet | clusterapi.MachinePool

_NO_SPEC = clusterapi.MachineGroupSpec()


@dataclass(frozen=True, slots=True)
class ScalableResource:
    """An observed object with replicas."""

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
        """The id of the group: Kind/namespace/name."""
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
        """Provider ids of a MachinePool's instances."""
        spec = self.found.spec
        return (spec.provider_id_list if isinstance(spec, clusterapi.MachinePoolSpec) else None) or []

    def to_invalid_object(self, error: fields.InvalidField) -> errors.InvalidObject:
        return error.of(self.kind, self.meta.key)


def select_scalable(kinds: ClusterApiObjects, config: Config) -> Iterator[ScalableResource]:
    """All selected objects that are not being deleted."""
    for followed in kinds.scalable:
        yield from select_scalable_of(followed, config)


def select_scalable_of(followed: ResourceInformer[Any], config: Config) -> Iterator[ScalableResource]:
    """Selected objects of one kind."""
    for informer in followed:
        resource = ScalableResource(followed.resource, informer)
        if is_selected(resource, config):
            yield resource


def find_scalable(kinds: ClusterApiObjects, config: Config, id: str) -> ScalableResource | None:
    """The object with an id, if it is still selected."""
    kind, _, key = id.partition("/")
    namespace, _, name = key.partition("/")
    for followed in kinds.scalable:
        scalable = followed.get(namespace, name) if followed.resource.kind == kind else None
        if scalable is not None:
            resource = ScalableResource(followed.resource, scalable)
            return resource if is_selected(resource, config) else None
    return None


def is_selected(resource: ScalableResource, config: Config) -> bool:
    """True if a spec selects it and no MachineDeployment owns it."""
    if resource.meta.deletion_timestamp is not None or _has_deployment(resource):
        return False
    if not config.specs:
        return True
    labels = resource.meta.labels or {}
    cluster = auto_discovery.find_cluster_name(
        resource.found.spec, labels, group_annotations.AnnotationKeys(config.group).cluster_name
    )
    return any(spec.matches(resource.namespace, cluster, labels) for spec in config.specs)


def _has_deployment(resource: ScalableResource) -> bool:
    owners = resource.meta.owner_references or ()
    return resource.kind == MACHINE_SET and any(owner.kind == "MachineDeployment" and owner.name for owner in owners)


def find_machine_pause(resource: ScalableResource, machine: Machine, kinds: ClusterApiObjects) -> str:
    """Why one of its Machines is paused; empty if none is. Machines of a mirror may be paused."""
    return "" if is_mirrored(resource, kinds) else machine.pause


def is_mirrored(resource: ScalableResource, kinds: ClusterApiObjects) -> bool:
    """True for a MachineSet whose counterpart in another API is authoritative."""
    return resource.kind == MACHINE_SET and kinds.is_mirror(resource.name)


def find_pause(resource: ScalableResource, kinds: ClusterApiObjects) -> str:
    """Why its controller is paused; empty if it is not.

    An OpenShift MachineSet is also paused while another API is or becomes authoritative. A paused MachineSet pauses its
    MachineDeployment too.
    """
    status = resource.found.status
    if status is not None and status.authoritative_api not in (None, "", "MachineAPI"):
        return f"status.authoritativeAPI is {status.authoritative_api}"
    if is_mirrored(resource, kinds):
        return ""
    if reason := group_annotations.find_pause_reason(resource.found):
        return reason
    if resource.kind == MACHINE_DEPLOYMENT:
        for machine_set in find_active_machine_sets(kinds.machine_sets_of(resource.namespace, resource.name)):
            if reason := group_annotations.find_pause_reason(machine_set):
                return f"MachineSet {machine_set.meta.key}: {reason}"
    return ""
