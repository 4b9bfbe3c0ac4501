"""Node groups: the facts that the engine gets of each scalable resource, cached until an input changes.

An object that cannot be a group is set aside with the reason; the others stay. Where only a part of a group cannot be
read (an option, a taint, a capacity), the group stays and the problem is reported.

    Machine with a node                          Running, under the node's provider ID
    Machine being deleted, or annotated for it   Deleting
    Machine without a node                       Creating, with the error if it failed
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from windlass import errors
from windlass.engine.model import facts, node_groups, well_known
from windlass.kube import fields
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import (
    deletion,
    group_annotations,
    informers,
    machine_drain_rule,
    machines,
    node_template,
    scalable_resources,
)
from windlass.providers.clusterapi.group_discovery import Config
from windlass.providers.clusterapi.machines import Machine, NodeIndex
from windlass.providers.clusterapi.scalable_resources import MACHINE_DEPLOYMENT, ClusterApiObjects, ScalableResource


def describe_instance(
    machine: Machine, node: facts.Node | None, is_leaving: bool, drain: machine_drain_rule.SelectingRules
) -> node_groups.Instance:
    """The instance behind a Machine, given its node, if it has one, whether it was told to go, and its drain rules."""
    is_leaving = is_leaving or machine.is_deleting
    if node is not None:
        state = "Deleting" if is_leaving else "Running"
        return node_groups.Instance(
            node.provider_id, state, machine_drain_rules=drain[0], unreadable_drain_rules=drain[1]
        )
    if is_leaving:
        return node_groups.Instance(_instance_name(machines.ProviderIdKind.DELETING, machine), "Deleting")
    if machine.node_name and machine.provider_id:
        return node_groups.Instance(machine.provider_id, had_node=True)
    if machine.failure is not None:
        return node_groups.Instance(
            _instance_name(machines.ProviderIdKind.FAILED, machine), "Creating", machine.failure
        )
    return node_groups.Instance(_instance_name(machines.ProviderIdKind.PENDING, machine), "Creating")


def _instance_name(kind: machines.ProviderIdKind, machine: Machine) -> str:
    return machines.make_provider_id(kind, machine.namespace, machine.name)


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The Machines of a group, what became of their marks, and whether they are being replaced."""

    machines: tuple[Machine, ...]
    marked: deletion.DeleteAnnotationState
    is_rolling_out: bool


@dataclass(frozen=True, slots=True)
class NodeGroupContext:
    """What the reading of a group may look at."""

    kinds: ClusterApiObjects
    infrastructure: informers.InfrastructureTemplates
    config: Config
    keys: group_annotations.AnnotationKeys
    remembered: frozenset[str]
    machine_drain_rules: machine_drain_rule.MachineDrainRules = machine_drain_rule.NO_DRAIN_RULES


def find_members(group: ScalableResource, replicas: int, context: NodeGroupContext) -> GroupMembers:
    machines = tuple(context.kinds.machines_of(group.kind, group.namespace, group.name))
    rolling_out = group.kind == MACHINE_DEPLOYMENT and scalable_resources.is_rolling_out(
        context.kinds.machine_sets_of(group.namespace, group.name)
    )
    judged = deletion.classify_annotations(machines, replicas, context.remembered, rolling_out)
    return GroupMembers(machines, judged, rolling_out)


def can_choose_instance(group: ScalableResource, members: GroupMembers) -> bool:
    """Can one say which instance goes? Not of a MachinePool whose instances have no Machines to carry a mark."""
    return not group.is_pool or bool(members.machines) or not group.provider_ids


def read_node_group(
    group: ScalableResource, replicas: int, nodes: NodeIndex, context: NodeGroupContext
) -> tuple[node_groups.NodeGroup | None, list[errors.InvalidObject]]:
    """The group, if it is one, and complaints."""
    try:
        sizes = group_annotations.read_size_bounds(group.annotations, context.keys)
    except fields.InvalidField as error:
        return None, [group.to_invalid_object(error)]
    if not sizes.allow_nodes:
        return None, []
    members = find_members(group, replicas, context)
    found = list(list_instances(group, members, nodes, context))
    made, complaints = _make_template(group, found, nodes, context)
    if made is None and replicas == 0:
        return None, complaints or [_missing_capacity(group, context)]
    chosen, about_options = group_annotations.read_group_options(group.annotations, context.keys)
    complaints += [group.to_invalid_object(error) for error in about_options]
    return (
        node_groups.NodeGroup(
            id=group.id,
            min_size=sizes.min,
            max_size=sizes.max,
            target_size=replicas,
            instances=tuple(found),
            template=made,
            template_pods=() if made is None else (node_template.make_kube_proxy(group.name),),
            options=chosen,
            is_rolling_out=members.is_rolling_out,
            can_choose=can_choose_instance(group, members),
            kept=frozenset(find_unremovable(group, members, nodes, context)),
            price_per_hour=well_known.read_price(group.annotations),
            replicas_owner=group_annotations.find_topology_owner(group.found, group.resource.api_version),
        ),
        complaints,
    )


