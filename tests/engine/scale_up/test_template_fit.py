"""Prospects: what is asked for many groups at once, and kept, is what each group alone would say at any time."""

from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.builders import node, pod, term
from tests.conformance import objects
from tests.strategies import Json, Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import facts, settings
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.predicates import registry
from windlass.engine.scale_up import binpacking_estimator
from windlass.engine.scale_up.template_fit import RejectionReasons, TemplateFit
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def ask_plainly(snapshot: Snapshot, template: GroupTemplate, wanted: list[facts.PodShape]) -> RejectionReasons:
    """One new node of one group, one shape after the other."""
    snapshot.fork()
    (row,) = snapshot.append(template.node, [template.node.name])
    for one in template.pods:
        snapshot.place(snapshot.shape_of(one), row)
    refusals = {shape.id: registry.diagnose(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)[row] for shape in wanted}
    snapshot.revert()
    return {number: () if refusal is None else tuple(refusal.texts) for number, refusal in refusals.items()}


@given(
    strategies.clusters(nodes=4, bound=6, pending=4),
    st.lists(st.tuples(strategies.node("t"), strategies.pod("daemon")), min_size=1, max_size=4),
)
@strategies.examples(80)
def test_answers_are_those_of_each_group_alone_in_every_round(found: Objects, drawn: list[tuple[Json, Json]]) -> None:
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects([*found.all, *found.pending]))
    templates = {
        f"g{number}": GroupTemplate(
            objects.node({**raw, "metadata": {**raw["metadata"], "name": f"t{number}"}}), (objects.pod(daemon),)
        )
        for number, (raw, daemon) in enumerate(drawn)
    }
    for one in templates.values():
        snapshot.shape_of(one.pods[0])
    waiting = snapshot.pending()
    wanted = [snapshot.shape_of_row(row) for row in waiting]
    prospects = TemplateFit(snapshot, templates, settings.DEFAULT_FILTER_CONFIG)
    snapshot.fork()
    for row in [None, *waiting]:  # round after round, with one more pod placed
        if row is not None and snapshot.nodes.count:
            snapshot.bind(row, 0)
        expected = {group: ask_plainly(snapshot, template, wanted) for group, template in templates.items()}
        assert prospects.check_pods(list(templates), wanted) == expected


def test_pods_that_come_with_one_groups_node_say_nothing_of_another_groups() -> None:
    jealous = pod("daemon", spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, app="a"),)))
    snapshot = snapshots.build_snapshot([], [pod("p", labels={"app": "a"})])
    snapshot.shape_of(jealous)
    templates = {"g": GroupTemplate(node("t", zone="x"), (jealous,)), "h": GroupTemplate(node("u", zone="x"))}
    shape = snapshot.shape_of_row(snapshot.pending()[0])
    answers = TemplateFit(snapshot, templates, settings.DEFAULT_FILTER_CONFIG)
    snapshot.fork()
    assert {group: bool(found[shape.id]) for group, found in answers.check_pods(["g", "h"], [shape]).items()} == {
        "g": True,
        "h": False,
    }


def test_an_estimate_is_made_anew_once_something_keeps_its_pods_away() -> None:
    jealous = pod("j", spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, app="a"),)))
    snapshot = snapshots.build_snapshot([node("a", zone="x")], [pod("p", labels={"app": "a"}, cpu=3000), jealous])
    row, jealous_row = snapshot.pending()
    prospects = TemplateFit(snapshot, {"g": GroupTemplate(node("t", zone="x"))}, settings.DEFAULT_FILTER_CONFIG)
    pods = [binpacking_estimator.ShapeCount(snapshot.shape_of_row(row), 3)]
    assert prospects.estimate("g", pods, binpacking_estimator.EstimationLimiter([])) == binpacking_estimator.Estimate(
        3, (3,)
    )
    snapshot.fork()
    snapshot.bind(jealous_row, 0)
    assert prospects.estimate("g", pods, binpacking_estimator.EstimationLimiter([])) == binpacking_estimator.Estimate(
        0, (0,)
    )
