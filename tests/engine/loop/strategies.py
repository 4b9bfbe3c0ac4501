"""Random small clusters to decide on: a few groups in good and bad states, pods that run and wait, budgets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.engine.loop import builders
from windlass.engine import taints
from windlass.engine.model import facts, node_groups, well_known
from windlass.engine.model.settings import Settings
from windlass.engine.model.well_known import SCALE_DOWN_DISABLED
from windlass.engine.observation import Observation
from windlass.selectors import LabelSelector, Operator, Requirement

APPS = ("a", "b")
ZONES = ("z0", "z1")
OWNERS = {app: facts.Owner("apps/v1", "ReplicaSet", app, f"uid-{app}") for app in APPS}


def pick(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@dataclass(frozen=True, slots=True)
class World:
    """What is seen, before a snapshot is made of it."""

    groups: tuple[node_groups.NodeGroup, ...]
    nodes: tuple[facts.Node, ...]
    pods: tuple[facts.Pod, ...]
    budgets: tuple[facts.PodDisruptionBudget, ...]

    def observe(self) -> Observation:
        return builders.observe(self.groups, self.nodes, self.pods, budgets=self.budgets)

    def and_group(self, group: node_groups.NodeGroup, at_front: bool) -> "World":
        return replace(self, groups=(group, *self.groups) if at_front else (*self.groups, group))


# ── Groups and nodes ─────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def members(draw: st.DrawFn, group: str, cpu: int, zone: str) -> list[facts.Node]:
    nodes = []
    for number in range(draw(st.integers(0, 3))):
        changes: dict[str, Any] = {"labels": {facts.ZONE: zone}}
        if draw(pick(*[False] * 7, True)):
            changes["conditions"] = builders.NOT_READY
        if draw(pick(*[False] * 7, True)):
            changes["annotations"] = {SCALE_DOWN_DISABLED: "true"}
        if draw(pick(*[False] * 7, True)):
            changes["taints"] = (
                draw(pick(taints.make_to_be_deleted, taints.make_deletion_candidate))(builders.NOW_S - 60),
            )
        nodes.append(builders.node(f"{group}-{number}", cpu, **changes))
    return nodes


@st.composite
def group(draw: st.DrawFn, id: str) -> tuple[node_groups.NodeGroup, list[facts.Node]]:
    """A group: some have instances without nodes, others were resized by someone else."""
    cpu, zone = draw(pick(1000, 2000, 4000)), draw(pick(*ZONES))
    nodes = draw(members(id, cpu, zone))
    stuck = draw(st.integers(0, 1)) if draw(pick(False, False, True)) else 0
    instances = [node_groups.Instance(f"id://{id}-stuck-{number}", "Creating") for number in range(stuck)]
    have = len(nodes) + stuck
    target = have + draw(pick(0, 0, 0, 0, 1, 2))
    max_size = max(target, 1) + draw(st.integers(0, 4))
    whole = draw(pick(*[False] * 6, True))
    template = builders.node(f"{id}-template", cpu, labels={facts.ZONE: zone}, provider_id="")
    made = builders.group(
        id,
        nodes,
        draw(st.integers(0, 2)),
        max_size,
        target,
        template,
        instances,
        zero_or_max=whole,
    )
    return (made if draw(pick(True, True, True, False)) else replace(made, template=None)), nodes


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def pod_fields(draw: st.DrawFn) -> dict[str, Any]:
    app = draw(pick(*APPS))
    spec: dict[str, Any] = {}
    match draw(pick("", "", "", "zone", "apart")):
        case "zone":
            spec["node_selector"] = ((facts.ZONE, draw(pick(*ZONES))),)
        case "apart":
            own = LabelSelector.of([Requirement("app", Operator.IN, (app,))])
            spec["anti_affinity"] = (facts.PodAffinityTerm(facts.HOSTNAME, own, ("default",)),)
    return {"labels": {"app": app}, "owner": OWNERS[app], "spec": spec}


@st.composite
def running_pods(draw: st.DrawFn, nodes: list[facts.Node]) -> list[facts.Pod]:
    """Pods on nodes, as far as the nodes have room for them."""
    pods: list[facts.Pod] = []
    for host in nodes:
        left = dict(host.allocatable)[facts.CPU]
        for _ in range(draw(st.integers(0, 3))):
            cpu, fields = draw(pick(100, 300, 500, 1000)), draw(pod_fields())
            if cpu > left:
                continue
            left -= cpu
            match draw(pick(*[""] * 9, "lone", "daemon", "stays", "finishes")):
                case "lone":
                    fields["owner"] = None
                case "daemon":
                    fields["owner"] = builders.AGENT
                case "stays":
                    fields["annotations"] = {well_known.SAFE_TO_EVICT_ANNOTATION: "false"}
                case "finishes":
                    fields["annotations"] = {well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}
            pods.append(builders.running(f"run-{len(pods)}", host.name, cpu, **fields))
    return pods


@st.composite
def pending_pods(draw: st.DrawFn, least: int = 0) -> list[facts.Pod]:
    """A few sets of pods alike."""
    pods: list[facts.Pod] = []
    for _ in range(draw(st.integers(least, 3))):
        cpu, fields, age_s = draw(pick(100, 700, 1500, 9000)), draw(pod_fields()), draw(pick(60.0, 60.0, 60.0, 0.5))
        for _ in range(draw(st.integers(1, 4))):
            pods.append(builders.pending(f"wait-{len(pods)}", cpu, age_s=age_s, **fields))
    return pods


@st.composite
def worlds(draw: st.DrawFn, least_pending: int = 0) -> World:
    made = [draw(group(f"g{number}")) for number in range(draw(st.integers(1, 3)))]
    nodes = [node for _, those in made for node in those]
    budgets = [builders.budget(draw(st.integers(0, 2)), f"budget-{app}", app) for app in APPS if draw(st.booleans())]
    pods = [*draw(running_pods(nodes)), *draw(pending_pods(least_pending))]
    return World(tuple(node_group for node_group, _ in made), tuple(nodes), tuple(pods), tuple(budgets))


@st.composite
def idle_worlds(draw: st.DrawFn) -> World:
    """One group with more nodes than its pods need, most of which may leave: several nodes go together."""
    nodes = builders.nodes("g", draw(st.integers(3, 5)), cpu=2000, labels={facts.ZONE: "z0"})
    pods: list[facts.Pod] = []
    for host in nodes:
        for _ in range(draw(st.integers(0, 2))):
            cpu, fields = draw(pick(100, 300, 700)), draw(pod_fields())
            fields["spec"] = {} if draw(pick(True, True, False)) else fields["spec"]
            pods.append(builders.running(f"run-{len(pods)}", host.name, cpu, **fields))
    budgets = tuple(builders.budget(draw(st.integers(1, 3)), f"budget-{app}", app) for app in APPS)
    made = builders.group("g", nodes, draw(st.integers(0, 2)))
    return World((made,), tuple(nodes), (*pods, *draw(pending_pods())), budgets)


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

CHANGES: tuple[Callable[[Settings], Settings], ...] = (
    lambda chosen: builders.choose(chosen, "scale_up", balance_similar_node_groups=True),
    lambda chosen: builders.choose(chosen, "scale_up", enforce_node_group_min_size=True),
    lambda chosen: builders.choose(chosen, "scale_up", salvo_scale_up=True),
    lambda chosen: builders.choose(chosen, "scale_up", expander=("least-waste", "random")),
    lambda chosen: builders.choose(chosen, "scale_down", max_drain_parallelism=3),
    lambda chosen: builders.choose(chosen, "limits", max_nodes_total=6),
    lambda chosen: builders.choose(chosen, "groups", scale_down_utilization_threshold=0.9),
    lambda chosen: replace(chosen, seed=7),
    builders.at_once,
    builders.at_once,
)


def draining_settings() -> st.SearchStrategy[Settings]:
    """Both behaviours, with several nodes drained at once."""

    def change(settings: Settings, parallelism: int) -> Settings:
        settings = builders.choose(builders.at_once(settings), "scale_down", max_drain_parallelism=parallelism)
        return builders.choose(settings, "groups", scale_down_utilization_threshold=0.9)

    return st.builds(change, pick(*builders.BOTH), st.integers(2, 4))


@st.composite
def some_settings(draw: st.DrawFn) -> Settings:
    """Both behaviours, with a few settings changed."""
    settings: Settings = draw(pick(*builders.BOTH))
    for change in draw(st.lists(pick(*CHANGES), max_size=4)):
        settings = change(settings)
    return settings