def list_instances(
    group: ScalableResource, members: GroupMembers, nodes: NodeIndex, context: NodeGroupContext
) -> Iterator[node_groups.Instance]:
    """One for each Machine; of a MachinePool also one for each instance without a Machine."""
    with_machine = set()
    for machine in members.machines:
        if group.is_pool and machine.provider_id:
            with_machine.add(machines.normalize_provider_id(machine.provider_id))
        is_leaving = machine.uid in members.marked.leaving
        selecting = context.machine_drain_rules.select(machine)
        yield describe_instance(machine, nodes.find_by_machine(machine), is_leaving, selecting)
    for provider_id in dict.fromkeys(group.provider_ids):
        if machines.normalize_provider_id(provider_id) not in with_machine:
            registered = nodes.find(provider_id)
            yield node_groups.Instance(registered.provider_id if registered else provider_id)


def find_unremovable(
    group: ScalableResource, members: GroupMembers, nodes: NodeIndex, context: NodeGroupContext
) -> Iterator[str]:
    """Instances that cannot be removed, by provider id: those whose Machines are paused. All of them while there is a
    Machine that cannot be read: how many the group has, and which are on their way out, is not known then.
    """
    is_unsure = context.kinds.find_unread_member(group.namespace) is not None
    for machine in members.machines:
        is_kept = is_unsure or scalable_resources.find_machine_pause(group, machine, context.kinds)
        if is_kept and (node := nodes.find_by_machine(machine)) is not None:
            yield node.provider_id


def hold_node_group(
    group: ScalableResource, replicas: int, why: str, nodes: NodeIndex, context: NodeGroupContext
) -> node_groups.HeldGroup:
    """The group as one that must be left alone for now."""
    members = find_members(group, replicas, context)
    ids = tuple(instance.provider_id for instance in list_instances(group, members, nodes, context))
    return node_groups.HeldGroup(group.id, why, ids)


def _make_template(
    group: ScalableResource, found: Sequence[node_groups.Instance], nodes: NodeIndex, context: NodeGroupContext
) -> tuple[facts.Node | None, list[errors.InvalidObject]]:
    source = node_template.TemplateSource(
        name=group.name,
        annotations=group.annotations,
        machine=group.spec.template,
        infrastructure=find_infrastructure_template(group, context),
        example=_find_example(found, nodes),
    )
    try:
        made = node_template.make_node_template(source, context.config.default_architecture)
    except fields.InvalidField as error:
        return None, [group.to_invalid_object(error)]
    if made is None:
        return None, []
    return made.node, [group.to_invalid_object(error) for error in made.complaints]


def _find_example(found: Iterable[node_groups.Instance], nodes: NodeIndex) -> facts.Node | None:
    registered = (nodes.find(instance.provider_id) for instance in found)
    return next((node for node in registered if node is not None and not node.unreadable), None)


def _find_template_reference(group: ScalableResource) -> clusterapi.Reference | None:
    machine = group.spec.template
    return machine.spec.infrastructure_ref if machine and machine.spec else None


def find_group_template_kind(group: ScalableResource) -> informers.TemplateKind | None:
    """The kind of the group's infrastructure template; for a MachinePool, of its infrastructure."""
    return informers.find_template_kind(_find_template_reference(group))


def find_infrastructure_template(
    group: ScalableResource, context: NodeGroupContext
) -> clusterapi.InfrastructureTemplate | None:
    reference, kind = _find_template_reference(group), find_group_template_kind(group)
    if reference is None or kind is None or not reference.name:
        return None
    return context.infrastructure.get(kind, group.namespace, reference.name)


