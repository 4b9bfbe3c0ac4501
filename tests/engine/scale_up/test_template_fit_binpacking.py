"""Packing without a snapshot comes out as packing in one, wherever it may be used."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.builders import GIB, node, pod
from windlass.engine.model import facts, settings
from windlass.engine.scale_up import binpacking_estimator, template_fit
from windlass.engine.snapshot import cluster_snapshot as snapshots

AMOUNTS = st.tuples(
    st.sampled_from([0, 100, 300, 1000, 1700, 4000, 5000]), st.integers(0, 9), st.sampled_from([0, 0, 0, 1, 2])
)
"""Millicores, GiB, GPUs."""


@given(
    st.lists(st.tuples(AMOUNTS, st.integers(1, 40)), min_size=1, max_size=6),
    AMOUNTS,
    st.integers(0, 12),
    st.integers(1, 12),
    st.sampled_from([None, 0, 1]),
)
@strategies.examples(150)
def test_counts_are_those_of_packing_in_the_snapshot(
    wanted: list[tuple[tuple[int, int, int], int]],
    daemon: tuple[int, int, int],
    most_nodes: int,
    most_pods: int,
    seed: int | None,
) -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("p", on="a", cpu=1000)])

    def shape_of(amounts: tuple[int, int, int]) -> facts.PodShape:
        cpu, gib, gpus = amounts
        return snapshot.shape_of(pod("q", cpu=cpu, memory=gib * GIB, more={"gpu": gpus}))

    template = binpacking_estimator.NodeTemplate(node("t", pods=most_pods, more={"gpu": 4}), (shape_of(daemon),))
    groups = [binpacking_estimator.ShapeCount(shape_of(amounts), count) for amounts, count in wanted]

    def make_limiter() -> binpacking_estimator.EstimationLimiter:
        return binpacking_estimator.EstimationLimiter([binpacking_estimator.make_static_threshold(most_nodes)])

    def make_scatter() -> np.random.Generator | None:
        return None if seed is None else np.random.default_rng(seed)

    estimate = template_fit.estimate_by_resources(
        snapshot, groups, template, make_limiter(), settings.DEFAULT_FILTER_CONFIG, make_scatter()
    )
    expected = binpacking_estimator.estimate(
        snapshot, groups, template, make_limiter(), settings.DEFAULT_FILTER_CONFIG, scatter=make_scatter()
    )  # fmt: skip
    assert estimate == expected
