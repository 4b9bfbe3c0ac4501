"""Node utilization: requests of the pods on a node as a fraction of its allocatable resources.

    utilization = requests / (allocatable - set aside)

The larger of cpu and memory counts, memory if they are equal. On a node with a GPU only the GPU counts; on a node
with DRA devices of its own, the pool with the highest utilization. Long-terminating pods count as gone. DaemonSet and
mirror pods can be set aside, as if the node were that much smaller.

For many nodes at once it is computed from the snapshot's columns, which hold the sum of requests per node, less pods
that count as gone and those set aside.

Quotients are Cluster Autoscaler's to the last bit: float division of thousandths, also by zero (all of a node set
aside gives infinity, or NaN if nothing is requested).

Pod classification: functions of pods evaluated once per pod template key, and node occupancy from it.

Half a million pods have a few thousand templates; the answers come back as a column over pods.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windlass.engine import quarantine
from windlass.engine.dra import allocation_state
from windlass.engine.drainability import context, pdb_rules, rules
from windlass.engine.model import arrays, facts, scale_down_state, well_known
from windlass.engine.model.drainability import DrainAction
from windlass.engine.model.dynamic_resources import ClaimKey, DeviceId, PoolId
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.engine.snapshot.pod_table import PodTable

EMPTY, WAITING, OCCUPIED = 0, 1, 2
"""EMPTY: no pods to move; WAITING: only pods to wait for; OCCUPIED: pods to move, or a blocking one."""

Occupancy = npt.NDArray[np.int8]
"""Int8 (n_nodes): one of the three above."""

# ── Order ────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_occupancy(snapshot: Snapshot, options: context.NodeDeleteOptions, now_s: float) -> Occupancy:
    """The occupancy of each node by drain rules, without budgets and controllers."""
    about = context.DrainContext(now_s, options)
    codes = evaluate_per_template(snapshot.pods, lambda pod: _classify_pods(pod, about), ("occupied", options))
    for row, gone_at_s in find_terminating(snapshot.pods):
        if gone_at_s < now_s:
            codes[row] = EMPTY
    occupancy = np.zeros(snapshot.nodes.count, np.int8)
    for code in (WAITING, OCCUPIED):
        occupancy[snapshot.pods.node_rows[codes == code]] = code
    return occupancy


def _classify_pods(pod: facts.Pod, about: context.DrainContext) -> int:
    outcome = rules.check_pod(pod, about)
    action = DrainAction.DRAIN if outcome is None else outcome.action
    if action is DrainAction.WAIT:
        return WAITING
    if action is DrainAction.SKIP or (action is DrainAction.DRAIN and well_known.is_daemonset(pod)):
        return EMPTY
    return OCCUPIED


PodCodes = npt.NDArray[np.int8]
"""int8 codes; each question defines their meaning."""

TerminatingPod = tuple[int, float]
"""A pod's row, and when it counts as gone although it is still there."""


def evaluate_per_template(table: PodTable, question: Callable[[facts.Pod], int], name: Hashable) -> PodCodes:
    """Int8 (n_pods): the answer for each pod that is on a node, 0 for others. No pod is asked of as terminating.

    A question of the same name always has the same answers, but for pods of kube-system that no DaemonSet has: their
    age counts. Kinds that are left out are not asked of.
    """
    bound = np.flatnonzero(table.node_rows != arrays.ABSENT)
    template_ids = table.template_ids
    example = np.full(len(table.template_keys), arrays.ABSENT, np.intp)
    example[template_ids[bound]] = bound  # one pod represents its template
    answers = np.zeros(len(table.template_keys), np.int8)
    known = table.answers.setdefault(name, {})
    for kind_id in quarantine.drop_hidden(np.flatnonzero(example != arrays.ABSENT).tolist(), table.left_out):
        answer = known.get(kind_id)
        if answer is None:
            pod = table.fact(int(example[kind_id]), "", timeless=True)
            answer = question(pod)
            if pod.namespace != pdb_rules.SYSTEM_NAMESPACE or well_known.is_daemonset(pod):
                known[kind_id] = answer
        answers[kind_id] = answer
    codes = np.zeros(len(template_ids), np.int8)
    codes[bound] = answers[template_ids[bound]]
    return codes


def find_terminating(table: PodTable) -> Iterator[TerminatingPod]:
    """The pods on nodes that are terminating."""
    node_rows = table.node_rows
    for row, (deleted_s, _) in table.times.items():
        if deleted_s is not None and node_rows[row] != arrays.ABSENT:
            yield row, well_known.gone_at_s(deleted_s, table.template_key(row).grace_s)


NO_GPU = -1

_DAEMONSET, _MIRROR = 1, 2
"""Bits of what a pod is, as far as setting it aside goes."""


def gpu_resource(node: facts.Node, label: str) -> str | None:
    """The node's GPU resource: the first in its allocatable, or nvidia.com/gpu if only the GPU label is set."""
    if not well_known.has_gpu(node, label):
        return None
    shown = dict(node.allocatable)
    return next((name for name in well_known.GPU_RESOURCES if shown.get(name, 0) != 0), well_known.GPU_RESOURCES[0])


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The n nodes to measure."""

    rows: arrays.Rows
    position: arrays.Rows
    """intp (n_nodes,): the place of a snapshot's row among them; -1 for others."""
    gpu: arrays.Rows


