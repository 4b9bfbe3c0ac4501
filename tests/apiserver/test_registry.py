"""What can be turned off, as on the real components."""

from tests.apiserver.direct_client import CONFIG_MAPS, PODS, Asked, config_map, pod
from windlass.apiserver import registry

_NODES = "/api/v1/nodes"


def test_admission_plugins_can_be_disabled() -> None:
    asked = Asked(registry.ServerSettings(disabled_admission=frozenset(registry.ADMISSION)))
    node = asked.ask("POST", _NODES, {"metadata": {"name": "n"}})
    assert "taints" not in node["spec"]
    made = asked.ask("POST", PODS, pod("p"))
    assert "tolerations" not in made["spec"]
    assert "priority" not in made["spec"]


def test_without_the_garbage_collector_orphans_stay() -> None:
    asked = Asked(registry.ServerSettings(disabled_controllers=frozenset({"garbage-collector"})))
    obj = config_map("a")
    obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "u"}]
    asked.ask("POST", CONFIG_MAPS, obj)
    assert asked.send("GET", f"{CONFIG_MAPS}/a").status == 200


def test_another_seed_gives_other_uids() -> None:
    uids = {
        Asked(registry.ServerSettings(seed=seed)).ask("POST", CONFIG_MAPS, config_map("a"))["metadata"]["uid"]
        for seed in (1, 2)
    }
    assert len(uids) == 2


def test_an_old_event_is_forgotten_when_newer_ones_come() -> None:
    asked = Asked(registry.ServerSettings(history=3))
    first = asked.ask("POST", CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    for name in "bcdef":
        asked.ask("POST", CONFIG_MAPS, config_map(name))
    watched = asked.send("GET", CONFIG_MAPS, watch="true", resourceVersion=first).watch
    assert watched is not None
    assert watched.is_ended
    assert b'"code":410' in watched.take()
