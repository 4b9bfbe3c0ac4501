"""Usage: how much of many nodes their pods use, straight from the snapshot's columns.

The snapshot knows what all pods of a node request together. What utilization counts otherwise is taken off: pods that
should long be gone, and pods of DaemonSets and mirror pods where these are set aside. The same figures as
`utilization.calculate`, node by node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from windlass.engine import dtypes, facts, gpus, pod_traits
from windlass.engine.devices import utilization as device_utilization
from windlass.engine.devices.model import ClaimKey, DeviceId, PoolId
from windlass.engine.scale_down import kinds, utilization
from windlass.engine.snapshot import Snapshot

NO_GPU = -1

_DAEMONSET, _MIRROR = 1, 2
"""Bits of what a pod is, as far as setting it aside goes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Utilization of n nodes."""

    utilizations: utilization.Utilizations
    gpu: dtypes.Rows
    """intp (n,): the GPU that counts, as a position in `gpus.RESOURCES`; -1 for none."""
    changes_at_s: float
    """When the next pod counts as gone; infinity if none is on its way."""
    devices: Mapping[int, utilization.Utilization] = field(default_factory=dict)
    """Nodes, by their place, on which devices count instead."""

    def of(self, position: int) -> utilization.Utilization:
        """The utilization of one of the nodes."""
        if position in self.devices:
            return self.devices[position]
        found = self.utilizations
        cpu, memory, gpu = found.fractions[position].tolist()
        return utilization.Utilization(cpu, memory, gpu, self._resource(position), float(found.utilization[position]))

    def _resource(self, position: int) -> str:
        code = int(self.utilizations.resource[position])
        if code == utilization.GPU:
            return gpus.RESOURCES[self.gpu[position]]
        return facts.CPU if code == utilization.CPU else facts.MEMORY


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The n nodes that are asked about."""

    rows: dtypes.Rows
    position: dtypes.Rows
    """intp (n_nodes,): the place of a snapshot's row among them; -1 for others."""
    gpu: dtypes.Rows


def measure(
    snapshot: Snapshot,
    rows: dtypes.Rows,
    ignore_daemonsets: dtypes.Mask,
    ignore_mirrors: bool,
    gpu_label: str,
    now_s: float,
) -> Usage:
    """Utilization of the nodes in these rows. `ignore_daemonsets` (n,) tells where DaemonSet pods are set aside."""
    position = np.full(snapshot.nodes.count, dtypes.ABSENT, np.intp)
    position[rows] = np.arange(len(rows))
    nodes = _Nodes(rows, position, _find_gpus(snapshot, rows, gpu_label))
    allocatable = _gather(snapshot, snapshot.nodes.allocatable, nodes)
    used = allocatable - _gather(snapshot, snapshot.nodes.free, nodes)
    aside = _find_set_aside(snapshot, nodes, ignore_daemonsets, ignore_mirrors)
    set_aside = _sum_requests(snapshot, aside, nodes)
    gone, changes_at_s = _find_gone(snapshot, nodes, set(aside.tolist()), now_s)
    used -= set_aside + _sum_requests(snapshot, gone, nodes)
    found = utilization.calculate_all(used, allocatable, set_aside, nodes.gpu != NO_GPU)
    return Usage(found, nodes.gpu, changes_at_s, _count_devices(snapshot, nodes, found))


def _count_devices(
    snapshot: Snapshot, nodes: _Nodes, found: utilization.Utilizations
) -> dict[int, utilization.Utilization]:
    """Where nodes without a GPU have devices of their own, their utilization is that of these."""
    counted: dict[int, utilization.Utilization] = {}
    if not snapshot.devices.stock.slices:
        return counted
    for place, row in enumerate(nodes.rows.tolist()):
        if nodes.gpu[place] == NO_GPU and snapshot.devices.stock.local(snapshot.nodes.names[row]):
            used = measure_devices(snapshot, row)
            found.known[place] = not isinstance(used, utilization.Unknown)
            if isinstance(used, utilization.Utilization):
                counted[place], found.utilization[place] = used, used.utilization
            else:
                found.utilization[place] = 0.0
    return counted


def measure_devices(snapshot: Snapshot, row: int) -> utilization.Utilization | utilization.Unknown:
    """The utilization of a node by its devices."""
    pools = measure_pools(snapshot, row)
    if not isinstance(pools, Mapping):
        return utilization.Unknown(snapshot.nodes.names[row], str(pools))
    resource, used = device_utilization.highest(pools)
    return utilization.Utilization(0.0, 0.0, 0.0, resource, used, used)


def measure_pools(snapshot: Snapshot, row: int) -> Mapping[PoolId, float] | PoolId | ClaimKey:
    """How much of each pool the node's pods hold; or a pool that is incomplete, or a claim that is not allocated."""
    stock, held = snapshot.devices.stock, set[DeviceId]()
    for pod_row in snapshot.pods_on(row):
        shape = snapshot.shape_of_row(pod_row)
        for one in shape.spec.claims:
            key = ClaimKey(shape.namespace, one.claim or "")
            claim = stock.claims.get(key)
            if claim is None:
                continue
            if claim.allocation is None:
                return key
            held |= {result.device for result in claim.allocation.results if not result.admin_access}
    return device_utilization.of_pools(stock.local(snapshot.nodes.names[row]), held)


