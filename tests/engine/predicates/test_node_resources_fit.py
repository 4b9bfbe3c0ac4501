"""NodeResourcesFit: what is left must be enough, of everything that is asked for and of nothing else."""

from tests.builders import evaluate, feasible, node, pod
from tests.engine.dra.builders import ACCEL, STANDS_FOR, accelerated
from windlass.engine.model import facts, settings
from windlass.engine.model.scheduling_reasons import Insufficient, StatusCode
from windlass.engine.predicates import node_resources_fit
from windlass.engine.snapshot import cluster_snapshot as snapshots


def test_an_exact_fit_fits_and_one_more_does_not() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000)], [pod("q", on="a", cpu=400)])
    assert feasible(snapshot, pod("p", cpu=600)) == {"a"}
    assert feasible(snapshot, pod("p", cpu=601)) == set()


def test_a_refusal_names_all_that_is_short_with_the_amounts_that_decided() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000, memory=100)], [pod("q", on="a", cpu=400, memory=90)])
    refusal = evaluate(snapshot, pod("p", cpu=700, memory=50))["a"]
    assert refusal is not None
    assert (refusal.rule, refusal.code) == (node_resources_fit.NAME, StatusCode.UNSCHEDULABLE)
    assert refusal.reasons == (
        Insufficient("", resource="cpu", requested=700, used=400, capacity=1000),
        Insufficient("", resource="memory", requested=50, used=90, capacity=100),
    )
    assert refusal.texts == ["Insufficient cpu", "Insufficient memory"]


def test_what_even_an_empty_node_could_not_give_is_unresolvable() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000, pods=1)], [pod("q", on="a")])
    refusal = evaluate(snapshot, pod("p", cpu=1001))["a"]
    assert refusal is not None
    assert refusal.code is StatusCode.UNRESOLVABLE
    assert refusal.texts == ["Insufficient cpu", "Too many pods"]


def test_too_many_pods_alone_is_always_resolvable() -> None:
    refusal = evaluate(snapshots.build_snapshot([node("a", pods=0)], []), pod("p"))["a"]
    assert refusal is not None
    assert (refusal.code, refusal.texts) == (StatusCode.UNSCHEDULABLE, ["Too many pods"])


def test_asking_for_nothing_passes_an_overcommitted_node() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000)], [pod("q", on="a", cpu=3000)])
    assert feasible(snapshot, pod("p", memory=1)) == {"a"}
    assert feasible(snapshot, pod("p", cpu=1)) == set()


def test_extended_resources_are_resources_like_all_others() -> None:
    gpu = {"example.com/gpu": 2}
    snapshot = snapshots.build_snapshot(
        [node("a", more=gpu), node("b")], [pod("q", on="a", more={"example.com/gpu": 1})]
    )
    assert feasible(snapshot, pod("p", more={"example.com/gpu": 1})) == {"a"}
    assert feasible(snapshot, pod("p", more=gpu)) == set()
    assert feasible(snapshot, pod("p", more={"example.com/gpu": 0})) == {"a", "b"}
    assert feasible(snapshot, pod("p", more={"example.com/never-heard-of": 1})) == set()


def test_a_profile_can_ignore_extended_resources_but_not_the_native_ones() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    by_name = settings.FilterConfig(ignored_resources=frozenset({"example.com/gpu", "cpu"}))
    by_group = settings.FilterConfig(ignored_resource_groups=frozenset({"example.com"}))
    for profile in (by_name, by_group):
        assert feasible(snapshot, pod("p", more={"example.com/gpu": 1}), profile) == {"a"}
        assert feasible(snapshot, pod("p", cpu=9000), profile) == set()
        assert feasible(snapshot, pod("p", more={"other.com/gpu": 1}), profile) == set()


def test_bytes_beyond_32_bits_are_counted_exactly() -> None:
    snapshot = snapshots.build_snapshot([node("a", memory=(1 << 53) + 1)], [pod("q", on="a", memory=1 << 53)])
    assert feasible(snapshot, pod("p", memory=1)) == {"a"}
    assert feasible(snapshot, pod("p", memory=2)) == set()


def test_what_fits_exactly_is_not_named_among_what_is_short() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000, memory=100)], [])
    refusal = evaluate(snapshot, pod("p", cpu=1000, memory=101))["a"]
    assert refusal is not None
    assert refusal.texts == ["Insufficient memory"]


def test_a_node_that_is_large_enough_but_full_may_be_emptied_for_the_pod() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000)], [pod("q", on="a", cpu=1)])
    refusal = evaluate(snapshot, pod("p", cpu=1000))["a"]
    assert refusal is not None
    assert refusal.code is StatusCode.UNSCHEDULABLE


def test_a_profile_without_the_filter_has_it_check_nothing() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    shape = snapshot.shape_of(pod("p", cpu=1))
    silent = settings.FilterConfig(disabled=frozenset({node_resources_fit.NAME}))
    assert (
        node_resources_fit.checked_requests(snapshot, shape, silent)
        == node_resources_fit.device_backed_requests(snapshot, shape, silent)
        == []
    )
    named = [
        (snapshot.nodes.resources[column], amount)
        for column, amount in node_resources_fit.checked_requests(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
    ]
    assert sorted(named) == [("cpu", 1), ("pods", 1)]


# Resources for which a device class stands


def offering(*nodes: facts.Node) -> snapshots.Snapshot:
    """A cluster in which devices may stand for the resource."""
    return snapshots.build_snapshot(nodes, [], offered=[STANDS_FOR])


def test_a_node_with_too_little_of_what_devices_may_stand_for_is_told_so() -> None:
    refusal = evaluate(offering(node("plugin", more={ACCEL: 40})), accelerated(50))["plugin"]
    assert refusal is not None
    assert (refusal.rule, refusal.code) == (node_resources_fit.NAME, StatusCode.UNRESOLVABLE)
    assert refusal.reasons == (Insufficient("", resource=ACCEL, requested=50, used=0, capacity=40),)


def test_what_devices_may_stand_for_is_not_missed_and_the_rest_is_named_once() -> None:
    snapshot = offering(node("devices", cpu=1000))
    assert node_resources_fit.mask(
        snapshot, snapshot.shape_of(accelerated(50)), settings.DEFAULT_FILTER_CONFIG
    ).tolist() == [True]
    refusal = evaluate(snapshot, accelerated(50, cpu=2000))["devices"]
    assert refusal is not None
    assert refusal.reasons == (Insufficient("", resource="cpu", requested=2000, used=0, capacity=1000),)


def test_a_profile_ignores_a_resource_though_devices_may_stand_for_it() -> None:
    snapshot = offering(node("plugin", more={ACCEL: 1}))
    ignoring = settings.FilterConfig(ignored_resources=frozenset({ACCEL}))
    assert feasible(snapshot, accelerated(2), ignoring) == {"plugin"}
    assert feasible(snapshot, accelerated(2)) == set()


def test_a_profile_without_the_filter_asks_nodes_for_nothing_that_devices_may_stand_for() -> None:
    snapshot = offering(node("plugin", more={ACCEL: 1}))
    silent = settings.FilterConfig(disabled=frozenset({node_resources_fit.NAME}))
    assert node_resources_fit.device_backed_requests(snapshot, snapshot.shape_of(accelerated(2)), silent) == []


def test_what_no_container_asks_for_is_had_from_nodes_alone() -> None:
    overhead = facts.PodSpec(requests=(("cpu", 100), (ACCEL, 1)))
    snapshot = offering(node("plugin", more={ACCEL: 1}), node("devices"))
    assert feasible(snapshot, pod("p", spec=overhead)) == {"plugin"}