def measure_utilization(
    snapshot: Snapshot,
    rows: arrays.Rows,
    ignore_daemonsets: arrays.Mask,
    ignore_mirrors: bool,
    gpu_label: str,
    now_s: float,
) -> scale_down_state.UtilizationTable:
    """Utilization of the nodes in these rows. `ignore_daemonsets` bool (n,): DaemonSet pods are not counted."""
    position = np.full(snapshot.nodes.count, arrays.ABSENT, np.intp)
    position[rows] = np.arange(len(rows))
    nodes = _Nodes(rows, position, _find_gpus(snapshot, rows, gpu_label))
    allocatable = _gather(snapshot, snapshot.nodes.allocatable, nodes)
    used = allocatable - _gather(snapshot, snapshot.nodes.free, nodes)
    aside = _find_set_aside(snapshot, nodes, ignore_daemonsets, ignore_mirrors)
    set_aside = _sum_requests(snapshot, aside, nodes)
    gone, changes_at_s = _find_gone(snapshot, nodes, set(aside.tolist()), now_s)
    used -= set_aside + _sum_requests(snapshot, gone, nodes)
    utilization_columns = calculate_utilization(used, allocatable, set_aside, nodes.gpu != NO_GPU)
    return scale_down_state.UtilizationTable(
        utilization_columns, nodes.gpu, changes_at_s, _count_devices(snapshot, nodes, utilization_columns)
    )


def _count_devices(
    snapshot: Snapshot, nodes: _Nodes, utilization_columns: scale_down_state.UtilizationColumns
) -> dict[int, scale_down_state.NodeUtilization]:
    """Utilization by devices, for nodes without a GPU that have their own device pools."""
    counted: dict[int, scale_down_state.NodeUtilization] = {}
    if not snapshot.devices.inventory.slices:
        return counted
    for place, row in enumerate(nodes.rows.tolist()):
        if nodes.gpu[place] == NO_GPU and snapshot.devices.inventory.slices_of_node(snapshot.nodes.names[row]):
            used = measure_device_utilization(snapshot, row)
            utilization_columns.known[place] = used is not None
            utilization_columns.utilization[place] = 0.0 if used is None else used.utilization
            if used is not None:
                counted[place] = used
    return counted


def measure_device_utilization(snapshot: Snapshot, row: int) -> scale_down_state.NodeUtilization | None:
    """The utilization of a node by its devices; None if it is unknown."""
    pools = measure_pool_utilization(snapshot, row)
    if not isinstance(pools, Mapping):
        return None
    resource, used = allocation_state.highest_pool_utilization(pools)
    return scale_down_state.NodeUtilization(0.0, 0.0, 0.0, resource, used, used)


def measure_pool_utilization(snapshot: Snapshot, row: int) -> Mapping[PoolId, float] | PoolId | ClaimKey:
    """How much of each pool the node's pods hold; or a pool that is incomplete, or a claim that is not allocated.

    Claims of pods that are expected on the node are allocated as they were when a place was found for them.
    """
    inventory, held = snapshot.devices.inventory, set[DeviceId]()
    for pod_row in snapshot.pods_on(row):
        shape = snapshot.shape_of_row(pod_row)
        for pod_claim in shape.spec.claims:
            key = ClaimKey(shape.namespace, pod_claim.claim or "")
            if key not in inventory.claims:
                continue
            devices = snapshot.devices.list_devices(key)
            if devices is None:
                return key
            held |= devices
    return allocation_state.pool_utilization(inventory.slices_of_node(snapshot.nodes.names[row]), held)


def _find_gpus(snapshot: Snapshot, rows: arrays.Rows, label: str) -> arrays.Rows:
    """Intp (n,): position in GPU_RESOURCES of the node's GPU resource, as `gpu_resource`; -1 for none."""
    labelled = snapshot.nodes.label_ids(label)[rows] != arrays.ABSENT
    gpu = np.where(labelled, 0, NO_GPU).astype(np.intp)
    for number in reversed(range(len(well_known.GPU_RESOURCES))):
        column = snapshot.nodes.resources.find(well_known.GPU_RESOURCES[number])
        if column != arrays.ABSENT:
            gpu[snapshot.nodes.allocatable[column, rows] != 0] = number
    return gpu


def _gather(snapshot: Snapshot, amounts: arrays.Amounts, nodes: _Nodes) -> arrays.Amounts:
    """Int64 (n, 3): cpu, memory and the GPU that counts, of int64 (n_resources, n_nodes)."""
    resources = snapshot.nodes.resources
    gathered = np.zeros((len(nodes.rows), 3), arrays.RESOURCE_DTYPE)
    gathered[:, scale_down_state.CPU_COLUMN] = amounts[resources.find(facts.CPU), nodes.rows]
    gathered[:, scale_down_state.MEMORY_COLUMN] = amounts[resources.find(facts.MEMORY), nodes.rows]
    for number, name in enumerate(well_known.GPU_RESOURCES):
        has_it = nodes.gpu == number
        column = resources.find(name)
        if column != arrays.ABSENT and has_it.any():
            gathered[has_it, scale_down_state.GPU_COLUMN] = amounts[column, nodes.rows[has_it]]
    return gathered


