from tests.engine.scale_down.builders import AGENT, APP, pod
from windlass.engine import facts, pod_traits
from windlass.engine.scale_down import returning

KEY = ("ReplicaSet", "default", "app")


def names(evicted: list[facts.Pod], missing: dict[tuple[str, str, str], int]) -> list[str]:
    return [one.name for one in returning.find_returning(evicted, missing)]


def test_no_more_pods_return_than_their_controller_misses() -> None:
    evicted = [pod("a", "n"), pod("b", "n"), pod("c", "n")]
    assert names(evicted, {KEY: 2}) == ["a", "b"]
    assert names(evicted, {KEY: 0}) == []
    assert names(evicted, {KEY: -1}) == []


def test_pods_return_where_nobody_can_tell() -> None:
    other = facts.Owner("example.com/v1", "Swarm", "s", "u")
    evicted = [pod("lost", "n", owner=APP), pod("custom", "n", owner=other), pod("bare", "n", owner=None)]
    assert names(evicted, {}) == ["lost", "custom", "bare"]


def test_pods_that_belong_to_their_node_do_not_return() -> None:
    evicted = [
        pod("daemon", "n", owner=AGENT),
        pod("mirror", "n", annotations={pod_traits.MIRROR: "m"}),
        pod("static", "n", annotations={returning.SOURCE: "file"}),
        pod("plain", "n", annotations={returning.SOURCE: "api"}),
    ]
    assert names(evicted, {}) == ["plain"]


def test_a_returning_pod_waits_and_is_not_the_pod_that_ends() -> None:
    evicted = pod("a", "n", cpu=5, deleted_s=3.0)
    (back,) = returning.find_returning([evicted], {})
    assert (back.node_name, back.deleted_s, back.spec) == ("", None, evicted.spec)
    assert back.uid != evicted.uid
