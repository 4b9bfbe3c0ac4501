"""Kinds: the objects of Cluster API as the server holds them, and how they hang together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass import errors
from windlass.engine import facts
from windlass.kube import client, discovery, resources, store
from windlass.kube.models import clusterapi, meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import discovery_spec, drain_rules, keys, machines, provider_ids
from windlass.providers.clusterapi.config import Config
from windlass.providers.clusterapi.following import Following, Notify, NotifyNarrow
from windlass.providers.clusterapi.machines import Machine

MACHINE_DEPLOYMENT = "MachineDeployment"
MACHINE_SET = "MachineSet"
MACHINE_POOL = "MachinePool"

_MIRRORED = Resource("machine.openshift.io/v1beta1", "machinesets", MACHINE_SET, True, clusterapi.MirroredMachineSet)
_OWNER = "owner"
_PROVIDER_ID = "providerID"
_NODE = "nodeRef"


@dataclass(frozen=True, slots=True)
class Kinds:
    """Everything that is followed from the start."""

    machines: Following[Machine]
    machine_sets: Following[clusterapi.MachineSet]
    machine_deployments: Following[clusterapi.MachineDeployment] | None
    """None where the server has no such kind; so with the next."""
    machine_pools: Following[clusterapi.MachinePool] | None
    mirrored: Following[clusterapi.MirroredMachineSet] | None
    machine_drain_rules: Following[facts.MachineDrainRule] | None = None
    clusters: Following[drain_rules.Cluster] | None = None

    @property
    def scalable(self) -> list[Following[Any]]:
        """Where groups are found."""
        found = (self.machine_deployments, self.machine_sets, self.machine_pools)
        return [followed for followed in found if followed is not None]

    @property
    def all(self) -> list[Following[Any]]:
        return [self.machines, *self.scalable, *([] if self.mirrored is None else [self.mirrored])]

    @property
    def optional(self) -> list[Following[Any]]:
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
        if provider_id and (found := next(self.machines.find(_PROVIDER_ID, provider_ids.normalise(provider_id)), None)):
            return found
        if name and (found := self.machines.get(namespace, name)):
            return found
        return next(self.machines.find(_NODE, node_name), None) if node_name else None

    def machines_of_node(self, provider_id: str, node_name: str, key: str) -> Iterator[Machine]:
        """All Machines that may take this for their node: see `nodes.Nodes.of_machine`."""
        namespace, _, name = key.partition("/")
        if provider_id:
            yield from self.machines.find(_PROVIDER_ID, provider_ids.normalise(provider_id))
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


async def discover(api: client.Client, config: Config) -> Mapping[str, Resource[Any]] | None:
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


def follow(
    api: client.Client,
    config: Config,
    found: Mapping[str, Resource[Any]],
    on_change: Callable[[], None],
    on_machine: store.Handler[Machine],
    on_scalable: Callable[[Resource[Any], Any], None],
) -> Kinds:
    """Prepare to follow what the server has; nothing is sent yet."""
    namespaces = discovery_spec.find_namespaces(config.specs)

    def follow_scalable(plural: str, indexes: Any = None) -> Following[Any]:
        resource = found[plural]
        handler: Notify[Any] = Notify(lambda changed: on_scalable(resource, changed))
        # MachineSets say which Machines are whose: without one, running Machines would seem to be nobody's.
        return Following(api, resource, namespaces, handler, indexes, keeps_partial=plural == "machinesets")

    noted: Notify[Any] = Notify(lambda _: on_change())
    changed: NotifyNarrow[Any] = NotifyNarrow(on_change)
    follows_rules = config.respect_machine_drain_rules and "machinedrainrules" in found
    clusters = found.get("clusters", resources.CLUSTERS).read_as(meta.Object)
    return Kinds(
        machines=Following(
            api,
            found["machines"],
            namespaces,
            on_machine,
            {_OWNER: lambda one: one.owners, _PROVIDER_ID: _find_provider_id, _NODE: _find_node},
            keeps_partial=True,
            narrow=machines.narrow(keys.Keys(config.group).delete_machine, keeps_labels=follows_rules),
        ),
        machine_sets=follow_scalable("machinesets", {_OWNER: _find_owners}),
        machine_deployments=follow_scalable("machinedeployments") if "machinedeployments" in found else None,
        machine_pools=follow_scalable("machinepools") if "machinepools" in found else None,
        mirrored=(
            Following(api, _MIRRORED, (config.mirrored_namespace,), noted) if config.mirrored_namespace else None
        ),
        machine_drain_rules=(
            Following(api, found["machinedrainrules"], namespaces, changed, narrow=drain_rules.read)
            if follows_rules
            else None
        ),
        clusters=(
            Following(api, clusters, namespaces, changed, narrow=drain_rules.narrow_cluster)
            if follows_rules and "clusters" in found
            else None
        ),
    )


def _find_owners(found: meta.Object) -> list[str]:
    owners = found.meta.owner_references or ()
    return [f"{owner.kind}/{found.meta.namespace}/{owner.name}" for owner in owners]


def _find_provider_id(machine: Machine) -> tuple[str, ...]:
    return (provider_ids.normalise(machine.provider_id),) if machine.provider_id else ()


def _find_node(machine: Machine) -> tuple[str, ...]:
    return (machine.node_name,) if machine.node_name else ()