def _find_gpus(snapshot: Snapshot, rows: dtypes.Rows, label: str) -> dtypes.Rows:
    """Intp (n,): the first GPU that a node shows, Nvidia's where only the label tells, -1 for none."""
    labelled = snapshot.nodes.label_ids(label)[rows] != dtypes.ABSENT
    gpu = np.where(labelled, 0, NO_GPU).astype(np.intp)
    for number in reversed(range(len(gpus.RESOURCES))):
        column = snapshot.nodes.resources.find(gpus.RESOURCES[number])
        if column != dtypes.ABSENT:
            gpu[snapshot.nodes.allocatable[column, rows] != 0] = number
    return gpu


def _gather(snapshot: Snapshot, amounts: dtypes.Amounts, nodes: _Nodes) -> dtypes.Amounts:
    """Int64 (n, 3): cpu, memory and the GPU that counts, of int64 (n_resources, n_nodes)."""
    known = snapshot.nodes.resources
    gathered = np.zeros((len(nodes.rows), 3), dtypes.RESOURCE)
    gathered[:, utilization.CPU] = amounts[known.find(facts.CPU), nodes.rows]
    gathered[:, utilization.MEMORY] = amounts[known.find(facts.MEMORY), nodes.rows]
    for number, name in enumerate(gpus.RESOURCES):
        has_it = nodes.gpu == number
        column = known.find(name)
        if column != dtypes.ABSENT and has_it.any():
            gathered[has_it, utilization.GPU] = amounts[column, nodes.rows[has_it]]
    return gathered


def _find_set_aside(
    snapshot: Snapshot, nodes: _Nodes, ignore_daemonsets: dtypes.Mask, ignore_mirrors: bool
) -> dtypes.Rows:
    """Rows of pods on these nodes that are set aside."""
    if not ignore_mirrors and not ignore_daemonsets.any():
        return np.zeros(0, np.intp)
    codes = kinds.ask(snapshot.pods, _classify, "set aside")
    position = np.append(nodes.position, dtypes.ABSENT)[snapshot.pods.node_rows]
    left_out = (codes & _DAEMONSET != 0) & np.append(ignore_daemonsets, False)[position]
    if ignore_mirrors:
        left_out |= (codes & _MIRROR != 0) & (position != dtypes.ABSENT)
    return np.flatnonzero(left_out)


def _classify(pod: facts.Pod) -> int:
    return _DAEMONSET * pod_traits.is_daemonset(pod) | _MIRROR * pod_traits.is_mirror(pod)


def _find_gone(snapshot: Snapshot, nodes: _Nodes, aside: set[int], now_s: float) -> tuple[dtypes.Rows, float]:
    """Rows of pods on these nodes that should long be gone, those set aside excepted; and when the next is gone."""
    gone, next_s = [], float("inf")
    for row, gone_at_s in kinds.terminating(snapshot.pods):
        if nodes.position[snapshot.pods.node_rows[row]] == dtypes.ABSENT or row in aside:
            continue
        if gone_at_s < now_s:
            gone.append(row)
        else:
            next_s = min(next_s, gone_at_s)
    return np.array(gone, np.intp), next_s


def _sum_requests(snapshot: Snapshot, pod_rows: dtypes.Rows, nodes: _Nodes) -> dtypes.Amounts:
    """Int64 (n, 3): what these pods request of cpu, memory and the GPU that counts on their node."""
    total = np.zeros((len(nodes.rows), 3), dtypes.RESOURCE)
    if not len(pod_rows):
        return total
    position = nodes.position[snapshot.pods.node_rows[pod_rows]]
    shape_ids, inverse = np.unique(snapshot.pods.shape_ids[pod_rows], return_inverse=True)
    requests = np.array([_requests(snapshot.shapes[shape_id].spec) for shape_id in shape_ids.tolist()])[inverse]
    np.add.at(total[:, utilization.CPU], position, requests[:, 0])
    np.add.at(total[:, utilization.MEMORY], position, requests[:, 1])
    gpu = nodes.gpu[position]
    counts = np.where(gpu == NO_GPU, -1, _FIRST_GPU + gpu)
    np.add.at(total[:, utilization.GPU], position, requests[np.arange(len(pod_rows)), counts])
    return total


_REQUESTED = (facts.CPU, facts.MEMORY, *gpus.RESOURCES)
_FIRST_GPU = 2


def _requests(spec: facts.PodSpec) -> npt.NDArray[np.int64]:
    """Int64 (8,): cpu, memory, GPUs by kind, and 0, which stands for no GPU. The snapshot counts no less than 0."""
    wanted = dict(spec.requests)
    return np.array([*(max(wanted.get(name, 0), 0) for name in _REQUESTED), 0], dtypes.RESOURCE)
