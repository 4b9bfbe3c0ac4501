"""In-memory provider: groups whose instances boot after a delay, or fail, as configured.

provider = Provider(clock)
provider.add(Group("a", 0, 10, template, boot_s=30.0))
provider.groups["a"].fate = Fate.STUCK      # of instances created later
"""

import enum
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass import clock
from windlass.engine.model import facts, node_groups, plan
from windlass.providers import base

STOCKOUT = node_groups.InstanceError("OutOfResources", "STOCKOUT", "no machines left")
REFUSAL = node_groups.InstanceError("Other", "cloudProviderError", "refused")


class Fate(enum.StrEnum):
    """What becomes of an instance that is asked for."""

    BOOTS = "boots"
    """It becomes a node after the group's boot time."""
    STUCK = "stuck"
    """It exists, and no node ever registers."""
    FAILS = "fails"
    """It exists, and says that it cannot be created."""
    ABSENT = "absent"
    """The size is raised, and nothing comes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """An instance: what it will become, and when."""

    name: str
    born_s: float
    boots_at_s: float
    error: node_groups.InstanceError | None = None
    gone_at_s: float | None = None
    """When it will have left, once it was told to."""

    @property
    def provider_id(self) -> str:
        return f"simulated:///{self.name}"

    def describe(self, now_s: float) -> node_groups.Instance:
        if self.gone_at_s is not None:
            return node_groups.Instance(self.provider_id, "Deleting")
        return node_groups.Instance(self.provider_id, "Running" if self.boots_at_s <= now_s else "Creating", self.error)


@dataclass(slots=True)
class Group:
    """A group, and how it behaves; all of it may be changed at any time."""

    id: str
    min_size: int
    max_size: int
    template: facts.Node
    size: int = 0
    boot_s: float = 60.0
    """From the order to the node."""
    delete_s: float = 0.0
    """From the order to the end of the instance and its node."""
    fate: Fate = Fate.BOOTS
    refuses: node_groups.InstanceError | None = None
    """Set: every change of the group is refused, with this reason."""
    held: str = ""
    """Set: the group must be left alone, for this reason."""
    options: node_groups.GroupOptions = field(default_factory=node_groups.GroupOptions)
    machines: list[Machine] = field(default_factory=list)


class Provider:
    """Groups by id. Implements `base.Provider`."""

    def __init__(self, time: clock.Clock) -> None:
        self.groups: dict[str, Group] = {}
        self._clock = time
        self._numbers = itertools.count(1)

    def add(self, group: Group) -> None:
        """Its first machines have booted long ago, and so they are nodes."""
        self.groups[group.id] = group
        group.machines += [self._make(group, Fate.BOOTS, boot_s=0.0) for _ in range(group.size)]

    @property
    def nodes(self) -> list[facts.Node]:
        """The nodes that have registered, in the order of their instances."""
        now_s = self._clock.now_s()
        return [
            _register(group.template, machine)
            for group in self.groups.values()
            for machine in _find_present(group, now_s)
            if machine.boots_at_s <= now_s
        ]

    # As a provider

    @property
    def unavailable_reason(self) -> str:
        return ""

    def observe(self, nodes: Sequence[facts.Node]) -> base.ObservedNodeGroups:
        now_s = self._clock.now_s()
        found = [(self.groups[id].held, _describe(self.groups[id], now_s)) for id in sorted(self.groups)]
        held = (
            node_groups.HeldGroup(group.id, why, tuple(instance.provider_id for instance in group.instances))
            for why, group in found
            if why
        )
        return base.ObservedNodeGroups(tuple(group for why, group in found if not why), tuple(held))

    async def resize(self, order: plan.Resize) -> None:
        group = self._find(order.group)
        if order.to_size > group.max_size:
            raise _refuse(f"{group.id} may have at most {group.max_size} nodes, not {order.to_size}")
        wanted = max(order.to_size - group.size, 0)
        group.size += wanted
        if group.fate is not Fate.ABSENT:
            group.machines += [self._make(group, group.fate, group.boot_s) for _ in range(wanted)]

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        group = self._find(order.group)
        there = sum(machine.gone_at_s is None for machine in _find_present(group, self._clock.now_s()))
        if group.size > order.from_size:
            raise _refuse(f"{group.id} was raised from {order.from_size} to {group.size} meanwhile")
        if min(group.size, order.to_size) < max(there, group.min_size):
            raise _refuse(f"{group.id} cannot be lowered from {group.size} by {order.by}: {there} instances exist")
        group.size = min(group.size, order.to_size)

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        self._delete(self._find(order.group), order.provider_ids, order.force)

    async def delete_nodes(self, group: str, nodes: Sequence[facts.Node]) -> Mapping[str, base.ProviderError]:
        self._delete(self._find(group), [node.provider_id for node in nodes], False)
        return {}

    # Inside

    def _find(self, id: str) -> Group:
        group = self.groups.get(id)
        if group is None:
            raise _refuse(f"no such node group: {id}")
        if group.held:
            raise _refuse(f"{id} is left alone: {group.held}")
        if group.refuses is not None:
            raise base.ProviderError(group.refuses)
        return group

    def _make(self, group: Group, fate: Fate, boot_s: float) -> Machine:
        now_s = self._clock.now_s()
        boots_at_s = now_s + boot_s if fate is Fate.BOOTS else float("inf")
        error = STOCKOUT if fate is Fate.FAILS else None
        return Machine(f"{group.id}-{next(self._numbers)}", now_s, boots_at_s, error)

    def _delete(self, group: Group, provider_ids: Collection[str], is_forced: bool) -> None:
        now_s = self._clock.now_s()
        going = {one.provider_id for one in group.machines if one.gone_at_s is None} & set(provider_ids)
        if group.size - len(going) < group.min_size and not is_forced:
            raise _refuse(f"{group.id} must keep {group.min_size} of {group.size} nodes, {len(going)} were to go")
        group.size -= len(going)
        group.machines = [
            replace(machine, gone_at_s=now_s + group.delete_s) if machine.provider_id in going else machine
            for machine in group.machines
        ]


def _find_present(group: Group, now_s: float) -> Iterator[Machine]:
    return (machine for machine in group.machines if machine.gone_at_s is None or machine.gone_at_s > now_s)


def _describe(group: Group, now_s: float) -> node_groups.NodeGroup:
    machines: Iterable[Machine] = _find_present(group, now_s)
    return node_groups.NodeGroup(
        id=group.id,
        min_size=group.min_size,
        max_size=group.max_size,
        target_size=group.size,
        instances=tuple(machine.describe(now_s) for machine in machines),
        template=group.template,
        options=group.options,
    )


def _register(template: facts.Node, machine: Machine) -> facts.Node:
    return replace(
        template,
        name=machine.name,
        uid=f"uid-{machine.name}",
        labels={**template.labels, facts.HOSTNAME: machine.name},
        provider_id=machine.provider_id,
        created_s=machine.boots_at_s,
        conditions=(facts.Condition("Ready", "True", machine.boots_at_s),),
    )


def _refuse(message: str) -> base.ProviderError:
    return base.ProviderError(replace(REFUSAL, message=message))
