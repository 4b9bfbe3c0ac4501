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
    delete_annotations,
    group_annotations,
    informers,
    machine_drain_rule,
    machines,
    scalable_resources,
    scale_from_zero,
)
from windlass.providers.clusterapi.auto_discovery import Config
from windlass.providers.clusterapi.machines import Machine, NodeIndex
from windlass.providers.clusterapi.scalable_resources import MACHINE_DEPLOYMENT, ClusterApiObjects, ScalableResource


def describe_instance(
    machine: Machine, node: facts.Node | None, is_leaving: bool, drain: machine_drain_rule.SelectingRules
) -> node_groups.Instance:
    """The instance of a Machine, from its node, its deletion and its drain rules."""
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
    """Machines of a group, their delete annotations, and whether a rollout is in progress."""

    machines: tuple[Machine, ...]
    marked: delete_annotations.DeleteAnnotationState
    is_rolling_out: bool


@dataclass(frozen=True, slots=True)
class NodeGroupContext:
    """Inputs for reading groups."""

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
    judged = delete_annotations.classify_annotations(machines, replicas, context.remembered, rolling_out)
    return GroupMembers(machines, judged, rolling_out)


def can_choose_instance(group: ScalableResource, members: GroupMembers) -> bool:
    """True if single instances can be deleted. False for a MachinePool whose instances have no Machines."""
    return not group.is_pool or bool(members.machines) or not group.provider_ids


def read_node_group(
    group: ScalableResource, replicas: int, nodes: NodeIndex, context: NodeGroupContext
) -> tuple[node_groups.NodeGroup | None, list[errors.InvalidObject]]:
    """Read a group; None if it is not one; with problems of its parts."""
    try:
        sizes = group_annotations.read_size_bounds(group.annotations, context.keys)
    except fields.InvalidField as error:
        return None, [group.to_invalid_object(error)]
    if not sizes.allow_nodes:
        return None, []
    members = find_members(group, replicas, context)
    instances = list(list_instances(group, members, nodes, context))
    made, complaints = _make_template(group, instances, nodes, context)
    if made is None and replicas == 0:
        return None, complaints or [_missing_capacity(group, context)]
    group_options, about_options = group_annotations.read_group_options(group.annotations, context.keys)
    complaints += [group.to_invalid_object(error) for error in about_options]
    return (
        node_groups.NodeGroup(
            id=group.id,
            min_size=sizes.min,
            max_size=sizes.max,
            target_size=replicas,
            instances=tuple(instances),
            template=made,
            template_pods=() if made is None else (scale_from_zero.make_kube_proxy(group.name),),
            options=group_options,
            is_rolling_out=members.is_rolling_out,
            can_choose=can_choose_instance(group, members),
            kept=frozenset(find_unremovable(group, members, nodes, context)),
            price_per_hour=well_known.read_price(group.annotations),
            replicas_owner=group_annotations.find_replicas_owner(group.found, group.resource.api_version),
        ),
        complaints,
    )


def list_instances(
    group: ScalableResource, members: GroupMembers, nodes: NodeIndex, context: NodeGroupContext
) -> Iterator[node_groups.Instance]:
    """The instances of a group: one per Machine, and those of a MachinePool without Machines."""
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
    """Instances that cannot be deleted, by provider id: their Machines are paused.

    All of them while a Machine is malformed, since the count of the group and its deletions are then unknown.
    """
    is_unsure = context.kinds.find_unread_member(group.namespace) is not None
    for machine in members.machines:
        is_kept = is_unsure or scalable_resources.find_machine_pause(group, machine, context.kinds)
        if is_kept and (node := nodes.find_by_machine(machine)) is not None:
            yield node.provider_id


def hold_node_group(
    group: ScalableResource, replicas: int, reason: str, nodes: NodeIndex, context: NodeGroupContext
) -> node_groups.HeldGroup:
    """The group as held: it must not be changed now."""
    members = find_members(group, replicas, context)
    ids = tuple(instance.provider_id for instance in list_instances(group, members, nodes, context))
    return node_groups.HeldGroup(group.id, reason, ids)


def _make_template(
    group: ScalableResource, instances: Sequence[node_groups.Instance], nodes: NodeIndex, context: NodeGroupContext
) -> tuple[facts.Node | None, list[errors.InvalidObject]]:
    source = scale_from_zero.TemplateSource(
        name=group.name,
        annotations=group.annotations,
        machine=group.spec.template,
        infrastructure=find_infrastructure_template(group, context),
        example=_find_example(instances, nodes),
    )
    try:
        made = scale_from_zero.make_node_template(source, context.config.default_architecture)
    except fields.InvalidField as error:
        return None, [group.to_invalid_object(error)]
    if made is None:
        return None, []
    return made.node, [group.to_invalid_object(error) for error in made.complaints]


