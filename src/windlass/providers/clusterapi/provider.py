"""Cluster API provider: node groups read through informers and changed through the scale subresource.

    provider = clusterapi.Provider(management_client, config, on_change=loop.wake)
    running = asyncio.create_task(provider.run())
    await provider.wait_synced()
    observed = provider.observe(nodes)

The RBAC rules that it needs in the management cluster are declared first.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass import errors, klog
from windlass.engine.model import facts, node_groups, plan
from windlass.klog import ErrorPlace
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.kube.rbac import READ, PolicyRule
from windlass.kube.resources import Resource
from windlass.providers import base
from windlass.providers.clusterapi import (
    group_annotations,
    group_discovery,
    machine_drain_rule,
    machines,
    scalable_resources,
    scale_client,
)
from windlass.providers.clusterapi import node_groups as clusterapi_node_groups
from windlass.providers.clusterapi.deletion import DeleteAnnotations, PendingDeletions
from windlass.providers.clusterapi.group_discovery import Config
from windlass.providers.clusterapi.informers import InfrastructureTemplates
from windlass.providers.clusterapi.machines import Machine, NodeIndex
from windlass.providers.clusterapi.node_group_scaler import NodeGroupScaler
from windlass.providers.clusterapi.node_groups import NodeGroupCache, NodeGroupContext
from windlass.providers.clusterapi.scale_client import ReplicasCache, RevertTracker, ScaleClient

_GROUP = "cluster.x-k8s.io"

_GROUPS = ("machinedeployments", "machinesets", "machinepools")

READ_RULES = (
    PolicyRule(_GROUP, (*_GROUPS, "machines"), READ, "node groups, and the Machines in them"),
    PolicyRule(
        _GROUP,
        ("machinedrainrules", "clusters"),
        READ,
        "how pods are drained, and the labels of Clusters by which rules select; without it there are no such rules",
    ),
    PolicyRule(
        "infrastructure.cluster.x-k8s.io", ("*",), READ, "what a node of an empty group would be like: its template"
    ),
)
"""Enough to watch. Who knows which infrastructure there is may name its kinds of templates in place of all."""

EVENT_RULES = (
    PolicyRule("", ("events",), ("create", "patch"), "a warning about a group whose size a Cluster topology owns"),
)
"""Events about the objects of groups. Without it everything else works, and the log has the warning alone."""


def scale_rules(group: str = _GROUP, kinds: tuple[str, ...] = _GROUPS) -> tuple[PolicyRule, ...]:
    """What changing the size of groups takes besides: nothing of a group but its size can be written so."""
    return (
        PolicyRule(group, tuple(f"{kind}/scale" for kind in kinds), ("get", "patch"), "the size of a group"),
        PolicyRule(group, ("machines",), ("get", "update"), "the mark of a Machine that is to go first"),
    )


_LOOK_AGAIN_S = 5.0

_UNREACHABLE = (kube_errors.ConnectionLost, kube_errors.ServerError, kube_errors.TooManyRequests)

_log = logging.getLogger(__name__)


def _ignore() -> None:
    """Nobody wants to know."""


class _MachineHandler:
    """A handler that passes on whose Machines are different now."""

    def __init__(self, mark: Callable[[Iterable[str]], None]) -> None:
        self._mark = mark

    def added(self, found: Machine) -> None:
        self._mark(found.owners)

    def modified(self, before: Machine, found: Machine) -> None:
        if before != found:
            self._mark((*before.owners, *found.owners))

    def deleted(self, before: Machine) -> None:
        self._mark(before.owners)


class Provider:
    """Node groups in a management cluster. `on_change` is called whenever anything about them may be different."""

    def __init__(
        self, api: client.Client, config: Config | None = None, on_change: Callable[[], None] = _ignore
    ) -> None:
        self._api = api
        self._config = config or Config()
        self._keys = group_annotations.AnnotationKeys(self._config.group)
        self._on_change = on_change
        self._memory = PendingDeletions()
        self._put_backs = RevertTracker(api.clock)
        self._sizes = ReplicasCache(self._put_backs)
        self._contested: set[str] = set()
        self._newly_contested: asyncio.Queue[str] = asyncio.Queue()
        """Groups whose sizes are put back: those are to be told of."""
        namespaces = group_discovery.find_namespaces(self._config.specs)
        self._infrastructure = InfrastructureTemplates(api, namespaces, self._note)
        self._kinds: scalable_resources.ClusterApiObjects | None = None
        self._scaling: NodeGroupScaler | None = None
        self._is_discovered = asyncio.Event()
        self._undiscovered = "not looked for yet"
        self._observed: tuple[Sequence[facts.Node], base.ObservedNodeGroups] | None = None
        """What was found last, and of which nodes, while nothing is noted that could make it different."""
        self._nodes = NodeIndex(self._keys)
        self._groups = NodeGroupCache()
        self._remembered: frozenset[str] = frozenset()
        """Machines that were told to go, as of the last observation."""
        self._held: dict[str, str] = {}
        """Groups that are left alone, and why, as it was logged last."""
        self._drain_rules = machine_drain_rule.NO_DRAIN_RULES
        self._acting = 0
        """Orders that are being carried out: what they have written may be different at any time."""

    # Staying informed

    async def run(self) -> None:
        """Follow everything until cancelled. No failure of the server ends this."""
        found = await self._discover()
        self._kinds = scalable_resources.watch_resources(
            self._api, self._config, found, self._note, _MachineHandler(self._mark), self._look_at
        )
        marks = DeleteAnnotations(self._api, found["machines"], self._keys.delete_machine)
        # Nobody's scale-up waits until hundreds of Machines are marked.
        replicas = ScaleClient(self._api.with_own_rate_limit(), self._sizes, self._put_backs)
        self._scaling = NodeGroupScaler(self._context, self._sizes, replicas, marks, self._memory, self._put_backs)
        self._is_discovered.set()
        async with asyncio.TaskGroup() as together:
            together.create_task(self._infrastructure.run())
            together.create_task(self._explain_contested(self._scaling))
            for followed in (*self._kinds.all, *self._kinds.optional):
                together.create_task(followed.run())

    async def wait_synced(self) -> None:
        """Until all groups are known: Machines and MachineSets were read, without which nothing can be told from
        anything, and every other kind of group was read, or is refused for good.
        """
        await self._is_discovered.wait()
        assert self._kinds is not None, "discovered means that there are kinds"
        await self._kinds.machines.wait_synced()
        await self._kinds.machine_sets.wait_synced()
        for followed in self._kinds.scalable:
            await followed.wait_answered()
        for followed in (*self._kinds.all, *self._kinds.optional):
            await followed.wait_settled()
        await self._infrastructure.wait_settled()

    @property
    def trouble(self) -> dict[str, str]:
        """Kinds that cannot be read, or are not current, and why; empty while all is well."""
        if self._kinds is None:
            return {self._config.group: self._undiscovered}
        optional = [one for one in self._kinds.optional if not one.was_never_allowed]
        every = (*self._kinds.all, *optional)
        found = {one.resource.kind: str(one.last_error) for one in every if one.last_error is not None}
        return found | self._infrastructure.errors_by_kind

    @property
    def unavailable_reason(self) -> str:
        """Why nothing can be decided about groups: the management cluster does not answer at all, Machines or
        MachineSets are not current, or there may be groups that were never read. A kind that cannot be read any more
        while others can is no reason to leave these alone.
        """
        if self._kinds is None:
            return ""
        found = [one.last_error for one in self._kinds.all]
        if all(isinstance(trouble, _UNREACHABLE) for trouble in found):
            return str(found[0])
        missing = [one for one in self._kinds.scalable if not one.synced and not one.is_refused]
        outdated = [one for one in (self._kinds.machines, self._kinds.machine_sets) if one.last_error is not None]
        return "; ".join(f"{one.resource.kind}: {one.last_error or 'not read yet'}" for one in [*outdated, *missing])

    async def _discover(self) -> dict[str, Resource[Any]]:
        while True:
            try:
                found = await scalable_resources.discover_resources(self._api, self._config)
            except kube_errors.KubeError as error:
                self._undiscovered = str(error)
            else:
                if found is not None:
                    return dict(found)
                version = f"/{self._config.version}" if self._config.version else ""
                self._undiscovered = f"the server has no Machines in {self._config.group}{version}"
            _log.warning("%s", self._undiscovered)
            await self._api.clock.sleep(_LOOK_AGAIN_S)

    def _look_at(self, resource: Resource[Any], changed: Any) -> None:
        """A scalable object changed: what it refers to must be followed."""
        one = scalable_resources.ScalableResource(resource, changed)
        kind = clusterapi_node_groups.find_group_template_kind(one)
        if kind is not None and self._may_be_group(one):
            self._infrastructure.request(kind)
        self._note()

    def _mark(self, owners: Iterable[str]) -> None:
        """Machines of these owners changed."""
        self._groups.invalidate(owners)
        self._note()

    def _note(self) -> None:
        self._observed = None
        self._on_change()

    def _may_be_group(self, one: scalable_resources.ScalableResource) -> bool:
        try:
            return (
                scalable_resources.is_selected(one, self._config)
                and group_annotations.read_size_bounds(one.annotations, self._keys).allow_nodes
            )
        except ValueError:
            return False

    # As a provider

    def observe(self, nodes: Sequence[facts.Node]) -> base.ObservedNodeGroups:
        if self._kinds is None:
            return base.ObservedNodeGroups()
        is_current = all(one.last_error is None for one in self._kinds.scalable) and not self._kinds.malformed
        if (
            rules := machine_drain_rule.observe_drain_rules(self._kinds.machine_drain_rules, self._kinds.clusters)
        ) != self._drain_rules:
            self._drain_rules, self._observed = rules, None
        if self._observed is not None and self._observed[0] == nodes and is_current:
            return self._observed[1]
        self._forget()
        context, known = self._context(), self._nodes
        self._mark_changed(nodes, self._kinds)
        found: list[node_groups.NodeGroup] = []
        set_aside: list[errors.InvalidObject] = list(self._kinds.malformed)
        held: list[node_groups.HeldGroup] = []
        malformed = {f"{one.kind}/{one.name}": str(one) for one in self._kinds.malformed_groups}
        for followed in self._kinds.scalable:
            unreadable = f"{followed.resource.kind}: {followed.last_error}" if followed.is_unreadable else ""
            if unreadable and not followed.synced:
                held.append(node_groups.HeldGroup(f"{followed.resource.kind}/", unreadable))
            for scaled in followed:
                one = scalable_resources.ScalableResource(followed.resource, scaled)
                # Of one that cannot be read, what was known before is there, and may be over.
                over = malformed.pop(one.id, "")
                try:
                    group, complaints = self._read(one, unreadable or over, known, context)
                except Exception as error:  # whatever it is, it costs this group
                    klog.report_error(ErrorPlace.PROVIDER, one.id, one.meta.resource_version or "", error)
                    why = f"it could not be read: {type(error).__name__}: {klog.describe_error(error)}"
                    group, complaints = (
                        node_groups.HeldGroup(one.id, why, self._list_instances(one, known, context)),
                        [],
                    )
                set_aside += complaints
                if isinstance(group, node_groups.HeldGroup):
                    held.append(group)
                elif group is not None:
                    found.append(self._keep_contested(group))
        self._groups.evict_unused()
        found.sort(key=lambda group: group.id)
        held += [node_groups.HeldGroup(id, why) for id, why in malformed.items()]
        held.sort(key=lambda group: group.id)
        self._explain_held(held)
        seen = base.ObservedNodeGroups(tuple(found), tuple(held), tuple(set_aside), self._drain_rules.rules)
        # A complaint may come to say something else without any object being different.
        keeps = is_current and not set_aside and not self._acting and not self._contested
        self._observed = (list(nodes), seen) if keeps else None
        return seen

    def _read(
        self, one: scalable_resources.ScalableResource, unreadable: str, nodes: NodeIndex, context: NodeGroupContext
    ) -> tuple[node_groups.NodeGroup | node_groups.HeldGroup | None, list[errors.InvalidObject]]:
        """The group, if it is one of ours, and complaints. `unreadable`: why nothing of its kind can be trusted."""
        if not scalable_resources.is_selected(one, self._config):
            return None, []
        replicas = self._sizes.read(one)
        origin = clusterapi_node_groups.trace_origin(one, replicas, context)
        if not unreadable and (kept := self._groups.find(one.id, origin)) is not None:
            return kept, []
        group, complaints = clusterapi_node_groups.read_node_group(one, replicas, nodes, context)
        why = unreadable or scalable_resources.find_pause(one, context.kinds)
        if group is not None and not why:
            if not complaints:  # they may come to say something else without any object being different
                self._groups.put(one.id, origin, map(machines.normalize_provider_id, one.provider_ids), group)
            return group, complaints
        if group is None and not complaints:
            return None, []
        return clusterapi_node_groups.hold_node_group(
            one, replicas, why or str(complaints[0]), nodes, context
        ), complaints

    def _mark_changed(self, nodes: Sequence[facts.Node], known: scalable_resources.ClusterApiObjects) -> None:
        """Mark groups whose nodes changed, or of whose Machines some were told to go, or stay after all."""
        for node in self._nodes.update(nodes):
            machine_key = self._nodes.machine_name_of(node)
            for machine in known.machines_of_node(node.provider_id, node.name, machine_key):
                self._groups.invalidate(machine.owners)
            self._groups.invalidate((), (machines.normalize_provider_id(node.provider_id),))
        before, self._remembered = self._remembered, self._memory.machines
        if different := before ^ self._remembered:
            for machine in known.machines:
                if machine.uid in different:
                    self._groups.invalidate(machine.owners)

    def _list_instances(
        self, one: scalable_resources.ScalableResource, nodes: NodeIndex, context: NodeGroupContext
    ) -> tuple[str, ...]:
        """The instances of a group that cannot be read, as far as they can be told."""
        try:
            return clusterapi_node_groups.hold_node_group(one, 0, "", nodes, context).instances
        except Exception as error:
            klog.report_error(ErrorPlace.PROVIDER, f"instances of {one.id}", one.meta.resource_version or "", error)
            return ()

    def _keep_contested(self, group: node_groups.NodeGroup) -> node_groups.NodeGroup:
        """Nothing of a group whose sizes are put back is removed: it would be made anew."""
        if not self._put_backs.is_contested(group.id):
            self._contested.discard(group.id)
            return group
        if group.id not in self._contested:
            self._contested.add(group.id)
            self._newly_contested.put_nowait(group.id)
        return replace(group, kept=frozenset(instance.provider_id for instance in group.instances))

    async def _explain_contested(self, scaling: NodeGroupScaler) -> None:
        """Log who puts sizes back, until cancelled."""
        while True:
            id = await self._newly_contested.get()
            try:
                _log.warning("node group size is put back: group=%s: %s", id, await scaling.explain_reverts(id))
            except base.ProviderError as error:
                _log.warning("node group size is put back: group=%s: %s", id, error)

    def _explain_held(self, held: Sequence[node_groups.HeldGroup]) -> None:
        """Log which groups are left alone from now on, and which are back."""
        now = {group.id: group.why for group in held}
        for id, why in now.items():
            if self._held.get(id) != why:
                _log.warning("node group is left alone: group=%s reason=%r", id, why)
        for id in self._held.keys() - now.keys():
            _log.info("node group is not left alone any more: group=%s", id)
        self._held = now

    async def resize(self, order: plan.Resize) -> None:
        with self._act():
            await self._found_scaling().resize(order)

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        with self._act():
            await self._found_scaling().reduce_target(order)

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        with self._act():
            await self._found_scaling().delete_instances(order)

    async def delete_nodes(self, group: str, nodes: Sequence[facts.Node]) -> Mapping[str, base.ProviderError]:
        with self._act():
            return await self._found_scaling().delete_nodes(group, nodes)

    # Inside

    @contextlib.contextmanager
    def _act(self) -> Iterator[None]:
        """Nothing of what is observed meanwhile is kept."""
        self._acting += 1
        self._observed = None
        try:
            yield
        finally:
            self._acting -= 1

    def _found_scaling(self) -> NodeGroupScaler:
        if self._scaling is None:
            raise scale_client.provider_error(self._undiscovered)
        return self._scaling

    def _context(self) -> NodeGroupContext:
        assert self._kinds is not None, "nothing is looked at before it is discovered"
        remembered, rules = self._memory.machines, self._drain_rules
        return NodeGroupContext(self._kinds, self._infrastructure, self._config, self._keys, remembered, rules)

    def _forget(self) -> None:
        """Of what was told to go, remember only what is still there."""
        assert self._kinds is not None, "nothing is looked at before it is discovered"
        if not self._memory.is_empty:
            uids = (machine.uid for machine in self._kinds.machines)
            pools = scalable_resources.select_scalable(self._kinds, self._config)
            listed = {pool.id: {machines.normalize_provider_id(one) for one in pool.provider_ids} for pool in pools}
            self._memory.retain(uids, listed)
