"""Small clusters to decide on: groups with their nodes, pods that run and pods that wait."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.engine import loop, loop_memory
from windlass.engine.model import facts, node_groups, plan, scale_up_status
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.selectors import LabelSelector, Operator, Requirement

NOW_S = 1_000_000.0
LONG_AGO_S = NOW_S - 86_400.0
PEER, WINDLASS = Settings.cluster_autoscaler(), Settings()
BOTH = (PEER, WINDLASS)
APP = facts.Owner("apps/v1", "ReplicaSet", "app", "uid-app")
AGENT = facts.Owner("apps/v1", "DaemonSet", "agent", "uid-agent")
READY = (facts.Condition("Ready", "True", LONG_AGO_S),)
NOT_READY = (facts.Condition("Ready", "False", LONG_AGO_S),)
FULL_CPU = 4000


def resources(cpu: int, memory: int = 0, **others: int) -> facts.Resources:
    given = {facts.CPU: cpu, facts.MEMORY: memory, **others}
    return tuple(sorted((name, amount) for name, amount in given.items() if amount))


def node(name: str, cpu: int = FULL_CPU, memory: int = 1000, **changes: Any) -> facts.Node:
    has = resources(cpu, memory, pods=100)
    labels = {facts.HOSTNAME: name, **changes.pop("labels", {})}
    fields: dict[str, Any] = {
        "allocatable": has,
        "capacity": has,
        "conditions": READY,
        "created_s": LONG_AGO_S,
        "provider_id": f"id://{name}",
    }
    return facts.Node(name, f"uid-{name}", labels, **(fields | changes))


def nodes(group: str, count: int, **changes: Any) -> list[facts.Node]:
    return [node(f"{group}-{number}", **changes) for number in range(count)]


def _pod(name: str, cpu: int, memory: int, spec: Mapping[str, Any], fields: Mapping[str, Any]) -> facts.Pod:
    made = facts.PodSpec(requests=resources(cpu, memory), **spec)
    labels = {"app": "app", **fields.get("labels", {})}
    given = {"namespace": "default", "owner": APP, "digest": str(hash(made)), **fields, "labels": labels}
    return facts.Pod(name=name, uid=f"uid-{name}", spec=made, **given)


def running(name: str, on: str, cpu: int = 100, memory: int = 0, **fields: Any) -> facts.Pod:
    """A pod on a node. `spec` gives fields of its spec, others are its own."""
    given = {"phase": "Running", "created_s": LONG_AGO_S, **fields, "node_name": on}
    return _pod(name, cpu, memory, given.pop("spec", {}), given)


def pending(name: str, cpu: int = 100, memory: int = 0, age_s: float = 60.0, **fields: Any) -> facts.Pod:
    """A pod that the scheduler found no place for."""
    given = {"created_s": NOW_S - age_s, "unschedulable_since_s": NOW_S - age_s, **fields}
    return _pod(name, cpu, memory, given.pop("spec", {}), given)


def group(
    id: str,
    members: Sequence[facts.Node] = (),
    min_size: int = 0,
    max_size: int = 10,
    target: int | None = None,
    template: facts.Node | None = None,
    instances: Sequence[node_groups.Instance] = (),
    **options: Any,
) -> node_groups.NodeGroup:
    """A group of these nodes. Its target size is what it has, and its template like a plain node, unless given."""
    every = (*(node_groups.Instance(member.provider_id) for member in members), *instances)
    return node_groups.NodeGroup(
        id,
        min_size,
        max_size,
        len(every) if target is None else target,
        every,
        node(f"{id}-template", provider_id="") if template is None else template,
        node_groups.GroupOptions(**options),
    )


def budget(allowed: int, name: str = "budget", app: str = "app") -> facts.PodDisruptionBudget:
    selector = LabelSelector.of([Requirement("app", Operator.IN, (app,))])
    return facts.PodDisruptionBudget("default", name, selector, allowed)


def observe(
    groups: Iterable[node_groups.NodeGroup],
    found_nodes: Iterable[facts.Node] = (),
    pods: Iterable[facts.Pod] = (),
    **more: Any,
) -> Observation:
    return Observation(cluster_snapshot.build_snapshot(found_nodes, pods), tuple(groups), **more)


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────


def choose(settings: Settings, part: str, **changes: Any) -> Settings:
    """The settings with some fields of one of their parts changed."""
    return replace(settings, **{part: replace(getattr(settings, part), **changes)})


def at_once(settings: Settings) -> Settings:
    """Unneeded nodes may go in the loop that finds them."""
    settings = choose(settings, "groups", scale_down_unneeded_time_s=0.0, scale_down_unready_time_s=0.0)
    return choose(settings, "scale_down", scale_down_delay_after_add_s=0.0)


# ── Deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────


def decide_once(
    observation: Observation,
    settings: Settings = WINDLASS,
    before: loop_memory.LoopMemory | None = None,
    now_s: float = NOW_S,
) -> loop.Decision:
    return loop.decide(observation, loop_memory.LoopMemory() if before is None else before, settings, now_s)


def decide_at(observation: Observation, settings: Settings, *times_s: float) -> loop.Decision:
    """The last of several decisions on the same observation, each with what the one before it remembered."""
    decision = decide_once(observation, settings, now_s=times_s[0])
    for now_s in times_s[1:]:
        decision = decide_once(observation, settings, decision.memory, now_s)
    return decision


def sizes(decision: loop.Decision) -> dict[str, int]:
    """What groups are raised to."""
    return {
        instruction.group: instruction.to_size for instruction in decision.plan if isinstance(instruction, plan.Resize)
    }


def drained(decision: loop.Decision) -> list[str]:
    return [instruction.node for instruction in decision.plan if isinstance(instruction, plan.Drain)]


def result(decision: loop.Decision) -> scale_up_status.ScaleUpResult:
    return decision.story.scale_ups[0].result


def reasons(decision: loop.Decision) -> dict[str, UnremovableReason]:
    """Why nodes are kept, by name."""
    story = decision.story.scale_down
    kept = [*(story.look.kept if story.look else ()), *(story.choice.kept if story.choice else ())]
    return {item.node_name: item.reason for item in kept}