def _find_example(instances: Iterable[node_groups.Instance], nodes: NodeIndex) -> facts.Node | None:
    registered = (nodes.find(instance.provider_id) for instance in instances)
    return next((node for node in registered if node is not None and not node.unreadable), None)


def _find_template_reference(group: ScalableResource) -> clusterapi.Reference | None:
    machine = group.spec.template
    return machine.spec.infrastructure_ref if machine and machine.spec else None


def find_group_template_kind(group: ScalableResource) -> informers.TemplateKind | None:
    """The kind of the group's infrastructure template; of a MachinePool, of its infrastructure."""
    return informers.find_template_kind(_find_template_reference(group))


def find_infrastructure_template(
    group: ScalableResource, context: NodeGroupContext
) -> clusterapi.InfrastructureTemplate | None:
    reference, kind = _find_template_reference(group), find_group_template_kind(group)
    if reference is None or kind is None or not reference.name:
        return None
    return context.infrastructure.get(kind, group.namespace, reference.name)


def _missing_capacity(group: ScalableResource, context: NodeGroupContext) -> errors.InvalidObject:
    """The error of an empty group without known capacity."""
    reference, kind = _find_template_reference(group), find_group_template_kind(group)
    accepted = f"cpu and memory in annotations {group_annotations.CPU} and {group_annotations.MEMORY}"
    if reference is None or kind is None or not reference.name:
        return group.to_invalid_object(fields.InvalidField("metadata.annotations", None, accepted))
    named = f"{kind.kind} {group.namespace}/{reference.name}"
    if context.infrastructure.get(kind, group.namespace, reference.name) is not None:
        explanation = "too little in status.capacity"
    else:
        explanation = context.infrastructure.explain(kind, group.namespace, reference.name)
    accepted += f", or in status.capacity of {named}"
    return group.to_invalid_object(
        fields.InvalidField("spec.template.spec.infrastructureRef", f"{named}: {explanation}", accepted)
    )


@dataclass(frozen=True, slots=True)
class NodeGroupOrigin:
    """Inputs of a group other than Machines and nodes."""

    objects: tuple[object, ...]
    """The group, its MachineSets, its infrastructure template and all MachineDrainRules."""
    replicas: int
    is_mirror: bool
    has_unread_member: bool
    owners: tuple[str, ...]
    """Owners of its Machines as `kind/namespace/name`."""

    def is_same(self, other: "NodeGroupOrigin") -> bool:
        return (
            len(self.objects) == len(other.objects)
            and all(item is two for item, two in zip(self.objects, other.objects, strict=True))
            and (self.replicas, self.is_mirror, self.has_unread_member, self.owners)
            == (other.replicas, other.is_mirror, other.has_unread_member, other.owners)
        )


def trace_origin(group: ScalableResource, replicas: int, context: NodeGroupContext) -> NodeGroupOrigin:
    """The inputs of `read_node_group` other than Machines and nodes; every input must be listed here."""
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
    """Cache of read groups."""

    def __init__(self) -> None:
        self._kept: dict[str, _CachedGroup] = {}
        self._looked_at: set[str] = set()
        self._owners: set[str] = set()
        """Owners of Machines that changed, or whose nodes changed, since the last observation."""
        self._provider_ids: set[str] = set()
        """Normalized provider ids of changed nodes, for MachinePools without Machines."""

    def invalidate(self, owners: Iterable[str], provider_ids: Iterable[str] = ()) -> None:
        """Invalidate groups with these owners or provider ids."""
        self._owners.update(owners)
        self._provider_ids.update(provider_ids)

    def find(self, id: str, origin: NodeGroupOrigin) -> node_groups.NodeGroup | None:
        """The cached group, if no input changed."""
        kept = self._kept.get(id)
        if kept is None or not kept.origin.is_same(origin):
            return None
        if not self._owners.isdisjoint(origin.owners) or not self._provider_ids.isdisjoint(kept.listed):
            return None
        self._looked_at.add(id)
        return kept.group

    def put(self, id: str, origin: NodeGroupOrigin, listed: Iterable[str], group: node_groups.NodeGroup) -> None:
        """Cache a group. `listed` are the normalized provider ids in its spec."""
        self._kept[id] = _CachedGroup(origin, frozenset(listed), group)
        self._looked_at.add(id)

    def evict_unused(self) -> None:
        """Drop groups that the current observation did not use, and reset changes."""
        self._kept = {id: kept for id, kept in self._kept.items() if id in self._looked_at}
        self._looked_at, self._owners, self._provider_ids = set(), set(), set()
