"""Groups: what the engine is told of each scalable object.

An object that cannot be a group is set aside with the reason; the others stay. Where only something about a group
cannot be read (an option, a taint, the capacity of a group that has nodes to learn from), the group stays and the
complaint is told all the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from windlass import errors
from windlass.engine import facts
from windlass.engine.expanders import pricing
from windlass.kube import fields
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import (
    bounds,
    drain_rules,
    infrastructure,
    instances,
    keys,
    marks,
    options,
    provider_ids,
    rollout,
    scalable,
    template,
    topology,
)
from windlass.providers.clusterapi.config import Config
from windlass.providers.clusterapi.kinds import MACHINE_DEPLOYMENT, Kinds
from windlass.providers.clusterapi.machines import Machine
from windlass.providers.clusterapi.nodes import Nodes
from windlass.providers.clusterapi.observed_groups import Origin
from windlass.providers.clusterapi.scalable import Scalable


@dataclass(frozen=True, slots=True)
class Members:
    """The Machines of a group, what became of their marks, and whether they are being replaced."""

    machines: tuple[Machine, ...]
    marked: marks.Judgement
    is_rolling_out: bool


@dataclass(frozen=True, slots=True)
class Context:
    """What the reading of a group may look at."""

    kinds: Kinds
    infrastructure: infrastructure.Infrastructure
    config: Config
    keys: keys.Keys
    remembered: frozenset[str]
    machine_drain_rules: drain_rules.DrainRules = drain_rules.NO_RULES


def find_members(group: Scalable, replicas: int, context: Context) -> Members:
    machines = tuple(context.kinds.machines_of(group.kind, group.namespace, group.name))
    rolling_out = group.kind == MACHINE_DEPLOYMENT and rollout.is_under_way(
        context.kinds.machine_sets_of(group.namespace, group.name)
    )
    judged = marks.judge(machines, replicas, context.remembered, rolling_out)
    return Members(machines, judged, rolling_out)


def trace(group: Scalable, replicas: int, context: Context) -> Origin:
    """What a group is read from, but for its Machines and their nodes. All else that `read` looks at belongs here."""
    namespace, name = group.namespace, group.name
    sets = context.kinds.machine_sets_of(namespace, name) if group.kind == MACHINE_DEPLOYMENT else ()
    return Origin(
        (group.found, find_infrastructure(group, context), context.machine_drain_rules, *sets),
        replicas,
        scalable.is_mirror(group, context.kinds),
        context.kinds.find_unread_member(namespace) is not None,
        context.kinds.owners_of(group.kind, namespace, name),
    )


def can_choose(group: Scalable, members: Members) -> bool:
    """Can one say which instance goes? Not of a MachinePool whose instances have no Machines to carry a mark."""
    return not group.is_pool or bool(members.machines) or not group.provider_ids


def read(
    group: Scalable, replicas: int, nodes: Nodes, context: Context
) -> tuple[facts.NodeGroup | None, list[errors.InvalidObject]]:
    """The group, if it is one, and complaints."""
    try:
        sizes = bounds.read(group.annotations, context.keys)
    except fields.InvalidField as error:
        return None, [group.complain(error)]
    if not sizes.make_a_group:
        return None, []
    members = find_members(group, replicas, context)
    found = list(list_instances(group, members, nodes, context))
    made, complaints = _make_template(group, found, nodes, context)
    if made is None and replicas == 0:
        return None, complaints or [_miss_capacity(group, context)]
    chosen, about_options = options.read(group.annotations, context.keys)
    complaints += [group.complain(error) for error in about_options]
    return (
        facts.NodeGroup(
            id=group.id,
            min_size=sizes.min,
            max_size=sizes.max,
            target_size=replicas,
            instances=tuple(found),
            template=made,
            template_pods=() if made is None else (template.make_kube_proxy(group.name),),
            options=chosen,
            is_rolling_out=members.is_rolling_out,
            can_choose=can_choose(group, members),
            kept=frozenset(find_kept(group, members, nodes, context)),
            price_per_hour=pricing.read_price(group.annotations),
            replicas_owner=topology.find_owner(group.found, group.resource.api_version),
        ),
        complaints,
    )


def list_instances(group: Scalable, members: Members, nodes: Nodes, context: Context) -> Iterator[facts.Instance]:
    """One for each Machine; of a MachinePool also one for each instance without a Machine."""
    with_machine = set()
    for machine in members.machines:
        if group.is_pool and machine.provider_id:
            with_machine.add(provider_ids.normalise(machine.provider_id))
        is_leaving = machine.uid in members.marked.leaving
        selecting = context.machine_drain_rules.select(machine)
        yield instances.describe(machine, nodes.of_machine(machine), is_leaving, selecting)
    for provider_id in dict.fromkeys(group.provider_ids):
        if provider_ids.normalise(provider_id) not in with_machine:
            registered = nodes.find(provider_id)
            yield facts.Instance(registered.provider_id if registered else provider_id)


def find_kept(group: Scalable, members: Members, nodes: Nodes, context: Context) -> Iterator[str]:
    """Instances that cannot be removed, by provider id: those whose Machines are paused. All of them while there is a
    Machine that cannot be read: how many the group has, and which are on their way out, is not known then.
    """
    is_unsure = context.kinds.find_unread_member(group.namespace) is not None
    for machine in members.machines:
        is_kept = is_unsure or scalable.find_machine_pause(group, machine, context.kinds)
        if is_kept and (node := nodes.of_machine(machine)) is not None:
            yield node.provider_id


def hold(group: Scalable, replicas: int, why: str, nodes: Nodes, context: Context) -> facts.HeldGroup:
    """The group as one that must be left alone for now."""
    members = find_members(group, replicas, context)
    ids = tuple(instance.provider_id for instance in list_instances(group, members, nodes, context))
    return facts.HeldGroup(group.id, why, ids)


def _make_template(
    group: Scalable, found: Sequence[facts.Instance], nodes: Nodes, context: Context
) -> tuple[facts.Node | None, list[errors.InvalidObject]]:
    source = template.Source(
        name=group.name,
        annotations=group.annotations,
        machine=group.spec.template,
        infrastructure=find_infrastructure(group, context),
        example=_find_example(found, nodes),
    )
    try:
        made = template.make(source, context.config.default_architecture)
    except fields.InvalidField as error:
        return None, [group.complain(error)]
    if made is None:
        return None, []
    return made.node, [group.complain(error) for error in made.complaints]


def _find_example(found: Iterable[facts.Instance], nodes: Nodes) -> facts.Node | None:
    registered = (nodes.find(instance.provider_id) for instance in found)
    return next((node for node in registered if node is not None and not node.unreadable), None)


def _refer(group: Scalable) -> clusterapi.Reference | None:
    machine = group.spec.template
    return machine.spec.infrastructure_ref if machine and machine.spec else None


def find_template_kind(group: Scalable) -> infrastructure.TemplateKind | None:
    """The kind of the group's infrastructure template; for a MachinePool, of its infrastructure."""
    return infrastructure.refer(_refer(group))


def find_infrastructure(group: Scalable, context: Context) -> clusterapi.InfrastructureTemplate | None:
    reference, kind = _refer(group), find_template_kind(group)
    if reference is None or kind is None or not reference.name:
        return None
    return context.infrastructure.get(kind, group.namespace, reference.name)


def _miss_capacity(group: Scalable, context: Context) -> errors.InvalidObject:
    """A group at zero of which nobody can tell what its first node would have."""
    reference, kind = _refer(group), find_template_kind(group)
    accepted = f"cpu and memory in annotations {keys.CPU} and {keys.MEMORY}"
    if reference is None or kind is None or not reference.name:
        return group.complain(fields.InvalidField("metadata.annotations", None, accepted))
    named = f"{kind.kind} {group.namespace}/{reference.name}"
    if context.infrastructure.get(kind, group.namespace, reference.name) is not None:
        found = "too little in status.capacity"
    else:
        found = context.infrastructure.explain(kind, group.namespace, reference.name)
    accepted += f", or in status.capacity of {named}"
    return group.complain(fields.InvalidField("spec.template.spec.infrastructureRef", f"{named}: {found}", accepted))
