"""Gates say of every single node what the filters say of all at once."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests import strategies
from tests.conformance import objects
from tests.strategies import Objects
from windlass.autoscaler.observe import cluster
from windlass.autoscaler.observe import snapshot as observed
from windlass.engine import gates, predicates
from windlass.engine.predicates import config, interpod, spread, taints


@given(
    strategies.clusters(nodes=6, bound=9, pending=4),
    st.lists(st.integers(0, 5), max_size=2),
    st.lists(st.integers(0, 5), max_size=2),
    st.sampled_from([(), (taints.NAME,), (interpod.NAME,), (spread.NAME,)]),
)
@strategies.examples(150)
def test_a_node_lets_pass_whom_the_filters_let_run_there(
    found: Objects, deleting: list[int], retired: list[int], disabled: tuple[str, ...]
) -> None:
    snapshot = observed.build(cluster.read(found.all))
    asked = [snapshot.shape_of(objects.pod(pod)) for pod in found.pending]
    shapes = [shape for shape in asked if gates.has_gates(shape)]
    assume(shapes)
    profile = config.FilterConfig(disabled=frozenset(disabled))
    snapshot.fork()
    for row in deleting:
        snapshot.empty_out(row % snapshot.nodes.count)
    for row in retired:
        snapshot.retire(row % snapshot.nodes.count)
    for shape in shapes:
        opened = gates.Gates(snapshot, shape, profile)
        passed = [opened.lets_pass(row) for row in range(snapshot.nodes.count)]
        assert passed == predicates.feasible(snapshot, shape, profile).tolist()
