"""Room is made for pods that controllers want and have not created, and for no others."""

from dataclasses import replace

import pytest

from tests.engine.capacity_apis.provisioning_clusters import NOW_S, make
from windlass.engine.capacity_apis import proactive_pods
from windlass.engine.model import facts
from windlass.engine.model.settings import InjectionSettings, Settings

PROACTIVE = Settings(injection=InjectionSettings(enable_proactive_scaleup=True))
OWNER = facts.Owner("apps/v1", "ReplicaSet", "rs", "uid-rs")


def pod(name: str, node: str = "", **more: object) -> facts.Pod:
    spec = facts.PodSpec(requests=(("cpu", 2000),))
    made = facts.Pod("ns", name, name, owner=OWNER, spec=spec, node_name=node, created_s=NOW_S - 100, digest="d")
    return replace(made, unschedulable_since_s=None if node else NOW_S - 90, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parallelism", "completions", "succeeded", "expected"),
    [
        (None, None, 0, 1),
        (5, None, 0, 5),
        (5, None, 1, 0),
        (5, 10, 0, 5),
        (5, 10, 7, 3),
        (5, 10, 12, 0),
        (None, 3, 0, 1),
    ],
)
def test_a_job_wants_as_many_pods_as_are_left_to_do_at_once(
    parallelism: int | None, completions: int | None, succeeded: int, expected: int
) -> None:
    assert proactive_pods.desired_job_pods(parallelism, completions, succeeded) == expected


@pytest.mark.parametrize(("replicas", "limit", "nodes"), [(1, 5000, 1), (8, 5000, 4), (8, 3, 2), (8, 1, 1)])
def test_nodes_come_for_pods_that_are_yet_to_be_created_up_to_the_limit(replicas: int, limit: int, nodes: int) -> None:
    settings = replace(PROACTIVE, injection=replace(PROACTIVE.injection, pod_injection_limit=limit))
    world = make(sizes={"a": 0}, settings=settings, pods=[pod("p")])
    world.controllers = {("ReplicaSet", "ns", "rs"): facts.Controller("ReplicaSet", "ns", "rs", "uid-rs", replicas)}
    decision = world.loop()
    assert world.sizes == {"a": nodes}
    told = [row for proposal in decision.story.scale_ups for row in (*proposal.helped, *proposal.awaiting)]
    assert set(told) <= {0}, "nobody is told of pods that do not exist"


def test_a_controller_that_has_its_pods_or_none_gets_nothing() -> None:
    world = make(sizes={"a": 1}, settings=PROACTIVE, pods=[pod("p", "a-0"), pod("q", "a-0")])
    world.controllers = {
        ("ReplicaSet", "ns", "rs"): facts.Controller("ReplicaSet", "ns", "rs", "uid-rs", 2),
        ("ReplicaSet", "ns", "new"): facts.Controller("ReplicaSet", "ns", "new", "uid-new", 50),
    }
    world.loop()
    assert world.sizes == {"a": 1}


def test_a_set_that_creates_its_pods_in_order_is_not_run_ahead_of() -> None:
    world = make(sizes={"a": 1}, settings=PROACTIVE, pods=[pod("p", "a-0")])
    ordered = facts.Controller("StatefulSet", "ns", "rs", "uid-rs", 9, creates_at_once=False)
    world.controllers = {("StatefulSet", "ns", "rs"): ordered}
    world.loop()
    assert world.sizes == {"a": 1}
