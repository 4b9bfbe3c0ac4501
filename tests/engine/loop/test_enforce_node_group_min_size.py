"""Growing groups to their minimum: limits count what the same loop ordered."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.loop.builders import (
    BOTH,
    WINDLASS,
    choose,
    decide_once,
    group,
    node,
    nodes,
    observe,
    pending,
    running,
    sizes,
)
from windlass.engine.model.settings import Bounds, GpuBounds, Settings

GPU = "nvidia.com/gpu"


def grow(settings: Settings, limits: dict[str, Any], minima: Sequence[int] = (3,), **template: Any) -> int:
    """Three full nodes, two pods that need one each, and groups below their minimum: how many nodes then?"""
    chosen = choose(choose(settings, "limits", **limits), "scale_up", enforce_node_group_min_size=True)
    labels = template.pop("labels", {})
    busy = nodes("a", 3, labels={"pool": "a", **labels}, **template)
    template["labels"] = labels
    groups = [group("a", busy)]
    groups += [
        group(f"b{number}", min_size=size, template=node(f"b{number}-template", provider_id="", **template))
        for number, size in enumerate(minima)
    ]
    pods = [running(f"r{number}", f"a-{number}", 4000) for number in range(3)]
    pods += [pending(f"p{number}", 4000, spec={"node_selector": (("pool", "a"),)}) for number in range(2)]
    decision = decide_once(observe(groups, busy, pods), chosen)
    return sum({"a": 3, **sizes(decision)}.values())


@pytest.mark.parametrize("salvo", [False, True], ids=["one round", "rounds"])
def test_the_total_counts_nodes_ordered_for_pods_in_the_same_loop(salvo: bool) -> None:
    settings = choose(WINDLASS, "deviations", joint_scale_up=salvo)
    assert grow(settings, {"max_nodes_total": 5}) == 5
    assert grow(settings, {"max_nodes_total": 6}) == 6


def test_the_total_counts_nodes_of_other_minima() -> None:
    assert grow(WINDLASS, {"max_nodes_total": 7}, [1, 3]) == 7


@pytest.mark.parametrize("minima", [[3], [2, 2]], ids=["one group", "two groups"])
@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        ({"cores_total": Bounds(0, 20)}, 5),
        ({"cores_total": Bounds(0, 24)}, 6),
        ({"memory_total_bytes": Bounds(0, 5500)}, 5),
        ({"gpu_total": (GpuBounds(GPU, 0, 11),)}, 5),
    ],
    ids=["cores", "more cores", "memory", "GPUs"],
)
def test_quotas_count_nodes_ordered_in_the_same_loop(limits: dict[str, Any], allowed: int, minima: list[int]) -> None:
    has = (("cpu", 4000), ("memory", 1000), (GPU, 2), ("pods", 100))
    equipped = {"allocatable": has, "capacity": has, "labels": {"cluster-api/accelerator": GPU}}
    assert grow(WINDLASS, limits, minima, **equipped) == allowed


@pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
def test_a_minimum_is_reached_where_nothing_forbids_it(settings: Settings) -> None:
    assert grow(settings, {}) == 8
