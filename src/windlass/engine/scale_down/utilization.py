"""Utilization: how much of a node its pods ask for.

    utilization = requests / (allocatable - set aside)

The larger of cpu and memory counts, memory where they are equal. On a node with a GPU only the GPU counts: it is what
the node is paid for. So it is on one with devices of its own: the pool counts of which most is allocated. Long
terminating pods count as gone. DaemonSet and mirror pods can be left out on request: what they ask for is then set
aside, as if the node were that much smaller.

Of many nodes at once it is taken from the snapshot's columns, which know what all pods of a node request together. What
counts otherwise is taken off: pods that should long be gone, and those that are set aside.

Quotients are Cluster Autoscaler's to the last bit: it divides thousandths as floats, and so does this, also where
nothing is left to divide by (all of a node set aside gives infinity, or not-a-number where nothing is asked for).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from windlass.engine import dtypes, facts, gpus, pod_traits
from windlass.engine.devices import utilization as device_utilization
from windlass.engine.devices.model import ClaimKey, DeviceId, PoolId
from windlass.engine.scale_down import kinds
from windlass.engine.snapshot import Snapshot

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Utilization:
    """How much of a node is asked for, as fractions; `utilization` is that of `resource`, which counts."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    utilization: float
    devices: float = 0.0
    """Of the pool of devices that is used most, on a node that has pools of its own."""


CPU, MEMORY, GPU = range(3)
"""Columns of the arrays below, and codes in `Utilizations.resource`."""


@dataclass(frozen=True, slots=True)
class Utilizations:
    """Utilization of n nodes."""

    fractions: Floats
    """float64 (n, 3): cpu, memory, GPU; 0 where it does not count."""
    resource: npt.NDArray[np.int8]
    """int8 (n,): the column that counts."""
    utilization: Floats
    """float64 (n,): the fraction that counts; 0 where it cannot be told."""
    known: dtypes.Mask
    """bool (n,): False where a node shows no cpu or no memory, and its utilization cannot be told."""


NO_GPU = -1

_DAEMONSET, _MIRROR = 1, 2
"""Bits of what a pod is, as far as setting it aside goes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Utilization of n nodes."""

    utilizations: Utilizations
    gpu: dtypes.Rows
    """intp (n,): the GPU that counts, as a position in `gpus.RESOURCES`; -1 for none."""
    changes_at_s: float
    """When the next pod counts as gone; infinity if none is on its way."""
    devices: Mapping[int, Utilization] = field(default_factory=dict)
    """Nodes, by their place, on which devices count instead."""

    def of(self, position: int) -> Utilization:
        """The utilization of one of the nodes."""
        if position in self.devices:
            return self.devices[position]
        found = self.utilizations
        cpu, memory, gpu = found.fractions[position].tolist()
        return Utilization(cpu, memory, gpu, self._resource(position), float(found.utilization[position]))

    def _resource(self, position: int) -> str:
        code = int(self.utilizations.resource[position])
        if code == GPU:
            return gpus.RESOURCES[self.gpu[position]]
        return facts.CPU if code == CPU else facts.MEMORY


def gpu_resource(node: facts.Node, label: str) -> str | None:
    """The GPU that counts on the node: the first that it shows, or Nvidia's where only the provider's label tells."""
    if not gpus.has_gpu(node, label):
        return None
    shown = dict(node.allocatable)
    return next((name for name in gpus.RESOURCES if shown.get(name, 0) != 0), gpus.RESOURCES[0])


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
    found = calculate_all(used, allocatable, set_aside, nodes.gpu != NO_GPU)
    return Usage(found, nodes.gpu, changes_at_s, _count_devices(snapshot, nodes, found))


