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
    auto_discovery,
    group_annotations,
    machine_drain_rule,
    machines,
    scalable_resources,
    scale_client,
)
from windlass.providers.clusterapi import node_groups as clusterapi_node_groups
from windlass.providers.clusterapi.auto_discovery import Config
from windlass.providers.clusterapi.delete_annotations import DeleteAnnotations, PendingDeletions
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
"""Permissions to watch. The infrastructure groups may be narrowed to the installed providers."""

EVENT_RULES = (
    PolicyRule("", ("events",), ("create", "patch"), "a warning about a group whose size a Cluster topology owns"),
)
"""Permission to write events about groups; optional, the log has the same warnings."""


def scale_rules(group: str = _GROUP, kinds: tuple[str, ...] = _GROUPS) -> tuple[PolicyRule, ...]:
    """Permissions to change sizes; no other field of a group can be written with them."""
    return (
        PolicyRule(group, tuple(f"{kind}/scale" for kind in kinds), ("get", "patch"), "the size of a group"),
        PolicyRule(group, ("machines",), ("get", "update"), "the mark of a Machine that is to go first"),
    )


_DISCOVERY_RETRY_S = 5.0

_UNREACHABLE = (kube_errors.ConnectionLost, kube_errors.ServerError, kube_errors.TooManyRequests)

_log = logging.getLogger(__name__)


def _ignore() -> None:
    """A handler that ignores changes."""


class _MachineHandler:
    """Event handler that reports the owners of changed Machines."""

    def __init__(self, mark: Callable[[Iterable[str]], None]) -> None:
        self._mark = mark

    def added(self, machine: Machine) -> None:
        self._mark(machine.owners)

    def modified(self, before: Machine, machine: Machine) -> None:
        if before != machine:
            self._mark((*before.owners, *machine.owners))

    def deleted(self, before: Machine) -> None:
        self._mark(before.owners)


