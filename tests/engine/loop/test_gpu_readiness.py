"""A node that is meant to have GPUs is not ready before it has one: it is awaited, and no example of its group."""

from dataclasses import replace

import pytest

from tests.engine.loop.builders import (
    BOTH,
    LONG_AGO_S,
    NOW_S,
    PEER,
    READY,
    WINDLASS,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    pending,
    reasons,
    resources,
    running,
    sizes,
)
from windlass.engine import loop_memory
from windlass.engine.cluster_state import readiness
from windlass.engine.loop import Decision
from windlass.engine.model import facts, node_groups, well_known
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings

GPU = "nvidia.com/gpu"
LABELS = {well_known.CLUSTER_API_GPU_LABEL: "a100"}
behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])


def gpu_node(name: str, count: int, ready_s: float = LONG_AGO_S, **changes: object) -> facts.Node:
    """A Ready node with the accelerator label and so many GPUs."""
    has = resources(4000, 1000, pods=100, **({GPU: count} if count else {}))
    labels = {**LABELS, facts.HOSTNAME: name}
    since = {"created_s": ready_s, "conditions": (facts.Condition("Ready", "True", ready_s),)}
    return replace(node(name), labels=labels, allocatable=has, capacity=has, **{**since, **changes})  # type: ignore[arg-type]


def gpu_pod(name: str, created_s: float = NOW_S - 60.0) -> facts.Pod:
    made = pending(name, created_s=created_s, unschedulable_since_s=created_s)
    return replace(made, spec=facts.PodSpec(requests=resources(100, **{GPU: 8})))


TEMPLATE = gpu_node("template", 8)


class Cluster:
    """A group of GPU nodes, loop after loop. Each node is ready `boot_s` after its order, its driver later still."""

    def __init__(self, settings: Settings, boot_s: float, driver_s: float) -> None:
        self.settings, self.boot_s, self.driver_s = settings, boot_s, driver_s
        self.ordered_s: list[float] = []
        self.memory = loop_memory.LoopMemory()

    def run(self, at_s: float, *pods: facts.Pod) -> Decision:
        members, instances = [], []
        for number, ordered_s in enumerate(self.ordered_s):
            ready_s = ordered_s + self.boot_s
            if at_s < ready_s:
                instances.append(node_groups.Instance(f"id://coming-{number}", "Creating"))
                continue
            count = 8 if at_s >= ready_s + self.driver_s else 0
            members.append(gpu_node(f"g-{number}", count, ready_s))
        own = group("g", members, instances=instances, target=len(self.ordered_s), template=TEMPLATE, max_size=50)
        decision = decide_once(observe([own], members, pods), self.settings, self.memory, at_s)
        self.memory = decision.memory
        for size in sizes(decision).values():
            self.ordered_s += [at_s] * (size - len(self.ordered_s))
        return decision


@behaviors
@pytest.mark.parametrize(("boot_s", "driver_s"), [(120, 300), (90, 600)])
def test_one_node_is_ordered_while_its_driver_takes_its_time(
    settings: Settings, boot_s: float, driver_s: float
) -> None:
    cluster = Cluster(settings, boot_s, driver_s)
    for t in range(0, int(boot_s + driver_s), 10):
        decision = cluster.run(NOW_S + t, gpu_pod("p"))
    assert len(cluster.ordered_s) == 1
    assert decision.story.upcoming == {"g": 1}
    assert decision.story.health.total.not_started == ("g-0",)


@behaviors
def test_a_driver_that_never_comes_leaves_the_template_as_the_provider_says(settings: Settings) -> None:
    cluster = Cluster(settings, 100, 1e9)
    for t in range(0, 400, 10):
        cluster.run(NOW_S + t, gpu_pod("p"))
    cluster.ordered_s.clear()  # the node is gone, and the pod too
    cluster.run(NOW_S + 7200)
    cluster.run(NOW_S + 86_400, gpu_pod("q", NOW_S + 86_340))
    assert len(cluster.ordered_s) == 1


