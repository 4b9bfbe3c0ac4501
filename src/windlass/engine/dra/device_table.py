"""Device table of a snapshot: devices per node, allocated state, and the state of each claim.

A node's device set, its visible shared pools and its allocated state are interned numbers, so an allocation over all
nodes is computed once per combination. Changes go to an undo log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from windlass import scheduler_releases
from windlass.engine.dra import allocator, inventory, resource_claims
from windlass.engine.dra.allocation_state import NOTHING_ALLOCATED, AllocatedState
from windlass.engine.dra.inventory import DeviceInventory
from windlass.engine.dra.resource_claims import NO_NODE, ClaimState
from windlass.engine.model import arrays, facts
from windlass.engine.model.dynamic_resources import (
    AllocatedClaims,
    AllocationFailure,
    AllocationOutcome,
    ClaimKey,
    ClaimSpec,
    DeviceAllocation,
    DeviceId,
    PoolId,
    ResourceClaim,
    ResourceSlices,
    SelectorError,
)

if TYPE_CHECKING:
    from windlass.engine.snapshot.node_table import NodeTable

_MAX_CACHED = 200_000
"""Maximum number of cached states and claim sets; beyond it the caches are cleared."""
_MAX_PODS_PER_NODE = 10_000
"""More pods than any node runs."""
NodeDeviceKey: TypeAlias = tuple[int, int, int]
"""Key of the nodes with equal allocations: numbers of device set, allocated state, and visible shared pools."""


@dataclass(frozen=True, slots=True)
class CachedAllocation:
    """Outcome of an allocation, and the allocated state after it: of node-local devices, and of shared ones."""

    outcome: AllocationOutcome
    used: int = 0
    shared_used: int = 0


@dataclass(frozen=True, slots=True)
class NodeDeviceClasses:
    """Nodes grouped by `NodeDeviceKey`."""

    places: list[NodeDeviceKey]
    first: arrays.Rows
    """Intp (n_places): one node of each group."""
    of_nodes: arrays.Rows
    """Intp (n_nodes): the group of each node."""


class DeviceTable:
    """Devices and claims of one snapshot. Rows are the nodes' rows."""

    def __init__(
        self, nodes: "NodeTable", release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
    ) -> None:
        self.inventory = DeviceInventory(release)
        self._release = release
        self._nodes = nodes
        self._device_sets = inventory.DeviceSetIndex()
        self._views = inventory.PoolVisibility(release=release)
        self._templates: dict[int, tuple[ResourceSlices, int]] = {}
        self._in_uses: arrays.Index[AllocatedState] = arrays.Index()
        self._in_uses.intern(NOTHING_ALLOCATED)
        self._questions: arrays.Index[tuple[ClaimSpec, ...]] = arrays.Index()
        self._answers: dict[tuple[NodeDeviceKey, int, int], CachedAllocation] = {}
        self._rooms: dict[tuple[NodeDeviceKey, int, int], int] = {}
        self._selector_errors = resource_claims.SelectorErrorLog(self.inventory)
        self._device_set_ids = np.zeros(0, arrays.ID_DTYPE)
        self._used = np.zeros(0, arrays.ID_DTYPE)
        self._shared_used = 0
        self._renamed: dict[PoolId, tuple[int, PoolId]] = {}
        self._states: dict[ClaimKey, ClaimState] = {}
        self._users: dict[ClaimKey, set[str]] = {}
        self._journal: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._seen = (-1, -1, -1)
        self._epoch = 0
        self._kinds: tuple[tuple[int, int], NodeDeviceClasses] | None = None

    def use_inventory(self, inventory: DeviceInventory) -> None:
        """Replace the inventory by this one, which must be empty."""
        inventory.release = self._release
        self.inventory = inventory
        self._selector_errors = resource_claims.SelectorErrorLog(inventory)

    def set_release(self, release: scheduler_releases.SchedulerRelease) -> None:
        """Allocate as this release does. Only before the first fact is added."""
        self._release = self.inventory.release = release
        self._views = inventory.PoolVisibility(release=release)

    @property
    def is_idle(self) -> bool:
        """No claim, and no device class that an extended resource could map to."""
        return not self.inventory.claims and not self.inventory.classes

    # Facts

    def add_user(self, pod: facts.Pod, identity: str) -> None:
        """Record that a pod uses the claims of its spec."""
        for key in _keys(pod.namespace, pod.spec):
            self._users.setdefault(key, set()).add(identity)

    def remove_user(self, namespace: str, spec: facts.PodSpec, identity: str) -> None:
        for key in _keys(namespace, spec):
            self._users.get(key, set()).discard(identity)

    def sync(self) -> None:
        """Update from the inventory and the node table. Only outside a fork."""
        seen = (self.inventory.version, self._nodes.version, self.inventory.offers_version)
        if seen == self._seen:
            return
        if len(self._in_uses) + len(self._questions) > _MAX_CACHED:
            self._in_uses, self._questions = arrays.Index(), arrays.Index()
            self._in_uses.intern(NOTHING_ALLOCATED)
            self._answers.clear()
            self._rooms.clear()
        if seen[2] != self._seen[2]:
            self._answers.clear()
            self._rooms.clear()
            self._selector_errors.clear()
            self._templates.clear()
            self._views = inventory.PoolVisibility(
                seen[2], self.inventory.shared_slices, self.inventory.pools, self._release
            )
            self._device_sets.retain(self.inventory.slices)
        self._seen = seen
        self._epoch += 1
        self._journal.clear()
        self._states.clear()
        self._reserve()
        self._device_set_ids[:] = self._used[:] = 0
        self._renamed.clear()
        for name, row in self._nodes.rows.items() if self.inventory.slices else ():
            own = self.inventory.slices_of_node(name)
            if own:
                self._device_set_ids[row], pools = self._device_sets.intern(own, self.inventory.shared_slices)
                names = self._device_sets[self._device_set_ids[row]].rename(pools)
                self._renamed |= {pool: (row, names[pool]) for pool in pools}
        self._count_allocated()

    def invalidate(self) -> None:
        """Rebuild everything at the next update."""
        self._seen = (-1, -1, -1)

    def _reserve(self) -> None:
        missing = self._nodes.row_capacity() - len(self._device_set_ids)
        if missing > 0:
            self._device_set_ids = np.pad(self._device_set_ids, (0, missing))
            self._used = np.pad(self._used, (0, missing))

    def _count_allocated(self) -> None:
        local: dict[int, list[DeviceAllocation]] = {}
        shared: list[DeviceAllocation] = []
        for claim in self.inventory.claims.values():
            if claim.allocation is not None:
                state = self._read_state(claim)
                local.setdefault(state.row, []).extend(state.local)
                shared += state.shared
        for row, results in local.items():
            if row != NO_NODE:
                self._used[row] = self._in_uses.intern(NOTHING_ALLOCATED.allocate(results))
        self._shared_used = self._in_uses.intern(NOTHING_ALLOCATED.allocate(shared))

    def _read_state(self, claim: ResourceClaim) -> ClaimState:
        """Initial state of the claim, from its status."""
        reserved = frozenset(claim.reserved_for)
        allocation = claim.allocation
        if allocation is None:
            return ClaimState(reserved=reserved)
        row, local, shared = NO_NODE, [], []
        for result in allocation.results:
            pool = PoolId(result.device.driver, result.device.pool)
            home = self._renamed.get(pool)
            if home is None:
                shared.append(result)
            else:
                row, known = home
                local.append(replace(result, device=DeviceId(*known, result.device.device)))
        selector = allocation.node_selector
        return ClaimState(
            is_allocated=True,
            row=row,
            local=tuple(local),
            shared=tuple(shared),
            selector=selector,
            has_failed=allocation.has_failed,
            waiting_since_s=allocation.waiting_since_s,
            reserved=reserved,
            selector_fault=allocation.selector_fault,
        )

    def state(self, key: ClaimKey) -> ClaimState:
        """Current state of the claim."""
        known = self._states.get(key)
        return known if known is not None else self._read_state(self.inventory.claims[key])

    def list_devices(self, key: ClaimKey) -> frozenset[DeviceId] | None:
        """The devices that a claim holds now, named as their drivers publish them; None: it is not allocated.

        Devices that are only looked at (admin access) are not held.
        """
        state = self._states.get(key)
        if state is None:
            allocation = self.inventory.claims[key].allocation
            results = None if allocation is None else allocation.results
        else:
            results = (*state.local, *state.shared) if state.is_allocated else None
        if results is None:
            return None
        names = self._find_own_names(state.row) if state is not None and state.local else {}
        return frozenset(_rename(result.device, names) for result in results if not result.admin_access)

    def _find_own_names(self, row: int) -> dict[PoolId, PoolId]:
        """Names of the node's local pools by their names in its device set."""
        own = self._nodes.facts[row].slices or self.inventory.slices_of_node(self._nodes.names[row])
        number, pools = self._device_sets.intern(own, self.inventory.shared_slices)
        return dict(zip(self._device_sets[number].pools, pools, strict=True))

    def users(self, key: ClaimKey) -> set[str]:
        return self._users.get(key, set())

    @property
    def shared_used(self) -> int:
        """Number of the allocated state of shared devices."""
        return self._shared_used

    # Queries

    def pod_claims(
        self, namespace: str, spec: facts.PodSpec
    ) -> resource_claims.PodClaims | resource_claims.ClaimRejection:
        """Claims of a pod."""
        if not spec.claims and not spec.extended:
            return resource_claims.NO_CLAIMS
        return resource_claims.read_pod_claims(self.inventory, namespace, spec, self.state, self.users)

    def pod_claims_of_copy(
        self, namespace: str, spec: facts.PodSpec
    ) -> resource_claims.PodClaims | resource_claims.ClaimRejection:
        """Claim specs of another pod of this template: claims generated for a pod are replaced by new ones."""

        def state_of(key: ClaimKey) -> ClaimState:
            return ClaimState() if self.inventory.claims[key].owner_uid else self.state(key)

        return resource_claims.read_pod_claims(self.inventory, namespace, spec, state_of, self.users)

    def intern_claims(self, specs: Sequence[ClaimSpec]) -> int:
        """Number of a tuple of claim specs that are allocated together."""
        return self._questions.intern(tuple(specs))

    def device_keys(self) -> tuple[arrays.Ids, arrays.Ids, arrays.Ids]:
        """Int32 (n_nodes) each: device set, allocated state, visible shared pools."""
        self._reserve()
        count = self._nodes.count
        return self._device_set_ids[:count], self._used[:count], self._views.of_nodes(self._nodes)

    def node_classes(self) -> NodeDeviceClasses:
        """Nodes grouped by key; cached until something changes."""
        now = self._epoch, self._nodes.version
        if self._kinds is None or self._kinds[0] != now:
            kit_ids, used, seen = self.device_keys()
            key = (kit_ids.astype(np.int64) * len(self._in_uses) + used) * (int(seen.max(initial=0)) + 1) + seen
            _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
            places = zip(kit_ids[first].tolist(), used[first].tolist(), seen[first].tolist(), strict=True)
            self._kinds = now, NodeDeviceClasses(list(places), first, inverse.reshape(-1))
        return self._kinds[1]

    def allocate(self, place: NodeDeviceKey, question: int) -> CachedAllocation:
        """Allocate claims for a class of nodes, without recording the allocation."""
        key = place, self._shared_used, question
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._compute(place, self._shared_used, question)
        return known

    def _compute(self, place: NodeDeviceKey, shared_used: int, question: int) -> CachedAllocation:
        device_set, used, view = place
        sight = self._views.visible_devices(view, self._device_sets[device_set], device_set)
        in_use, shared = self._in_uses[used], self._in_uses[shared_used]
        specs = self._questions[question]
        outcome = allocator.allocate(sight, in_use | shared, self.inventory.classes, specs, self._release)
        if isinstance(outcome, AllocationFailure):
            self._selector_errors.record(outcome, specs)
        if not isinstance(outcome, AllocatedClaims):
            return CachedAllocation(outcome)
        own = set(self._device_sets[device_set].pools)
        every = [result for results in outcome.results for result in results]
        local = [result for result in every if result.device[:2] in own]
        others = [result for result in every if result.device[:2] not in own]
        return CachedAllocation(
            outcome, self._in_uses.intern(in_use.allocate(local)), self._in_uses.intern(shared.allocate(others))
        )

    def selector_errors(self) -> tuple[SelectorError, ...]:
        """Selectors of existing claims and classes whose evaluation failed."""
        return self._selector_errors.list()

    def explain(self, row: int, question: int) -> AllocationOutcome:
        """The same for one node, with the names of its local pools."""
        own = self._nodes.facts[row].slices or self.inventory.slices_of_node(self._nodes.names[row])
        names = self._find_own_names(row)
        view = int(self._views.of_nodes(self._nodes)[row])
        in_use = self._in_uses[int(self._used[row])]
        renamed = AllocatedState(
            frozenset(_rename(device, names) for device in in_use.devices),
            frozenset((_rename(device, names), count, amounts) for device, count, amounts in in_use.shares),
        )
        taken = renamed | self._in_uses[self._shared_used]
        sight, specs = self._views.visible_devices_of(view, own), self._questions[question]
        return allocator.allocate(sight, taken, self.inventory.classes, specs, self._release)

    def count_fitting_pods(self, place: NodeDeviceKey, question: int) -> int:
        """Number of pods with these claims that fit one after another on a node of a group."""
        key = place, self._shared_used, question
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms[key] = self._count_room(place, question)
        return known

    def _count_room(self, place: NodeDeviceKey, question: int) -> int:
        device_set, used, view = place
        for count in range(_MAX_PODS_PER_NODE):
            answer = self.allocate((device_set, used, view), question)
            if not isinstance(answer.outcome, AllocatedClaims):
                return count
            if answer.used == used:
                return resource_claims.UNLIMITED_PODS
            used = answer.used
        return _MAX_PODS_PER_NODE

    def device_key_of(self, row: int) -> NodeDeviceKey:
        kit_ids, used, seen = self.device_keys()
        return int(kit_ids[row]), int(used[row]), int(seen[row])

    # Changing

    def add_template_devices(self, rows: range, slices: ResourceSlices) -> None:
        """Add nodes with these local devices."""
        self._reserve()
        known = self._templates.get(id(slices))
        if known is None:
            known = slices, self._device_sets.intern(slices, self.inventory.shared_slices)[0]
            self._templates[id(slices)] = known
        span = slice(rows.start, rows.stop)
        self._device_set_ids[span], self._used[span] = known[1], 0
        self._epoch += 1
        self._journal.append((self._strip, (span,)))

    def _strip(self, span: slice) -> None:
        self._device_set_ids[span] = self._used[span] = 0
        self._epoch += 1

    def set_used(self, row: int, used: int) -> None:
        """Set the allocated state of a node's local devices."""
        self._journal.append((self._restore_used, (row, int(self._used[row]))))
        self._restore_used(row, used)

    def _restore_used(self, row: int, used: int) -> None:
        self._used[row] = used
        self._epoch += 1

    def set_shared_used(self, used: int) -> None:
        if used != self._shared_used:
            self._journal.append((self._restore_shared, (self._shared_used,)))
            self._shared_used = used

    def _restore_shared(self, used: int) -> None:
        self._shared_used = used

    def set_state(self, key: ClaimKey, state: ClaimState) -> None:
        self._journal.append((self._restore_state, (key, self._states.get(key))))
        self._states[key] = state

    def _restore_state(self, key: ClaimKey, before: ClaimState | None) -> None:
        if before is None:
            self._states.pop(key, None)
        else:
            self._states[key] = before

    def deallocate(self, state: ClaimState) -> None:
        """Free the devices of a claim."""
        if state.local and state.row != NO_NODE:
            remaining = self._in_uses[int(self._used[state.row])].release(state.local)
            self.set_used(state.row, self._in_uses.intern(remaining))
        if state.shared:
            remaining = self._in_uses[self._shared_used].release(state.shared)
            self.set_shared_used(self._in_uses.intern(remaining))

    def is_own(self, row: int, result: DeviceAllocation) -> bool:
        """True if the device is local to the node."""
        return result.device[:2] in self._device_sets[int(self._device_set_ids[row])].pools

    def mark(self) -> int:
        """Length of the undo log."""
        return len(self._journal)

    def undo_to(self, mark: int) -> None:
        """Undo the changes since the mark."""
        while len(self._journal) > mark:
            undo, arguments = self._journal.pop()
            undo(*arguments)


def _keys(namespace: str, spec: facts.PodSpec) -> list[ClaimKey]:
    return [ClaimKey(namespace, pod_claim.claim) for pod_claim in spec.claims if pod_claim.claim]


def _rename(device: DeviceId, names: dict[PoolId, PoolId]) -> DeviceId:
    pool = names.get(PoolId(device.driver, device.pool))
    return device if pool is None else DeviceId(*pool, device.device)