def _find_set_aside(
    snapshot: Snapshot, nodes: _Nodes, ignore_daemonsets: arrays.Mask, ignore_mirrors: bool
) -> arrays.Rows:
    """Rows of pods on these nodes that are not counted (DaemonSet, mirror)."""
    if not ignore_mirrors and not ignore_daemonsets.any():
        return np.zeros(0, np.intp)
    codes = evaluate_per_template(snapshot.pods, _classify, "set aside")
    position = np.append(nodes.position, arrays.ABSENT)[snapshot.pods.node_rows]
    left_out = (codes & _DAEMONSET != 0) & np.append(ignore_daemonsets, False)[position]
    if ignore_mirrors:
        left_out |= (codes & _MIRROR != 0) & (position != arrays.ABSENT)
    return np.flatnonzero(left_out)


def _classify(pod: facts.Pod) -> int:
    return _DAEMONSET * well_known.is_daemonset(pod) | _MIRROR * well_known.is_mirror(pod)


def _find_gone(snapshot: Snapshot, nodes: _Nodes, aside: set[int], now_s: float) -> tuple[arrays.Rows, float]:
    """Rows of long terminating pods on these nodes, excluding `aside`; and when the next pod becomes one."""
    gone, next_s = [], float("inf")
    for row, gone_at_s in find_terminating(snapshot.pods):
        if nodes.position[snapshot.pods.node_rows[row]] == arrays.ABSENT or row in aside:
            continue
        if gone_at_s < now_s:
            gone.append(row)
        else:
            next_s = min(next_s, gone_at_s)
    return np.array(gone, np.intp), next_s


def _sum_requests(snapshot: Snapshot, pod_rows: arrays.Rows, nodes: _Nodes) -> arrays.Amounts:
    """Int64 (n, 3): what these pods request of cpu, memory and the GPU that counts on their node."""
    total = np.zeros((len(nodes.rows), 3), arrays.RESOURCE_DTYPE)
    if not len(pod_rows):
        return total
    position = nodes.position[snapshot.pods.node_rows[pod_rows]]
    shape_ids, inverse = np.unique(snapshot.pods.shape_ids[pod_rows], return_inverse=True)
    requests = np.array([_requests(snapshot.shapes[shape_id].spec) for shape_id in shape_ids.tolist()])[inverse]
    np.add.at(total[:, scale_down_state.CPU_COLUMN], position, requests[:, 0])
    np.add.at(total[:, scale_down_state.MEMORY_COLUMN], position, requests[:, 1])
    gpu = nodes.gpu[position]
    counts = np.where(gpu == NO_GPU, -1, _FIRST_GPU + gpu)
    np.add.at(total[:, scale_down_state.GPU_COLUMN], position, requests[np.arange(len(pod_rows)), counts])
    return total


_REQUESTED = (facts.CPU, facts.MEMORY, *well_known.GPU_RESOURCES)

_FIRST_GPU = 2


def _requests(spec: facts.PodSpec) -> npt.NDArray[np.int64]:
    """Int64 (8,): cpu, memory, GPUs by kind, and 0, which stands for no GPU. The snapshot counts no less than 0."""
    desired = dict(spec.requests)
    return np.array([*(max(desired.get(name, 0), 0) for name in _REQUESTED), 0], arrays.RESOURCE_DTYPE)


def calculate_utilization(
    used: arrays.Amounts, allocatable: arrays.Amounts, set_aside: arrays.Amounts, has_gpu: arrays.Mask
) -> scale_down_state.UtilizationColumns:
    """Utilization of n nodes from int64 (n, 3) amounts of cpu (millicores), memory (bytes) and GPU (pieces).

    `used` holds what the pods that count ask for, `set_aside` what those left out do, and the GPU column whichever GPU
    a node has; `has_gpu` is bool (n,). A GPU that a node does not show (yet) counts as unused.
    """
    scale = np.array([1.0, 1000.0, 1000.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (used * scale) / ((allocatable - set_aside) * scale)
    shown = allocatable != 0
    known = has_gpu | (shown[:, scale_down_state.CPU_COLUMN] & shown[:, scale_down_state.MEMORY_COLUMN])
    counts = np.stack([~has_gpu & known, ~has_gpu & known, has_gpu], axis=1) & shown
    fractions = np.where(counts, fractions, 0.0)
    larger = np.where(
        fractions[:, scale_down_state.CPU_COLUMN] > fractions[:, scale_down_state.MEMORY_COLUMN],
        scale_down_state.CPU_COLUMN,
        scale_down_state.MEMORY_COLUMN,
    )
    resource = np.where(has_gpu, scale_down_state.GPU_COLUMN, larger).astype(np.int8)
    return scale_down_state.UtilizationColumns(fractions, resource, fractions[np.arange(len(used)), resource], known)