def _count_devices(snapshot: Snapshot, nodes: _Nodes, found: Utilizations) -> dict[int, Utilization]:
    """Where nodes without a GPU have devices of their own, their utilization is that of these."""
    counted: dict[int, Utilization] = {}
    if not snapshot.devices.stock.slices:
        return counted
    for place, row in enumerate(nodes.rows.tolist()):
        if nodes.gpu[place] == NO_GPU and snapshot.devices.stock.local(snapshot.nodes.names[row]):
            used = measure_devices(snapshot, row)
            found.known[place] = used is not None
            found.utilization[place] = 0.0 if used is None else used.utilization
            if used is not None:
                counted[place] = used
    return counted


def measure_devices(snapshot: Snapshot, row: int) -> Utilization | None:
    """The utilization of a node by its devices; None where it cannot be told."""
    pools = measure_pools(snapshot, row)
    if not isinstance(pools, Mapping):
        return None
    resource, used = device_utilization.highest(pools)
    return Utilization(0.0, 0.0, 0.0, resource, used, used)


def measure_pools(snapshot: Snapshot, row: int) -> Mapping[PoolId, float] | PoolId | ClaimKey:
    """How much of each pool the node's pods hold; or a pool that is incomplete, or a claim that is not allocated.

    Claims of pods that are expected on the node are allocated as they were when a place was found for them.
    """
    stock, held = snapshot.devices.stock, set[DeviceId]()
    for pod_row in snapshot.pods_on(row):
        shape = snapshot.shape_of_row(pod_row)
        for one in shape.spec.claims:
            key = ClaimKey(shape.namespace, one.claim or "")
            if key not in stock.claims:
                continue
            devices = snapshot.devices.list_devices(key)
            if devices is None:
                return key
            held |= devices
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
    gathered[:, CPU] = amounts[known.find(facts.CPU), nodes.rows]
    gathered[:, MEMORY] = amounts[known.find(facts.MEMORY), nodes.rows]
    for number, name in enumerate(gpus.RESOURCES):
        has_it = nodes.gpu == number
        column = known.find(name)
        if column != dtypes.ABSENT and has_it.any():
            gathered[has_it, GPU] = amounts[column, nodes.rows[has_it]]
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
    np.add.at(total[:, CPU], position, requests[:, 0])
    np.add.at(total[:, MEMORY], position, requests[:, 1])
    gpu = nodes.gpu[position]
    counts = np.where(gpu == NO_GPU, -1, _FIRST_GPU + gpu)
    np.add.at(total[:, GPU], position, requests[np.arange(len(pod_rows)), counts])
    return total


_REQUESTED = (facts.CPU, facts.MEMORY, *gpus.RESOURCES)
_FIRST_GPU = 2


def _requests(spec: facts.PodSpec) -> npt.NDArray[np.int64]:
    """Int64 (8,): cpu, memory, GPUs by kind, and 0, which stands for no GPU. The snapshot counts no less than 0."""
    wanted = dict(spec.requests)
    return np.array([*(max(wanted.get(name, 0), 0) for name in _REQUESTED), 0], dtypes.RESOURCE)


def calculate_all(
    used: dtypes.Amounts, allocatable: dtypes.Amounts, set_aside: dtypes.Amounts, has_gpu: dtypes.Mask
) -> Utilizations:
    """Utilization of n nodes from int64 (n, 3) amounts of cpu (millicores), memory (bytes) and GPU (pieces).

    `used` holds what the pods that count ask for, `set_aside` what those left out do, and the GPU column whichever GPU
    a node has; `has_gpu` is bool (n,). A GPU that a node does not show (yet) counts as unused.
    """
    scale = np.array([1.0, 1000.0, 1000.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (used * scale) / ((allocatable - set_aside) * scale)
    shown = allocatable != 0
    known = has_gpu | (shown[:, CPU] & shown[:, MEMORY])
    counts = np.stack([~has_gpu & known, ~has_gpu & known, has_gpu], axis=1) & shown
    fractions = np.where(counts, fractions, 0.0)
    larger = np.where(fractions[:, CPU] > fractions[:, MEMORY], CPU, MEMORY)
    resource = np.where(has_gpu, GPU, larger).astype(np.int8)
    return Utilizations(fractions, resource, fractions[np.arange(len(used)), resource], known)
