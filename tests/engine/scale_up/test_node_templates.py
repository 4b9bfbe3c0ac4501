"""Templates: who says what a new node of a group would look like, and which pods would come with it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.engine.loop.builders import AGENT, LONG_AGO_S, NOT_READY, NOW_S, group, node, running
from windlass.engine import taints
from windlass.engine.model import facts, node_groups
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.model.settings import TemplateSettings
from windlass.engine.scale_up import node_templates
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

MIRROR = {"kubernetes.io/config.mirror": "digest"}


def find(
    groups: Sequence[node_groups.NodeGroup],
    nodes: Sequence[facts.Node] = (),
    pods: Sequence[facts.Pod] = (),
    daemon_sets: Sequence[node_groups.DaemonSet] = (),
    remembered: Mapping[str, GroupTemplate] | None = None,
    force: bool = False,
    chosen: TemplateSettings | None = None,
) -> tuple[dict[str, GroupTemplate], dict[str, GroupTemplate]]:
    by_instance = {instance.provider_id: node_group for node_group in groups for instance in node_group.instances}
    return node_templates.make_templates(
        groups,
        nodes,
        {one.name: by_instance[one.provider_id] for one in nodes if one.provider_id in by_instance},
        lambda name: [pod for pod in pods if pod.node_name == name],
        daemon_sets,
        remembered or {},
        lambda one: taints.sanitize(one, taints.make_transient_taints(chosen or TemplateSettings())),
        force,
        NOW_S,
    )


def cpu_of(made: GroupTemplate) -> int:
    return dict(made.node.allocatable)[facts.CPU]


def daemon_set(name: str = "agent", is_critical: bool = False, **spec: Any) -> node_groups.DaemonSet:
    owner = facts.Owner("apps/v1", "DaemonSet", name, f"uid-{name}")
    pod = running(f"{name}-pod", "", cpu=50, owner=owner, spec=spec)
    return node_groups.DaemonSet("default", name, f"uid-{name}", pod, is_critical)


# ── Who speaks for the group ─────────────────────────────────────────────────────────────────────────────────────


def test_a_healthy_node_says_it_better_than_the_provider() -> None:
    example = node("g-0", cpu=1500)
    templates, remembered = find([group("g", [example], template=node("t", cpu=9000))], [example])
    assert cpu_of(templates["g"]) == 1500
    assert remembered == templates


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": NOT_READY},
        {"conditions": ()},
        {"conditions": (facts.Condition("Ready", "True", NOW_S - node_templates.STABLE_FOR_S),)},
        {"unschedulable": True},
        {"taints": (taints.make_to_be_deleted(NOW_S),)},
    ],
    ids=["not ready", "silent", "ready for exactly a minute", "cordoned", "leaving"],
)
def test_a_node_that_is_no_good_example_says_it_worse_than_the_provider(changes: Mapping[str, Any]) -> None:
    example = node("g-0", cpu=1500, **changes)
    templates, remembered = find([group("g", [example], template=node("t", cpu=9000))], [example])
    assert cpu_of(templates["g"]) == 9000
    assert remembered == {}


def test_what_a_good_node_was_like_is_remembered_and_says_it_better_than_the_provider() -> None:
    example = node("g-0", cpu=1500)
    _, remembered = find([group("g", [example])], [example])
    templates, still = find([group("g", template=node("t", cpu=9000))], remembered=remembered)
    assert cpu_of(templates["g"]) == 1500
    assert still == remembered


def test_an_unhealthy_node_is_the_last_resort() -> None:
    example = node("g-0", cpu=1500, conditions=NOT_READY)
    unknown = node_groups.NodeGroup("g", 0, 9, 1, (node_groups.Instance(example.provider_id),))
    templates, remembered = find([unknown], [example])
    assert cpu_of(templates["g"]) == 1500
    assert remembered == {}


def test_a_group_about_which_nothing_is_known_has_no_template() -> None:
    assert find([node_groups.NodeGroup("g", 0, 9, 0)]) == ({}, {})


def test_groups_that_are_gone_are_forgotten() -> None:
    made = GroupTemplate(node("t"))
    _, remembered = find([group("g")], remembered={"g": made, "gone": made})
    assert set(remembered) == {"g"}


# ── What is taken off, and what is added ─────────────────────────────────────────────────────────────────────────


def test_a_template_has_a_name_and_hostname_of_its_own() -> None:
    example = node("g-0", labels={"size": "large"})
    (made,) = find([group("g", [example])], [example])[0].values()
    assert made.node.name == made.node.labels[facts.HOSTNAME] == "template-node-for-g"
    assert made.node.labels["size"] == "large"
    assert made.node.labels[node_templates.TEMPLATE_LABEL] == "true"
    assert made.node.uid == ""


def test_taints_that_will_pass_are_taken_off() -> None:
    passing = ("node.kubernetes.io/not-ready", "startup", "ignore-taint.cluster-autoscaler.kubernetes.io/x", "status",
               "status-taint.cluster-autoscaler.kubernetes.io/y", taints.DELETION_CANDIDATE_KEY)  # fmt: skip
    marks = tuple(facts.Taint(key, "", "NoSchedule") for key in (*passing, "dedicated"))
    template_settings = TemplateSettings(startup_taint=("startup",), status_taint=("status",))
    templates, _ = find([group("g", template=node("t", taints=marks))], chosen=template_settings)
    assert [taint.key for taint in templates["g"].node.taints] == ["dedicated"]


def test_a_providers_template_gets_the_old_names_of_labels_beside_the_new_ones() -> None:
    told = node("t", labels={facts.ZONE: "z", facts.REGION: "r", "node.kubernetes.io/instance-type": "big"})
    templates, _ = find([group("g", template=told)])
    labels = templates["g"].node.labels
    assert labels[facts.ZONE_BETA] == "z"
    assert labels[facts.REGION_BETA] == "r"
    assert labels["beta.kubernetes.io/instance-type"] == "big"


# ── Pods that come with a node ───────────────────────────────────────────────────────────────────────────────────


def names(made: GroupTemplate) -> set[str]:
    return {pod.name for pod in made.pods}


def test_of_the_examples_pods_those_of_daemonsets_and_mirrors_come_with_every_node() -> None:
    example = node("g-0")
    pods = [
        running("app", "g-0"),
        running("agent", "g-0", owner=AGENT),
        running("static", "g-0", owner=None, annotations=MIRROR),
        running("leaving", "g-0", owner=AGENT, deleted_s=LONG_AGO_S),
    ]
    templates, _ = find([group("g", [example])], [example], pods)
    assert names(templates["g"]) == {"agent", "static"}


def test_without_an_example_every_daemonset_that_fits_comes_with_a_new_node() -> None:
    templates, _ = find([group("g")], daemon_sets=[daemon_set("one"), daemon_set("two")])
    assert names(templates["g"]) == {"one-pod", "two-pod"}


def test_a_daemonset_that_an_example_lacks_is_counted_if_it_would_make_its_place_or_the_user_forces_it() -> None:
    example = node("g-0")
    sets = [daemon_set("plain"), daemon_set("critical", is_critical=True), daemon_set("agent")]
    there = [running("agent-1", "g-0", owner=AGENT)]
    templates, _ = find([group("g", [example])], [example], there, sets)
    assert names(templates["g"]) == {"agent-1", "critical-pod"}
    forced, _ = find([group("g", [example])], [example], there, sets, force=True)
    assert names(forced["g"]) == {"agent-1", "critical-pod", "plain-pod"}


TAINTED = node("t", labels={"disk": "ssd"}, taints=(facts.Taint("dedicated", "db", "NoSchedule"),))
TOLERANT = (facts.Toleration("dedicated", "Equal", "db", "NoSchedule"),)


@pytest.mark.parametrize(
    ("spec", "runs"),
    [
        ({}, False),
        ({"tolerations": TOLERANT}, True),
        ({"tolerations": TOLERANT, "node_selector": (("disk", "ssd"),)}, True),
        ({"tolerations": TOLERANT, "node_selector": (("disk", "hdd"),)}, False),
        (
            {
                "tolerations": TOLERANT,
                "node_affinity": NodeSelector((NodeSelectorTerm((Requirement("disk", Operator.NOT_IN, ("ssd",)),)),)),
            },
            False,
        ),
    ],
)
def test_labels_and_taints_decide_whether_a_daemonset_runs_on_new_nodes(spec: Mapping[str, Any], runs: bool) -> None:
    templates, _ = find([group("g", template=TAINTED)], daemon_sets=[daemon_set(**spec)])
    assert bool(templates["g"].pods) == runs


def test_a_preference_keeps_no_daemonset_away() -> None:
    shunned = node("t", taints=(facts.Taint("old", "", "PreferNoSchedule"),))
    assert node_templates.runs_on(facts.PodSpec(), shunned)
