"""MachineDrainRules as the provider finds them: which of them select which Machines, and what cannot be read."""

from typing import Any

import pytest

from tests.providers.clusterapi.management_cluster import Bed, Json, node, play
from windlass.engine.model import node_groups
from windlass.engine.model.facts import DrainBehavior
from windlass.engine.model.node_groups import DrainedPodSelector, MachineSelector
from windlass.providers.clusterapi import auto_discovery
from windlass.selectors import LabelSelector, Operator, Requirement

G = "MachineDeployment/default/g"
RULES = "/machinedrainrules"


def arrange(bed: Bed) -> None:
    """One Machine in each of two Clusters, with different labels."""
    bed.group("g", 2)
    bed.apply("Cluster", "work", metadata={"labels": {"stage": "production"}}, spec={"paused": False})
    bed.apply("Cluster", "play", metadata={"labels": {"stage": "test"}})
    bed.machine("m-0", "g-1", labels={"os": "linux"})
    bed.machine("m-1", "g-1", labels={"os": "windows"}, cluster="play")


def add_rule(bed: Bed, name: str, namespace: str = "default", behavior: Any = "Skip", **spec: Any) -> None:
    order = {"order": spec.pop("order")} if "order" in spec else {}
    bed.apply("MachineDrainRule", name, namespace, spec={"drain": {"behavior": behavior, **order}, **spec})


async def observe(bed: Bed) -> dict[str, node_groups.Instance]:
    groups = await bed.observe([node("m-0"), node("m-1")])
    return {instance.provider_id.removeprefix("fake:///"): instance for instance in groups[G].instances}


async def list_selecting(bed: Bed) -> dict[str, tuple[str, ...]]:
    return {name: instance.machine_drain_rules for name, instance in (await observe(bed)).items()}


async def list_unreadable(bed: Bed) -> list[str]:
    return [instance.unreadable_drain_rules for instance in (await observe(bed)).values()]


def match(**labels: str) -> Json:
    return {"matchLabels": labels}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_rule_is_read_whole(version: str) -> None:
    expressions = {"matchExpressions": [{"key": "os", "operator": "Exists"}]}

    async def scenario(bed: Bed) -> None:
        add_rule(
            bed, "rule", behavior="Drain", order=-3,
            machines=[{"selector": expressions, "clusterSelector": match(stage="test")}],
            pods=[{"selector": match(app="web")}, {"namespaceSelector": match(team="a")}],
        )  # fmt: skip
        await bed.settle()
        (machine_drain_rule,) = bed.provider.observe([]).machine_drain_rules
        assert machine_drain_rule == node_groups.MachineDrainRule(
            "default", "rule", DrainBehavior.DRAIN, -3,
            (MachineSelector(LabelSelector((Requirement("os", Operator.EXISTS),)), equal("stage", "test")),),
            (DrainedPodSelector(equal("app", "web")), DrainedPodSelector(namespace=equal("team", "a"))),
        )  # fmt: skip

    play(scenario, arrange, version=version)


def equal(key: str, value: str) -> LabelSelector:
    return LabelSelector((Requirement(key, Operator.IN, (value,)),))


@pytest.mark.parametrize(
    ("machines", "selected"),
    [
        (None, {"m-0", "m-1"}),
        ([{"selector": {}}], {"m-0", "m-1"}),
        ([{"selector": match(os="linux")}], {"m-0"}),
        ([{"clusterSelector": match(stage="test")}], {"m-1"}),
        ([{"selector": match(os="linux"), "clusterSelector": match(stage="test")}], set()),
        ([{"selector": match(os="linux")}, {"clusterSelector": match(stage="test")}], {"m-0", "m-1"}),
    ],
)
def test_machines_are_selected_by_their_labels_and_those_of_their_clusters(
    machines: list[Json] | None, selected: set[str]
) -> None:
    async def scenario(bed: Bed) -> None:
        bed.apply("MachineDrainRule", "rule", spec={"drain": {"behavior": "Skip"}, "machines": machines})
        found = await list_selecting(bed)
        assert {name for name, keys in found.items() if keys == ("default/rule",)} == selected

    play(scenario, arrange)


def test_rules_of_the_namespace_are_asked_by_name() -> None:
    async def scenario(bed: Bed) -> None:
        for name in ("b", "c", "a"):
            add_rule(bed, name)
        add_rule(bed, "0", namespace="a")
        assert await list_selecting(bed) == dict.fromkeys(("m-0", "m-1"), ("default/a", "default/b", "default/c"))

    play(scenario, arrange)


def test_what_changes_is_seen_at_once() -> None:
    async def scenario(bed: Bed) -> None:
        add_rule(bed, "rule", machines=[{"selector": match(os="linux"), "clusterSelector": match(stage="test")}])
        assert not any((await list_selecting(bed)).values())
        told = bed.told
        bed.apply("Cluster", "work", metadata={"labels": {"stage": "test"}})
        assert (await list_selecting(bed))["m-0"] == ("default/rule",)
        assert bed.told > told
        bed.machine("m-0", "g-1", labels={"os": "other"})
        assert (await list_selecting(bed))["m-0"] == ()
        bed.machine("m-0", "g-1", labels={"os": "linux"})
        assert (await list_selecting(bed))["m-0"] == ("default/rule",)
        await bed.remove("MachineDrainRule", "rule")
        assert (await list_selecting(bed))["m-0"] == ()
        assert not bed.provider.observe([]).machine_drain_rules

    play(scenario, arrange)