def _missing_capacity(group: ScalableResource, context: NodeGroupContext) -> errors.InvalidObject:
    """A group at zero of which nobody can tell what its first node would have."""
    reference, kind = _find_template_reference(group), find_group_template_kind(group)
    accepted = f"cpu and memory in annotations {group_annotations.CPU} and {group_annotations.MEMORY}"
    if reference is None or kind is None or not reference.name:
        return group.to_invalid_object(fields.InvalidField("metadata.annotations", None, accepted))
    named = f"{kind.kind} {group.namespace}/{reference.name}"
    if context.infrastructure.get(kind, group.namespace, reference.name) is not None:
        found = "too little in status.capacity"
    else:
        found = context.infrastructure.explain(kind, group.namespace, reference.name)
    accepted += f", or in status.capacity of {named}"
    return group.to_invalid_object(
        fields.InvalidField("spec.template.spec.infrastructureRef", f"{named}: {found}", accepted)
    )


@dataclass(frozen=True, slots=True)
class NodeGroupOrigin:
    """What a group is read from, without its Machines and nodes."""

    objects: tuple[object, ...]
    """The group itself, its MachineSets, its infrastructure template and all MachineDrainRules, as they were read."""
    replicas: int
    is_mirror: bool
    has_unread_member: bool
    owners: tuple[str, ...]
    """Who owns its Machines, as `kind/namespace/name`."""

    def is_same(self, other: "NodeGroupOrigin") -> bool:
        return (
            len(self.objects) == len(other.objects)
            and all(one is two for one, two in zip(self.objects, other.objects, strict=True))
            and (self.replicas, self.is_mirror, self.has_unread_member, self.owners)
            == (other.replicas, other.is_mirror, other.has_unread_member, other.owners)
        )


def trace_origin(group: ScalableResource, replicas: int, context: NodeGroupContext) -> NodeGroupOrigin:
    """What a group is read from, but for its Machines and their nodes. All else that `read` looks at belongs here."""
    namespace, name = group.namespace, group.name
    sets = context.kinds.machine_sets_of(namespace, name) if group.kind == MACHINE_DEPLOYMENT else ()
    return NodeGroupOrigin(
        (group.found, find_infrastructure_template(group, context), context.machine_drain_rules, *sets),
        replicas,
        scalable_resources.is_mirrored(group, context.kinds),
        context.kinds.find_unread_member(namespace) is not None,
        context.kinds.owners_of(group.kind, namespace, name),
    )


@dataclass(frozen=True, slots=True)
class _CachedGroup:
    origin: NodeGroupOrigin
    listed: frozenset[str]
    group: node_groups.NodeGroup


class NodeGroupCache:
    """Groups as they were read last."""

    def __init__(self) -> None:
        self._kept: dict[str, _CachedGroup] = {}
        self._looked_at: set[str] = set()
        self._owners: set[str] = set()
        """Owners of Machines that changed, or whose nodes did, since the last observation."""
        self._provider_ids: set[str] = set()
        """Of nodes that changed since, normalised: those of MachinePools may have no Machines."""

    def invalidate(self, owners: Iterable[str], provider_ids: Iterable[str] = ()) -> None:
        """Groups of these owners, and those that list these provider ids, must be read again."""
        self._owners.update(owners)
        self._provider_ids.update(provider_ids)

    def find(self, id: str, origin: NodeGroupOrigin) -> node_groups.NodeGroup | None:
        """The group, if it would be read the same again."""
        kept = self._kept.get(id)
        if kept is None or not kept.origin.is_same(origin):
            return None
        if not self._owners.isdisjoint(origin.owners) or not self._provider_ids.isdisjoint(kept.listed):
            return None
        self._looked_at.add(id)
        return kept.group

    def put(self, id: str, origin: NodeGroupOrigin, listed: Iterable[str], group: node_groups.NodeGroup) -> None:
        """`listed` are provider ids that the group names itself, normalised."""
        self._kept[id] = _CachedGroup(origin, frozenset(listed), group)
        self._looked_at.add(id)

    def evict_unused(self) -> None:
        """All groups were looked at: forget those that were not found or kept, and what changed before."""
        self._kept = {id: kept for id, kept in self._kept.items() if id in self._looked_at}
        self._looked_at, self._owners, self._provider_ids = set(), set(), set()