@behaviors
def test_a_node_that_got_no_gpus_in_time_is_unready_for_its_resource(settings: Settings) -> None:
    lame, other = gpu_node("g-0", 0), gpu_node("g-1", 8)
    decision = decide_once(observe([group("g", [lame, other], template=TEMPLATE)], [lame, other]), settings)
    found = decision.story.health.groups["g"].readiness
    assert found is not None
    assert (found.ready, found.unready, found.resource_unready) == (("g-1",), ("g-0",), ("g-0",))


@behaviors
def test_a_node_without_its_gpus_goes_after_the_unready_time(settings: Settings) -> None:
    settings = choose(settings, "scale_down", scale_down_delay_after_add_s=0.0)
    lame, other = gpu_node("g-0", 0), gpu_node("g-1", 8)
    pods = [replace(running("r", "g-1"), spec=facts.PodSpec(requests=resources(100, **{GPU: 8})))]
    observation = observe([group("g", [lame, other], template=TEMPLATE)], [lame, other], pods)
    before, decisions = loop_memory.LoopMemory(), {}
    for t in range(0, 1500, 100):
        decision = decide_once(observation, settings, before, NOW_S + t)
        before, decisions[t] = decision.memory, decision
        if drained(decision):
            break
    assert reasons(decisions[700])["g-0"] is UnremovableReason.NOT_UNREADY_LONG_ENOUGH  # unneeded nodes go after 600 s
    assert t == 1300
    assert drained(decisions[t]) == ["g-0"]


@behaviors
def test_a_cordoned_node_without_gpus_is_ready_as_it_says(settings: Settings) -> None:
    lame = gpu_node("g-0", 0, unschedulable=True)
    decision = decide_once(observe([group("g", [lame], template=TEMPLATE)], [lame]), settings)
    assert decision.story.health.total.ready == ("g-0",)


@behaviors
def test_a_lack_of_gpus_is_told_before_a_startup_taint(settings: Settings) -> None:
    taint = facts.Taint("startup-taint.cluster-autoscaler.kubernetes.io/driver", "", "NoSchedule")
    lame = gpu_node("g-0", 0, taints=(taint,))
    decision = decide_once(observe([group("g", [lame], template=TEMPLATE)], [lame]), settings)
    assert decision.story.health.total.resource_unready == ("g-0",)


@behaviors
def test_a_node_of_no_group_lacks_its_gpus_too(settings: Settings) -> None:
    lame = gpu_node("other", 0)
    decision = decide_once(observe([], [lame]), settings)
    assert decision.story.health.total.resource_unready == ("other",)


@pytest.mark.parametrize("resource", well_known.GPU_RESOURCES)
def test_any_vendors_gpu_makes_the_node_ready(resource: str) -> None:
    has = resources(4000, 1000, pods=100, **{resource: 1})
    equipped = replace(gpu_node("g-0", 0), allocatable=has)
    decision = decide_once(observe([group("g", [equipped], template=TEMPLATE)], [equipped]), PEER)
    assert decision.story.health.total.ready == ("g-0",)


def test_a_disk_under_pressure_makes_a_node_no_example() -> None:
    pressed = node("g-0", cpu=1000, conditions=(*READY, facts.Condition("DiskPressure", "True", LONG_AGO_S)))
    lately = node("h-0", cpu=1000, conditions=(*READY, facts.Condition("DiskPressure", "False", NOW_S - 30.0)))
    for one in (pressed, lately):
        id = one.name[0]
        decision = decide_once(observe([group(id, [one])], [one], [pending("p", cpu=3000)]), WINDLASS)
        assert sizes(decision) == {id: 2}


def test_readiness_reason_is_cluster_autoscalers() -> None:
    assert readiness.RESOURCE_UNREADY == "cluster-autoscaler.kubernetes.io/resource-not-ready"
