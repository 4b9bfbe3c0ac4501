"""Gates say of every single node what the filters say of all at once."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests import strategies
from tests.conformance import objects
from tests.strategies import Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import settings
from windlass.engine.placement import shape_placer
from windlass.engine.predicates import inter_pod_affinity, pod_topology_spread, registry, taint_toleration


@given(
    strategies.clusters(nodes=6, bound=9, pending=4),
    st.lists(st.integers(0, 5), max_size=2),
    st.lists(st.integers(0, 5), max_size=2),
    st.sampled_from([(), (taint_toleration.NAME,), (inter_pod_affinity.NAME,), (pod_topology_spread.NAME,)]),
)
@strategies.examples(150)
def test_a_node_lets_pass_whom_the_filters_let_run_there(
    found: Objects, deleting: list[int], retired: list[int], disabled: tuple[str, ...]
) -> None:
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(found.all))
    asked = [snapshot.shape_of(objects.pod(pod)) for pod in found.pending]
    shapes = [shape for shape in asked if shape_placer.has_domain_checks(shape)]
    assume(shapes)
    profile = settings.FilterConfig(disabled=frozenset(disabled))
    snapshot.fork()
    for row in deleting:
        snapshot.mark_deleting(row % snapshot.nodes.count)
    for row in retired:
        snapshot.mark_gone(row % snapshot.nodes.count)
    for shape in shapes:
        opened = shape_placer.NodeProbe(snapshot, shape, profile)
        passed = [opened.passes(row) for row in range(snapshot.nodes.count)]
        assert passed == registry.find_feasible(snapshot, shape, profile).tolist()
