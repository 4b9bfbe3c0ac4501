import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down.utilization_oracle import Options, Unknown, calculate
from windlass.engine.model import facts, scale_down_state, well_known
from windlass.engine.model.scale_down_state import NodeUtilization
from windlass.engine.scale_down import utilization
from windlass.engine.snapshot import cluster_snapshot as snapshots

NOW_S = 1_000_000.0
GPU = "nvidia.com/gpu"
LABEL = "gpu"
GIB = 2**30
DAEMON = facts.Owner("apps/v1", "DaemonSet", "agent", "uid-agent")
PLAIN = Options()


def node(**allocatable: int) -> facts.Node:
    return facts.Node("n0", allocatable=tuple(sorted((name.replace("gpu", GPU), n) for name, n in allocatable.items())))


def pod(cpu: int = 0, memory: int = 0, gpu: int = 0, **changes: Any) -> facts.Pod:
    requests = tuple((name, n) for name, n in ((facts.CPU, cpu), (facts.MEMORY, memory), (GPU, gpu)) if n)
    return facts.Pod("default", "p", spec=facts.PodSpec(requests=requests), **changes)


def measure(where: facts.Node, *pods: facts.Pod, options: Options = PLAIN) -> NodeUtilization:
    utilization_table = measure_all(where, *pods, options=options)
    assert utilization_table.utilizations.known[0]
    return utilization_table.of(0)


def measure_all(where: facts.Node, *pods: facts.Pod, options: Options = PLAIN) -> scale_down_state.UtilizationTable:
    placed = [replace(one, name=f"p{i}", uid=f"p{i}", node_name=where.name) for i, one in enumerate(pods)]
    ignore_daemonsets = np.array([options.skip_daemonset_pods])
    snapshot, row = snapshots.build_snapshot([where], placed), np.zeros(1, np.intp)
    return utilization.measure_utilization(snapshot, row, ignore_daemonsets, options.skip_mirror_pods, LABEL, NOW_S)


def test_the_larger_of_cpu_and_memory_counts() -> None:
    node_utilization = measure(node(cpu=4000, memory=8 * GIB), pod(1000, GIB), pod(2000, GIB))
    assert node_utilization == NodeUtilization(cpu=0.75, memory=0.25, gpu=0.0, resource="cpu", utilization=0.75)
    node_utilization = measure(node(cpu=4000, memory=8 * GIB), pod(1000, 6 * GIB))
    assert (node_utilization.resource, node_utilization.utilization) == ("memory", 0.75)


def test_memory_counts_where_both_are_equal() -> None:
    assert measure(node(cpu=1000, memory=1000), pod(500, 500)).resource == "memory"
    assert measure(node(cpu=1000, memory=1000)) == NodeUtilization(0.0, 0.0, 0.0, "memory", 0.0)


def test_on_a_node_with_a_gpu_only_the_gpu_counts() -> None:
    node_utilization = measure(node(cpu=1000, memory=1000, gpu=4), pod(900, 900, gpu=1))
    assert node_utilization == NodeUtilization(cpu=0.0, memory=0.0, gpu=0.25, resource=GPU, utilization=0.25)


@pytest.mark.parametrize("where", [node(cpu=1000, memory=1000), node(cpu=1000, memory=1000, gpu=0), node()])
def test_a_gpu_that_the_node_does_not_show_counts_as_unused(where: facts.Node) -> None:
    labelled = replace(where, labels={LABEL: "t4"})
    assert measure(labelled, pod(900, 900, gpu=1)) == NodeUtilization(0.0, 0.0, 0.0, GPU, 0.0)


@pytest.mark.parametrize("where", [node(memory=1), node(cpu=0, memory=1), node(cpu=1), node(cpu=1, memory=0)])
def test_utilization_cannot_be_told_of_a_node_that_shows_no_cpu_or_memory(where: facts.Node) -> None:
    utilization_columns = measure_all(where, pod(1, 1)).utilizations
    assert (utilization_columns.known.tolist(), utilization_columns.utilization.tolist()) == ([False], [0.0])


SET_ASIDE = [
    (Options(skip_daemonset_pods=True), {"owner": DAEMON}),
    (Options(skip_daemonset_pods=True), {"annotations": {well_known.DAEMONSET_POD_ANNOTATION: "true"}}),
    (Options(skip_mirror_pods=True), {"annotations": {well_known.MIRROR_ANNOTATION: "m"}}),
]


