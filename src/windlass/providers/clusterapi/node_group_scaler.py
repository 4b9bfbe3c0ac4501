"""Scaling of node groups: increases, target reductions and deletions, one change of a group at a time.

To delete Machines, all of them are annotated, and when the annotations have been observed the size is lowered once.
Machines that are already annotated and leaving count as done; stale annotations are removed first.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from windlass.engine.model import facts, plan
from windlass.kube import errors, fields
from windlass.providers import base
from windlass.providers.clusterapi import group_annotations, machines, node_groups, scalable_resources, scale_client
from windlass.providers.clusterapi.delete_annotations import DeleteAnnotations, PendingDeletions
from windlass.providers.clusterapi.machines import Machine
from windlass.providers.clusterapi.node_groups import GroupMembers, NodeGroupContext
from windlass.providers.clusterapi.scalable_resources import ScalableResource
from windlass.providers.clusterapi.scale_client import (
    ReplicasAtVersion,
    ReplicasCache,
    RevertTracker,
    ScaleClient,
    ScaleOutcomeUnknown,
)


class NodeGroupScaler:
    """Changes the sizes of node groups."""

    def __init__(
        self,
        context: Callable[[], NodeGroupContext],
        sizes: ReplicasCache,
        replicas: ScaleClient,
        marks: DeleteAnnotations,
        memory: PendingDeletions,
        undone: RevertTracker,
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
                if self._put_backs.should_refuse(order.group):
                    raise await self.explain_reverts(order.group)
                await self._marks.wait_deleting(lambda: self._is_deleting_all(order.group))
            group = self._find(order.group)
            largest = self._bound(group).max

            def choose(replicas: int) -> int:
                if order.to_size > largest:
                    raise scale_client.provider_error(
                        f"size increase too large - desired:{order.to_size} max:{largest}"
                    )
                return max(replicas, order.to_size)

            await self._replicas.write(group, choose, self._sizes.read_version(group))

    async def explain_reverts(self, id: str) -> base.ProviderError:
        """Which managers revert the sizes of a contested group."""
        return scale_client.size_contested_error(id, await self._replicas.find_owners(self._find(id)))

    def _is_deleting_all(self, id: str) -> bool:
        """True if Cluster API deletes all annotated Machines of a group."""
        group, context = self._find(id), self._context()
        return not node_groups.find_members(group, self._sizes.read(group), context).marked.leaving

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        async with self._lock(order.group):
            group = self._find(order.group)
            size, members = await self._prepare(group)
            there, smallest = _count_present(group, members), self._bound(group).min

            def choose(replicas: int) -> int:
                if replicas > order.from_size:
                    raise scale_client.provider_error(
                        f"size decrease out of date - expected:{order.from_size} found:{replicas}"
                    )
                desired = min(replicas, order.to_size)
                if desired == replicas:
                    return replicas
                if desired < there:
                    raise scale_client.provider_error(
                        f"node group {group.name}: attempt to delete existing nodes "
                        f"currentReplicas:{replicas} delta:{-order.by} existingNodes: {there}"
                    )
                if desired < smallest:
                    raise scale_client.provider_error(f"size decrease too large - desired:{desired} min:{smallest}")
                return desired

            await self._replicas.write(group, choose, size)

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        async with self._lock(order.group):
            group = self._find(order.group)
            desired = [(provider_id, self._find_by_id(provider_id)) for provider_id in order.provider_ids]
            become = [id for id, machine in desired if machine is not None and machine.node_name]
            refused = {id: scale_client.provider_error(f"{id} has become a node") for id in become}
            desired = [(id, machine) for id, machine in desired if id not in refused]
            refused |= await self._delete(group, desired, 0 if order.force else self._bound(group).min)
        if refused:
            raise next(iter(refused.values()))

    async def delete_nodes(self, id: str, nodes: Sequence[facts.Node]) -> Mapping[str, base.ProviderError]:
        """# nodes that were not deleted while others were, by name"""
        async with self._lock(id):
            group = self._find(id)
            desired = [(node.provider_id, self._find_of_node(node)) for node in nodes]
            refused = await self._delete(group, desired, self._bound(group).min)
        if refused and len(refused) == len({node.provider_id for node in nodes}):
            raise next(iter(refused.values()))
        return {node.name: refused[node.provider_id] for node in nodes if node.provider_id in refused}

    # Deletion

    async def _delete(
        self, group: ScalableResource, desired: Sequence[tuple[str, Machine | None]], smallest: int
    ) -> dict[str, base.ProviderError]:
        """Delete instances; those that are gone or being deleted count as done.

        Returns failed ones by provider id. ProviderError if the group may not shrink.
        """
        size, members = await self._prepare(group, keep=[machine for _, machine in desired if machine is not None])
        own = {machine.uid for machine in members.machines}
        machines: dict[str, Machine] = {}
        without: list[str] = []
        refused: dict[str, base.ProviderError] = {}
        for provider_id, machine in desired:
            try:
                if machine is None:
                    without += self._check_instance(group, provider_id)
                elif machine.uid not in own:
                    raise scale_client.provider_error(f"node {provider_id!r} doesn't belong to node group {group.id!r}")
                elif reason := scalable_resources.find_machine_pause(group, machine, self._context().kinds):
                    raise scale_client.provider_error(f"Machine {machine.key} is paused: {reason}")
                elif not machine.is_deleting and machine.uid not in members.marked.leaving:
                    machines[provider_id] = machine
            except base.ProviderError as error:
                refused[provider_id] = error
        if machines or without:
            _check_size(group, size.replicas, len(machines) + len(without), smallest)
            unmarked = await self._shrink(group, list(machines.values()), without, smallest, size)
            refused |= {id: unmarked[uid] for id, machine in machines.items() if (uid := machine.uid) in unmarked}
        return refused

    def _check_instance(self, group: ScalableResource, provider_id: str) -> list[str]:
        """The error for an instance of a MachinePool without a Machine; empty if it is gone or being deleted."""
        if machines.is_synthetic_provider_id(provider_id) or not group.is_pool:
            return []  # its Machine is gone
        listed = {machines.normalize_provider_id(item) for item in group.provider_ids}
        if machines.normalize_provider_id(provider_id) not in listed:
            raise scale_client.provider_error(f"node {provider_id!r} is not present in providerIDList of {group.id!r}")
        return [] if self._memory.is_pending(group.id, provider_id) else [provider_id]

    async def _shrink(
        self,
        group: ScalableResource,
        machines: list[Machine],
        without: list[str],
        smallest: int,
        size: ReplicasAtVersion,
    ) -> dict[str, base.ProviderError]:
        """Annotate Machines and lower the size. Returns errors of annotations by uid."""
        try:
            marked, failed = await self._marks.annotate(machines)
        except errors.KubeError as error:
            raise scale_client.api_call_error(error) from error
        refused = {uid: scale_client.api_call_error(error) for uid, error in failed.items()}
        by = len(marked) + len(without)
        if not by:
            return refused
        if marked:
            await self._marks.wait_observed(marked, self._look_up)

        def choose(replicas: int) -> int:
            _check_size(group, replicas, by, smallest)
            return replicas - by

        try:
            await self._replicas.write(group, choose, size)
        except ScaleOutcomeUnknown:
            raise  # if the size was written, the annotations are needed; else the next change removes them
        except base.ProviderError:
            await self._marks.remove(marked)
            raise
        self._memory.add(group.id, (machine.uid for machine in marked), without)
        return refused

    async def _prepare(
        self, group: ScalableResource, keep: Iterable[Machine] = ()
    ) -> tuple[ReplicasAtVersion, GroupMembers]:
        """Check a group before it shrinks, and remove stale annotations that would delete other Machines."""
        size = await self._replicas.read(group)
        members = node_groups.find_members(group, size.replicas, self._context())
        if unread := self._context().kinds.find_unread_member(group.namespace):
            raise scale_client.provider_error(f"{group.id}: which machines it has is not known: {unread}")
        if members.is_rolling_out:
            raise scale_client.provider_error(f"{group.id} is rolling out: which machine would go is not known")
        kept = {machine.uid for machine in keep}
        stale = [machine for machine in members.marked.stale if machine.uid not in kept]
        if failures := await self._marks.remove(stale):
            raise scale_client.api_call_error(failures[0]) from failures[0]
        self._memory.discard(machine.uid for machine in stale)
        return size, members

    # Lookup

    def _lock(self, id: str) -> asyncio.Lock:
        return self._locks.setdefault(id, asyncio.Lock())

    def _find(self, id: str) -> ScalableResource:
        context = self._context()
        resource = scalable_resources.find_scalable(context.kinds, context.config, id)
        if resource is None:
            raise scale_client.provider_error(f"no such node group: {id}")
        if reason := scalable_resources.find_pause(resource, context.kinds):
            raise scale_client.provider_error(f"{id} is paused: {reason}")
        return resource

    def _bound(self, group: ScalableResource) -> group_annotations.SizeBounds:
        try:
            return group_annotations.read_size_bounds(group.annotations, self._context().keys)
        except fields.InvalidField as error:
            raise scale_client.provider_error(str(group.to_invalid_object(error))) from error

    def _find_by_id(self, provider_id: str) -> Machine | None:
        kinds = self._context().kinds
        if machines.is_synthetic_provider_id(provider_id):
            return kinds.find_machine("", "", machines.machine_key_of(provider_id))
        return kinds.find_machine(provider_id, "", "")

    def _look_up(self, machine: Machine) -> Machine | None:
        return self._context().kinds.machines.get(machine.namespace, machine.name)

    def _find_of_node(self, node: facts.Node) -> Machine | None:
        context = self._context()
        named = node.annotations.get(context.keys.machine, "")
        key = f"{node.annotations.get(context.keys.cluster_namespace, '')}/{named}" if named else ""
        return context.kinds.find_machine(node.provider_id, node.name, key)


def _check_size(group: ScalableResource, size: int, by: int, smallest: int) -> None:
    if size <= smallest:
        raise scale_client.provider_error("min size reached, nodes will not be deleted")
    if size - by < smallest:
        raise scale_client.provider_error(
            f"unable to delete {by} machines in {group.id!r}, machine replicas are {size}, minSize is {smallest}"
        )


def _count_present(group: ScalableResource, members: GroupMembers) -> int:
    """The number of instances with nodes or possibly with nodes; a lower size would delete one."""
    machines = sum(1 for machine in members.machines if machine.node_name and not machine.is_deleting)
    listed = len(group.provider_ids) if group.is_pool and not members.machines else 0
    return max(machines, listed)