class Provider:
    """Node groups of a management cluster. `on_change` is called after each relevant change."""

    def __init__(
        self, api: client.Client, config: Config | None = None, on_change: Callable[[], None] = _ignore
    ) -> None:
        self._api = api
        self._config = config or Config()
        self._keys = group_annotations.AnnotationKeys(
            self._config.group, auto_discovery.MIRRORED_GROUP if self._config.mirrored_namespace else ""
        )
        self._on_change = on_change
        self._memory = PendingDeletions()
        self._put_backs = RevertTracker(api.clock)
        self._sizes = ReplicasCache(self._put_backs)
        self._contested: set[str] = set()
        self._newly_contested: asyncio.Queue[str] = asyncio.Queue()
        """Contested groups to be reported."""
        namespaces = auto_discovery.find_namespaces(self._config.specs)
        self._infrastructure = InfrastructureTemplates(api, namespaces, self._note)
        self._kinds: scalable_resources.ClusterApiObjects | None = None
        self._scaling: NodeGroupScaler | None = None
        self._is_discovered = asyncio.Event()
        self._undiscovered = "not looked for yet"
        self._observed: tuple[Sequence[facts.Node], base.ObservedNodeGroups] | None = None
        """The last observation and its nodes, while no change has been noted."""
        self._nodes = NodeIndex(self._keys)
        self._groups = NodeGroupCache()
        self._remembered: frozenset[str] = frozenset()
        """Machines in deletion, as of the last observation."""
        self._held: dict[str, str] = {}
        """Held groups and their logged reasons."""
        self._drain_rules = machine_drain_rule.NO_DRAIN_RULES
        self._acting = 0
        """Changes in progress: their writes may alter any group, so nothing is cached meanwhile."""

    # Informers

    async def run(self) -> None:
        """Run all informers until cancelled. Errors of the server are retried."""
        resources = await self._discover()
        self._kinds = scalable_resources.watch_resources(
            self._api, self._config, resources, self._note, _MachineHandler(self._mark), self._watch_references
        )
        marks = DeleteAnnotations(self._api, resources["machines"], self._keys.delete_machine)
        # A client of its own: annotating hundreds of Machines must not delay a scale-up.
        replicas = ScaleClient(self._api.with_own_rate_limit(), self._sizes, self._put_backs)
        self._scaling = NodeGroupScaler(self._context, self._sizes, replicas, marks, self._memory, self._put_backs)
        self._is_discovered.set()
        async with asyncio.TaskGroup() as together:
            together.create_task(self._infrastructure.run())
            together.create_task(self._explain_contested(self._scaling))
            for followed in (*self._kinds.all, *self._kinds.optional):
                together.create_task(followed.run())

    async def wait_synced(self) -> None:
        """Wait until Machines and MachineSets are listed, and every other kind is listed or refused."""
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
        """Errors of kinds that cannot be read or are outdated; empty if there are none."""
        if self._kinds is None:
            return {self._config.group: self._undiscovered}
        optional = [
            resource_informer for resource_informer in self._kinds.optional if not resource_informer.was_never_allowed
        ]
        every = (*self._kinds.all, *optional)
        error_by_kind = {
            informer.resource.kind: str(informer.last_error) for informer in every if informer.last_error is not None
        }
        return error_by_kind | self._infrastructure.errors_by_kind

    @property
    def unavailable_reason(self) -> str:
        """Why groups must not be changed.

        The management cluster is unreachable, Machines or MachineSets are outdated, or groups were never listed.

        A kind that can no longer be read while others can does not affect those.
        """
        if self._kinds is None:
            return ""
        last_errors = [resource_informer.last_error for resource_informer in self._kinds.all]
        if all(isinstance(trouble, _UNREACHABLE) for trouble in last_errors):
            return str(last_errors[0])
        missing = [informer for informer in self._kinds.scalable if not informer.synced and not informer.is_refused]
        outdated = [
            informer for informer in (self._kinds.machines, self._kinds.machine_sets) if informer.last_error is not None
        ]
        return "; ".join(
            f"{informer.resource.kind}: {informer.last_error or 'not read yet'}" for informer in [*outdated, *missing]
        )

    async def _discover(self) -> dict[str, Resource[Any]]:
        while True:
            try:
                resources = await scalable_resources.discover_resources(self._api, self._config)
            except kube_errors.KubeError as error:
                self._undiscovered = str(error)
            else:
                if resources is not None:
                    return dict(resources)
                version = f"/{self._config.version}" if self._config.version else ""
                self._undiscovered = f"the server has no Machines in {self._config.group}{version}"
            _log.warning("failed to discover Cluster API: error=%s", self._undiscovered)
            await self._api.clock.sleep(_DISCOVERY_RETRY_S)

    def _watch_references(self, resource: Resource[Any], changed: Any) -> None:
        """A scalable object changed: watch the kinds that it references."""
        scalable = scalable_resources.ScalableResource(resource, changed)
        kind = clusterapi_node_groups.find_group_template_kind(scalable)
        if kind is not None and self._may_be_group(scalable):
            self._infrastructure.request(kind)
        self._note()

    def _mark(self, owners: Iterable[str]) -> None:
        """Note changed Machines, by owner."""
        self._groups.invalidate(owners)
        self._note()

    def _note(self) -> None:
        self._observed = None
        self._on_change()

    def _may_be_group(self, resource: scalable_resources.ScalableResource) -> bool:
        try:
            return (
                scalable_resources.is_selected(resource, self._config)
                and group_annotations.read_size_bounds(resource.annotations, self._keys).allow_nodes
            )
        except ValueError:
            return False

    # Provider protocol

    def observe(self, nodes: Sequence[facts.Node]) -> base.ObservedNodeGroups:
        if self._kinds is None:
            return base.ObservedNodeGroups()
        is_current = (
            all(resource_informer.last_error is None for resource_informer in self._kinds.scalable)
            and not self._kinds.malformed
        )
        if (
            rules := machine_drain_rule.observe_drain_rules(self._kinds.machine_drain_rules, self._kinds.clusters)
        ) != self._drain_rules:
            self._drain_rules, self._observed = rules, None
        if self._observed is not None and self._observed[0] == nodes and is_current:
            return self._observed[1]
        self._forget()
        context, known = self._context(), self._nodes
        self._mark_changed(nodes, self._kinds)
        groups: list[node_groups.NodeGroup] = []
        set_aside: list[errors.InvalidObject] = list(self._kinds.malformed)
        held: list[node_groups.HeldGroup] = []
        malformed = {f"{invalid.kind}/{invalid.name}": str(invalid) for invalid in self._kinds.malformed_groups}
        for followed in self._kinds.scalable:
            unreadable = f"{followed.resource.kind}: {followed.last_error}" if followed.is_unreadable else ""
            if unreadable and not followed.synced:
                held.append(node_groups.HeldGroup(f"{followed.resource.kind}/", unreadable))
            for scaled in followed:
                resource = scalable_resources.ScalableResource(followed.resource, scaled)
                # a malformed group keeps its last valid state, which may be outdated
                over = malformed.pop(resource.id, "")
                try:
                    group, complaints = self._read(resource, unreadable or over, known, context)
                except Exception as error:  # any error affects this group only
                    klog.report_error(ErrorPlace.PROVIDER, resource.id, resource.meta.resource_version or "", error)
                    reason = f"it could not be read: {type(error).__name__}: {klog.describe_error(error)}"
                    group, complaints = (
                        node_groups.HeldGroup(resource.id, reason, self._list_instances(resource, known, context)),
                        [],
                    )
                set_aside += complaints
                if isinstance(group, node_groups.HeldGroup):
                    held.append(group)
                elif group is not None:
                    groups.append(self._hold_contested(group))
        self._groups.evict_unused()
        groups.sort(key=lambda group: group.id)
        held += [node_groups.HeldGroup(id, reason) for id, reason in malformed.items()]
        held.sort(key=lambda group: group.id)
        self._explain_held(held)
        observed = base.ObservedNodeGroups(tuple(groups), tuple(held), tuple(set_aside), self._drain_rules.rules)
        # Not cached: the text of a problem may change without a change of any object.
        keeps = is_current and not set_aside and not self._acting and not self._contested
        self._observed = (list(nodes), observed) if keeps else None
        return observed

    def _read(
        self,
        resource: scalable_resources.ScalableResource,
        unreadable: str,
        nodes: NodeIndex,
        context: NodeGroupContext,
    ) -> tuple[node_groups.NodeGroup | node_groups.HeldGroup | None, list[errors.InvalidObject]]:
        """Read a group; None if it is not selected; with problems. `unreadable`: why its kind cannot be trusted."""
        if not scalable_resources.is_selected(resource, self._config):
            return None, []
        replicas = self._sizes.read(resource)
        origin = clusterapi_node_groups.trace_origin(resource, replicas, context)
        if not unreadable and (kept := self._groups.find(resource.id, origin)) is not None:
            return kept, []
        group, complaints = clusterapi_node_groups.read_node_group(resource, replicas, nodes, context)
        reason = unreadable or scalable_resources.find_pause(resource, context.kinds)
        if group is not None and not reason:
            if not complaints:  # not cached with problems: their text may change without a change of any object
                self._groups.put(resource.id, origin, map(machines.normalize_provider_id, resource.provider_ids), group)
            return group, complaints
        if group is None and not complaints:
            return None, []
        return clusterapi_node_groups.hold_node_group(
            resource, replicas, reason or str(complaints[0]), nodes, context
        ), complaints

    def _mark_changed(self, nodes: Sequence[facts.Node], objects: scalable_resources.ClusterApiObjects) -> None:
        """Invalidate groups whose nodes changed, or whose Machines began or ended deletion."""
        for node in self._nodes.update(nodes):
            machine_key = self._nodes.machine_name_of(node)
            for machine in objects.machines_of_node(node.provider_id, node.name, machine_key):
                self._groups.invalidate(machine.owners)
            self._groups.invalidate((), (machines.normalize_provider_id(node.provider_id),))
        before, self._remembered = self._remembered, self._memory.machines
        if different := before ^ self._remembered:
            for machine in objects.machines:
                if machine.uid in different:
                    self._groups.invalidate(machine.owners)

    def _list_instances(
        self, resource: scalable_resources.ScalableResource, nodes: NodeIndex, context: NodeGroupContext
    ) -> tuple[str, ...]:
        """Known instances of a malformed group."""
        try:
            return clusterapi_node_groups.hold_node_group(resource, 0, "", nodes, context).instances
        except Exception as error:
            klog.report_error(
                ErrorPlace.PROVIDER, f"instances of {resource.id}", resource.meta.resource_version or "", error
            )
            return ()

    def _hold_contested(self, group: node_groups.NodeGroup) -> node_groups.NodeGroup:
        """A contested group's instances are not removable: the other manager would create them again."""
        if not self._put_backs.is_contested(group.id):
            self._contested.discard(group.id)
            return group
        if group.id not in self._contested:
            self._contested.add(group.id)
            self._newly_contested.put_nowait(group.id)
        return replace(group, kept=frozenset(instance.provider_id for instance in group.instances))

    async def _explain_contested(self, scaling: NodeGroupScaler) -> None:
        """Log which managers revert sizes, until cancelled."""
        while True:
            id = await self._newly_contested.get()
            try:
                _log.warning("node group size was reverted: group=%s reason=%s", id, await scaling.explain_reverts(id))
            except base.ProviderError as error:
                _log.warning("node group size was reverted: group=%s error=%s", id, error)

    def _explain_held(self, held: Sequence[node_groups.HeldGroup]) -> None:
        """Log newly held groups, and those no longer held."""
        now = {group.id: group.why for group in held}
        for id, reason in now.items():
            if self._held.get(id) != reason:
                _log.warning("node group is held: group=%s reason=%r", id, reason)
        for id in self._held.keys() - now.keys():
            _log.info("node group is no longer held: group=%s", id)
        self._held = now

    async def resize(self, order: plan.Resize) -> None:
        with self._act():
            await self._scaler().resize(order)

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        with self._act():
            await self._scaler().reduce_target(order)

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        with self._act():
            await self._scaler().delete_instances(order)

    async def delete_nodes(self, group: str, nodes: Sequence[facts.Node]) -> Mapping[str, base.ProviderError]:
        with self._act():
            return await self._scaler().delete_nodes(group, nodes)

    # Internals

    @contextlib.contextmanager
    def _act(self) -> Iterator[None]:
        """Run a change; observations made meanwhile are not cached."""
        self._acting += 1
        self._observed = None
        try:
            yield
        finally:
            self._acting -= 1

    def _scaler(self) -> NodeGroupScaler:
        if self._scaling is None:
            raise scale_client.provider_error(self._undiscovered)
        return self._scaling

    def _context(self) -> NodeGroupContext:
        assert self._kinds is not None, "nothing is looked at before it is discovered"
        remembered, rules = self._memory.machines, self._drain_rules
        return NodeGroupContext(self._kinds, self._infrastructure, self._config, self._keys, remembered, rules)

    def _forget(self) -> None:
        """Forget deletions of Machines that are gone."""
        assert self._kinds is not None, "nothing is looked at before it is discovered"
        if not self._memory.is_empty:
            uids = (machine.uid for machine in self._kinds.machines)
            pools = scalable_resources.select_scalable(self._kinds, self._config)
            listed = {pool.id: {machines.normalize_provider_id(item) for item in pool.provider_ids} for pool in pools}
            self._memory.retain(uids, listed)