@pytest.mark.parametrize(("options", "changes"), SET_ASIDE)
def test_pods_set_aside_make_the_node_smaller(options: Options, changes: dict[str, Any]) -> None:
    where, left_out = node(cpu=1000, memory=1000), pod(200, 500, **changes)
    node_utilization = measure(where, pod(400, 100), left_out, options=options)
    assert (node_utilization.cpu, node_utilization.memory) == (0.5, 0.2)
    node_utilization = measure(where, pod(400, 100), left_out)
    assert (node_utilization.cpu, node_utilization.memory) == (0.6, 0.6)


@pytest.mark.parametrize(("options", "changes"), SET_ASIDE)
def test_a_pod_set_aside_makes_the_node_smaller_even_while_it_is_long_terminating(
    options: Options, changes: dict[str, Any]
) -> None:
    going = pod(200, 500, deleted_s=NOW_S - 1000, **changes)
    assert measure(node(cpu=1000, memory=1000), pod(400, 100), going, options=options).cpu == 0.5


@pytest.mark.parametrize(("deleted_ago_s", "cpu"), [(61, 0.2), (60, 0.5), (0, 0.5)])
def test_long_terminating_pods_count_as_gone(deleted_ago_s: float, cpu: float) -> None:
    going = pod(300, 0, deleted_s=NOW_S - deleted_ago_s)
    assert measure(node(cpu=1000, memory=1000), pod(200, 0), going).cpu == cpu


@pytest.mark.parametrize(
    ("labels", "allocatable", "resource"),
    [
        ({}, (("cpu", 1),), None),
        ({}, ((GPU, 0),), None),
        ({}, ((GPU, 2),), GPU),
        ({}, (("amd.com/gpu", 1), ("habana.ai/gaudi", 1)), "habana.ai/gaudi"),
        ({"gpu": "t4"}, (("amd.com/gpu", 1), (GPU, 0)), "amd.com/gpu"),
        ({"gpu": ""}, (), GPU),
    ],
)
def test_the_gpu_that_counts_is_the_first_shown_or_nvidias_where_only_the_label_tells(
    labels: dict[str, str], allocatable: facts.Resources, resource: str | None
) -> None:
    assert utilization.gpu_resource(facts.Node("n0", labels=labels, allocatable=allocatable), "gpu") == resource


def test_a_node_that_is_set_aside_as_a_whole_divides_as_floats_do() -> None:
    options, daemon = Options(skip_daemonset_pods=True), pod(1000, 1000, owner=DAEMON)
    empty = measure(node(cpu=1000, memory=1000), daemon, options=options)
    assert math.isnan(empty.cpu)
    assert math.isnan(empty.utilization)
    assert measure(node(cpu=1000, memory=1000), daemon, pod(1, 1), options=options).utilization == math.inf
    over = measure(node(cpu=1000, memory=1000), daemon, pod(500, 500, owner=DAEMON), pod(250, 0), options=options)
    assert (over.cpu, over.memory, over.resource) == (-0.5, 0.0, "memory")


amounts = st.one_of(st.integers(0, 5), st.integers(0, 10**6), st.integers(0, 2**53 - 1))
rows = st.lists(st.tuples(*[amounts] * 9, st.booleans()), max_size=8)


@given(rows)
def test_all_nodes_at_once_gives_the_same_figures_to_the_last_bit(drawn: list[tuple[Any, ...]]) -> None:
    table = np.array([row[:9] for row in drawn], np.int64).reshape(-1, 3, 3)
    used, allocatable, set_aside = table[:, 0], table[:, 1], table[:, 2]
    has_gpu = np.array([row[9] for row in drawn], bool)
    utilization_columns = utilization.calculate_utilization(used, allocatable, set_aside, has_gpu)
    for i in range(len(drawn)):
        cpu, memory, gpu = (int(n) for n in allocatable[i])
        pods = [pod(*map(int, used[i])), pod(*map(int, set_aside[i]), owner=DAEMON)]
        item = calculate(
            node(cpu=cpu, memory=memory, gpu=gpu),
            pods,
            Options(skip_daemonset_pods=True),
            GPU if has_gpu[i] else None,
            0,
        )
        if isinstance(item, Unknown):
            assert not utilization_columns.known[i]
            assert utilization_columns.utilization[i] == 0.0
            continue
        assert utilization_columns.known[i]
        assert (facts.CPU, facts.MEMORY, GPU)[utilization_columns.resource[i]] == item.resource
        np.testing.assert_array_equal(utilization_columns.fractions[i], [item.cpu, item.memory, item.gpu])
        np.testing.assert_array_equal(utilization_columns.utilization[i], item.utilization)
