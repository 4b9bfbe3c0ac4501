"""The estimator's limits and order: sections of estimator.json that need no packing."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.conformance import objects
from tests.conformance.outcome import Json
from windlass.engine.model import facts
from windlass.engine.scale_up import binpacking_estimator

NANOSECOND = 1e-9

ALLOCATABLE_MILLICPU = 4
ALLOCATABLE_MEMORY_BYTES = 600
"""The template in every case of `order`; the recording leaves it out."""


@dataclass(frozen=True, slots=True)
class _Elapsed:
    """Time that has gone by, of how much there is; 0 sets no limit, a negative one allows nothing."""

    seconds: float
    limit_s: float

    def exhausted(self) -> bool:
        return self.limit_s < 0 or 0 < self.limit_s < self.seconds


def _limiter(case: Json, constants: Json) -> object:
    answers = []
    limiter = _start(case, estimation=1, elapsed_s=case["started_s_ago"])
    for operation in case["expect"]:
        if operation == "restart":
            limiter = _start(case, estimation=2, elapsed_s=0)
            answers.append("restart")
        else:
            answers.append("allow" if limiter.grant(1) else "deny")
    if limiter.granted != case["expect_nodes"]:
        answers.append(f"granted {limiter.granted}")
    return answers


def _start(case: Json, estimation: int, elapsed_s: float) -> binpacking_estimator.EstimationLimiter:
    """A threshold recorded as null is one that changes: one node more than the number of the estimation."""
    static, duration_s = [], 0.0
    for threshold in case["thresholds"]:
        nodes = threshold["max_nodes"]
        static.append(binpacking_estimator.make_static_threshold(estimation + 1 if nodes is None else nodes))
        duration_s = binpacking_estimator.combine_limits(duration_s, float(threshold["max_duration_s"] or 0))
    return binpacking_estimator.EstimationLimiter(static, _Elapsed(elapsed_s, duration_s))


def _min_limit(case: Json, constants: Json) -> object:
    """Durations are recorded in seconds; what allows nothing is one nanosecond below zero there."""
    item, other = case["a"], case["b"]
    combined = binpacking_estimator.combine_limits(item, other)
    if isinstance(item, float) or isinstance(other, float):
        return combined * NANOSECOND if combined == binpacking_estimator.NO_NODES else combined
    return combined


def _similar_group_capacity(case: Json, constants: Json) -> object:
    groups = [case["group"], *case["similar"]]
    return binpacking_estimator.make_similar_groups_threshold((group["size"], group["max"]) for group in groups).nodes


def _cluster_capacity(case: Json, constants: Json) -> object:
    return binpacking_estimator.make_cluster_capacity_threshold(case["max_nodes_total"], case["current"]).nodes


def _order(case: Json, constants: Json) -> object:
    pods = [objects.pod(group["pod"], pending=True) for group in case["groups"]]
    requests = [dict(pod.spec.requests) for pod in pods]
    order = binpacking_estimator.sort_decreasing(
        np.array([request.get(facts.CPU, 0) for request in requests], dtype=np.int64),
        np.array([request.get(facts.MEMORY, 0) for request in requests], dtype=np.int64),
        ALLOCATABLE_MILLICPU,
        ALLOCATABLE_MEMORY_BYTES,
    )
    return [pods[position].name for position in order]


SECTIONS: dict[str, Callable[[Json, Json], object]] = {
    "limiter": _limiter,
    "min_limit": _min_limit,
    "similar_group_capacity": _similar_group_capacity,
    "cluster_capacity": _cluster_capacity,
    "order": _order,
}
