"""Scaling: groups grow and shrink, one change of a group at a time.

A group that shrinks by particular Machines has all of them marked and, when the marks have got about, its size lowered
once. What is marked already and about to go is done; what is marked for nothing loses its mark first. A Machine that
cannot be marked stays, and the others go. If the size is refused, marks come off again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from windlass.engine import facts, plan
from windlass.kube import errors as kube_errors
from windlass.kube import fields
from windlass.providers import base
from windlass.providers.clusterapi import bounds, groups, provider_ids, put_backs, refusals, scalable
from windlass.providers.clusterapi.groups import Context, Members
from windlass.providers.clusterapi.machines import Machine
from windlass.providers.clusterapi.marks import Marks
from windlass.providers.clusterapi.memory import Memory
from windlass.providers.clusterapi.put_backs import PutBacks, Size
from windlass.providers.clusterapi.replicas import OutcomeUnknown, Replicas
from windlass.providers.clusterapi.scalable import Scalable
from windlass.providers.clusterapi.sizes import Sizes


class Scaling:
    """Changes groups."""

    def __init__(
        self,
        context: Callable[[], Context],
        sizes: Sizes,
        replicas: Replicas,
        marks: Marks,
        memory: Memory,
        undone: PutBacks,
    ) -> None:
        self._put_backs = undone
        self._context = context
        self._sizes = sizes
        self._replicas = replicas
        self._marks = marks
        self._memory = memory
        self._locks: dict[str, asyncio.Lock] = {}

    async def resize(self, order: plan.Resize) -> None:
        async with self._lock(order.group):
            if self._sizes.read(self._find(order.group)) < order.to_size:
                if self._put_backs.must_refuse(order.group):
                    raise await self.explain_put_backs(order.group)
                await self._marks.wait_taken(lambda: self._is_taken(order.group))
            group = self._find(order.group)
            largest = self._bound(group).max

            def choose(replicas: int) -> int:
                if order.to_size > largest:
                    raise refusals.refuse(f"size increase too large - desired:{order.to_size} max:{largest}")
                return max(replicas, order.to_size)

            await self._replicas.write(group, choose, self._sizes.read_version(group))

    async def explain_put_backs(self, id: str) -> base.Refused:
        """Who puts back the sizes of a contested group."""
        return put_backs.refuse(id, await self._replicas.find_owners(self._find(id)))

    def _is_taken(self, id: str) -> bool:
        """Does Cluster API delete all Machines of a group that were told to go?"""
        group, context = self._find(id), self._context()
        return not groups.find_members(group, self._sizes.read(group), context).marked.leaving

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        async with self._lock(order.group):
            group = self._find(order.group)
            size, members = await self._prepare(group)
            there, smallest = _count_there(group, members), self._bound(group).min

            def choose(replicas: int) -> int:
                if replicas > order.from_size:
                    raise refusals.refuse(f"size decrease out of date - expected:{order.from_size} found:{replicas}")
                wanted = min(replicas, order.to_size)
                if wanted == replicas:
                    return replicas
                if wanted < there:
                    raise refusals.refuse(
                        f"node group {group.name}: attempt to delete existing nodes "
                        f"currentReplicas:{replicas} delta:{-order.by} existingNodes: {there}"
                    )
                if wanted < smallest:
                    raise refusals.refuse(f"size decrease too large - desired:{wanted} min:{smallest}")
                return wanted

            await self._replicas.write(group, choose, size)

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        async with self._lock(order.group):
            group = self._find(order.group)
            wanted = [(provider_id, self._find_by_id(provider_id)) for provider_id in order.provider_ids]
            become = [id for id, machine in wanted if machine is not None and machine.node_name]
            refused = {id: refusals.refuse(f"{id} has become a node") for id in become}
            wanted = [(id, machine) for id, machine in wanted if id not in refused]
            refused |= await self._delete(group, wanted, 0 if order.force else self._bound(group).min)
        if refused:
            raise next(iter(refused.values()))

    async def delete_nodes(self, id: str, nodes: Sequence[facts.Node]) -> Mapping[str, base.Refused]:
        """Nodes that were refused while others were not, by name."""
        async with self._lock(id):
            group = self._find(id)
            wanted = [(node.provider_id, self._find_of_node(node)) for node in nodes]
            refused = await self._delete(group, wanted, self._bound(group).min)
        if refused and len(refused) == len({node.provider_id for node in nodes}):
            raise next(iter(refused.values()))
        return {node.name: refused[node.provider_id] for node in nodes if node.provider_id in refused}

    # Deleting

    async def _delete(
        self, group: Scalable, wanted: Sequence[tuple[str, Machine | None]], smallest: int
    ) -> dict[str, base.Refused]:
        """Delete these; nothing is done about those that are gone, or on their way out already.

        Returns those that were refused, by provider id. `Refused` if the group as a whole may not shrink.
        """
        size, members = await self._prepare(group, keep=[machine for _, machine in wanted if machine is not None])
        own = {machine.uid for machine in members.machines}
        machines: dict[str, Machine] = {}
        without: list[str] = []
        refused: dict[str, base.Refused] = {}
        for provider_id, machine in wanted:
            try:
                if machine is None:
                    without += self._check_instance(group, provider_id)
                elif machine.uid not in own:
                    raise refusals.refuse(f"node {provider_id!r} doesn't belong to node group {group.id!r}")
                elif why := scalable.find_machine_pause(group, machine, self._context().kinds):
                    raise refusals.refuse(f"Machine {machine.key} is paused: {why}")
                elif not machine.is_deleting and machine.uid not in members.marked.leaving:
                    machines[provider_id] = machine
            except base.Refused as error:
                refused[provider_id] = error
        if machines or without:
            _check_room(group, size.replicas, len(machines) + len(without), smallest)
            unmarked = await self._shrink(group, list(machines.values()), without, smallest, size)
            refused |= {id: unmarked[uid] for id, one in machines.items() if (uid := one.uid) in unmarked}
        return refused

    def _check_instance(self, group: Scalable, provider_id: str) -> list[str]:
        """An instance of a MachinePool that no Machine stands for; empty if it is gone, or on its way out."""
        if provider_ids.is_made(provider_id) or not group.is_pool:
            return []  # its Machine was there and is gone
        listed = {provider_ids.normalise(one) for one in group.provider_ids}
        if provider_ids.normalise(provider_id) not in listed:
            raise refusals.refuse(f"node {provider_id!r} is not present in providerIDList of {group.id!r}")
        return [] if self._memory.is_leaving(group.id, provider_id) else [provider_id]

    async def _shrink(
        self, group: Scalable, machines: list[Machine], without: list[str], smallest: int, size: Size
    ) -> dict[str, base.Refused]:
        """Mark Machines and lower the size. Those that could not be marked, by uid."""
        try:
            marked, failed = await self._marks.put(machines)
        except kube_errors.KubeError as error:
            raise refusals.from_call(error) from error
        refused = {uid: refusals.from_call(error) for uid, error in failed.items()}
        by = len(marked) + len(without)
        if not by:
            return refused
        if marked:
            await self._marks.wait_seen(marked, self._look_up)

        def choose(replicas: int) -> int:
            _check_room(group, replicas, by, smallest)
            return replicas - by

        try:
            await self._replicas.write(group, choose, size)
        except OutcomeUnknown:
            raise  # if it was taken after all, the marks are needed; if not, the next change finds them stale
        except base.Refused:
            await self._marks.take_off(marked)
            raise
        self._memory.remember(group.id, (machine.uid for machine in marked), without)
        return refused

    async def _prepare(self, group: Scalable, keep: Iterable[Machine] = ()) -> tuple[Size, Members]:
        """Look at a group that is to shrink, and take off the marks that would send away others than those meant."""
        size = await self._replicas.read(group)
        members = groups.find_members(group, size.replicas, self._context())
        if unread := self._context().kinds.find_unread_member(group.namespace):
            raise refusals.refuse(f"{group.id}: which machines it has is not known: {unread}")
        if members.is_rolling_out:
            raise refusals.refuse(f"{group.id} is rolling out: which machine would go is not known")
        kept = {machine.uid for machine in keep}
        stale = [machine for machine in members.marked.stale if machine.uid not in kept]
        if failures := await self._marks.take_off(stale):
            raise refusals.from_call(failures[0]) from failures[0]
        self._memory.forget(machine.uid for machine in stale)
        return size, members

    # Finding

    def _lock(self, id: str) -> asyncio.Lock:
        return self._locks.setdefault(id, asyncio.Lock())

    def _find(self, id: str) -> Scalable:
        context = self._context()
        found = scalable.find(context.kinds, context.config, id)
        if found is None:
            raise refusals.refuse(f"no such node group: {id}")
        if why := scalable.find_pause(found, context.kinds):
            raise refusals.refuse(f"{id} is paused: {why}")
        return found

    def _bound(self, group: Scalable) -> bounds.Bounds:
        try:
            return bounds.read(group.annotations, self._context().keys)
        except fields.InvalidField as error:
            raise refusals.refuse(str(group.complain(error))) from error

    def _find_by_id(self, provider_id: str) -> Machine | None:
        kinds = self._context().kinds
        if provider_ids.is_made(provider_id):
            return kinds.find_machine("", "", provider_ids.find_key(provider_id))
        return kinds.find_machine(provider_id, "", "")

    def _look_up(self, machine: Machine) -> Machine | None:
        return self._context().kinds.machines.get(machine.namespace, machine.name)

    def _find_of_node(self, node: facts.Node) -> Machine | None:
        context = self._context()
        named = node.annotations.get(context.keys.machine, "")
        key = f"{node.annotations.get(context.keys.cluster_namespace, '')}/{named}" if named else ""
        return context.kinds.find_machine(node.provider_id, node.name, key)


def _check_room(group: Scalable, size: int, by: int, smallest: int) -> None:
    if size <= smallest:
        raise refusals.refuse("min size reached, nodes will not be deleted")
    if size - by < smallest:
        raise refusals.refuse(
            f"unable to delete {by} machines in {group.id!r}, machine replicas are {size}, minSize is {smallest}"
        )


def _count_there(group: Scalable, members: Members) -> int:
    """Instances that are nodes, or may be: lowering the size below them would delete one."""
    machines = sum(1 for one in members.machines if one.node_name and not one.is_deleting)
    listed = len(group.provider_ids) if group.is_pool and not members.machines else 0
    return max(machines, listed)