@pytest.mark.parametrize(
    "spec",
    [
        {"drain": {"behavior": "Explode"}},
        {"drain": {"behavior": 5}},
        {},
        {
            "drain": {"behavior": "Skip"},
            "machines": [{"selector": {"matchExpressions": [{"key": "a", "operator": "?"}]}}],
        },
        {"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]},
        {"drain": {"behavior": "Skip"}, "pods": "all"},
    ],
)
def test_while_a_rule_cannot_be_read_no_machine_of_its_namespace_is_drained(spec: Json) -> None:
    async def scenario(bed: Bed) -> None:
        add_rule(bed, "good")
        bed.apply("MachineDrainRule", "bad", "a", spec=spec)
        assert await list_unreadable(bed) == ["", ""]
        bed.apply("MachineDrainRule", "bad", spec=spec)
        assert all("MachineDrainRule default/bad: " in why for why in await list_unreadable(bed))
        assert any("default/bad" in str(invalid) for invalid in bed.provider.observe([]).set_aside)
        await bed.remove("MachineDrainRule", "bad")
        assert await list_unreadable(bed) == ["", ""]

    play(scenario, arrange)


def test_a_rule_that_cannot_be_read_any_more_is_not_what_it_was() -> None:
    async def scenario(bed: Bed) -> None:
        add_rule(bed, "rule")
        assert (await list_selecting(bed))["m-0"] == ("default/rule",)
        add_rule(bed, "rule", behavior="Explode")
        assert all("one of Drain, Skip, WaitCompleted" in why for why in await list_unreadable(bed))

    play(scenario, arrange)


def test_a_cluster_that_is_not_there_leaves_open_what_its_labels_decide() -> None:
    async def scenario(bed: Bed) -> None:
        add_rule(bed, "rule", machines=[{"selector": match(os="linux"), "clusterSelector": match(stage="test")}])
        await bed.remove("Cluster", "work")
        await bed.remove("Cluster", "play")
        first, second = await list_unreadable(bed)
        assert first == "default/rule has a clusterSelector, and Cluster default/work cannot be read"
        assert second == ""  # whatever its Cluster's labels are, its own do not match
        add_rule(bed, "rule", machines=[{"selector": match(os="linux")}])
        assert await list_unreadable(bed) == ["", ""]

    play(scenario, arrange)


@pytest.mark.parametrize("code", [403, 404])
def test_where_rules_may_not_be_read_there_are_none_and_nothing_is_in_trouble(code: int) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.clock.sleep(60.0)
        await observe(bed)
        await bed.clock.sleep(60.0)
        assert await list_unreadable(bed) == ["", ""]
        assert not any((await list_selecting(bed)).values())
        assert not bed.provider.trouble
        assert not bed.provider.unavailable_reason

    def forbid(bed: Bed) -> None:
        arrange(bed)
        add_rule(bed, "rule")
        for path in (RULES, "/clusters"):
            bed.carrier.forbid("GET", path, code, "Forbidden" if code == 403 else "NotFound")

    play(scenario, forbid)


def test_rules_that_were_never_read_hold_machines_until_they_are() -> None:
    async def scenario(bed: Bed) -> None:
        assert all(why.startswith("MachineDrainRules: ") for why in await list_unreadable(bed))
        bed.carrier.allow()
        await bed.clock.sleep(120.0)
        assert await list_unreadable(bed) == ["", ""]

    def fail(bed: Bed) -> None:
        arrange(bed)
        bed.carrier.forbid("GET", RULES, 500, "InternalError")

    play(scenario, fail)


def test_rules_that_were_read_hold_while_they_cannot_be_read_again() -> None:
    async def scenario(bed: Bed) -> None:
        add_rule(bed, "rule")
        assert (await list_selecting(bed))["m-0"] == ("default/rule",)
        bed.carrier.forbid("GET", RULES)
        await bed.clock.sleep(3600.0)
        assert (await list_selecting(bed))["m-0"] == ("default/rule",)

    play(scenario, arrange)


def test_without_the_flag_neither_rules_nor_clusters_are_read() -> None:
    async def scenario(bed: Bed) -> None:
        add_rule(bed, "rule")
        assert not any((await list_selecting(bed)).values())
        assert not any(call.endswith((RULES, "/clusters")) for call in bed.carrier.calls)

    play(scenario, arrange, config=auto_discovery.Config(respect_machine_drain_rules=False))


def test_where_rules_are_not_served_neither_rules_nor_clusters_are_read() -> None:
    async def scenario(bed: Bed) -> None:
        assert await list_unreadable(bed) == ["", ""]
        assert not any(call.endswith((RULES, "/clusters")) for call in bed.carrier.calls)

    def withdraw(bed: Bed) -> None:
        arrange(bed)
        bed.withdraw("MachineDrainRule")

    play(scenario, withdraw)
