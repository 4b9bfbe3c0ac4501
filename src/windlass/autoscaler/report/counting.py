"""Counting: by how much counters grow, as values."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass import errors
from windlass.autoscaler.act.outcome import Outcome
from windlass.autoscaler.report import dra, drain_events, families
from windlass.autoscaler.report.families import PEER
from windlass.engine import advance, decide, facts, gpus, plan, pod_traits, readiness
from windlass.engine.memory import DrainBegun
from windlass.engine.observation import Observation
from windlass.engine.scale_down.utilization import gpu_resource
from windlass.engine.story import Story
from windlass.kube import errors as kube_errors
from windlass.providers import base

CLOUD_PROVIDER_ERROR = "cloudProviderError"
_LIMITS = {facts.CPU: "CpuResourceLimit", facts.MEMORY: "MemoryResourceLimit"}
_RESOURCES = re.compile(r"resources: (.*)$")
_GENERIC, _NOT_LISTED, _MISSING, _UNEXPECTED = "generic", "not-listed", "missing-gpu", "unexpected-label"


@dataclass(frozen=True, slots=True)
class Count:
    """A counter grows."""

    name: str
    labels: tuple[str, ...] = ()
    by: float = 1.0


@dataclass(frozen=True, slots=True)
class Known:
    """What must be known of a plan's objects to count what became of them."""

    groups: Mapping[str, facts.NodeGroup] = field(default_factory=dict)
    nodes: Mapping[str, facts.Node] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)
    """The `dra_drivers` label by node group, where it is not empty."""
    node_drivers: Mapping[str, str] = field(default_factory=dict)
    """The same by node."""
    agents: frozenset[plan.Instruction] = frozenset()
    """Evictions of DaemonSets' pods, which do not count."""


def know(seen: Observation, decision: decide.Decision | advance.Advanced) -> Known:
    """Look up what a plan names."""
    wanted, stock = decision.plan, seen.snapshot.devices.stock
    slices = {group.id: dra.find_slices(group, decision.memory) for group in seen.groups}
    nodes, pods = seen.snapshot.nodes, seen.snapshot.pods
    names = [one.node for one in wanted if isinstance(one, plan.DeleteNode) and one.node in nodes.rows]
    evictions = [one for one in wanted if isinstance(one, plan.Evict)]
    rows = [(one, pods.rows.get(one.uid or f"{one.namespace}/{one.name}")) for one in evictions]
    return Known(
        {group.id: group for group in seen.groups},
        {name: nodes.facts[nodes.rows[name]] for name in names},
        {group: dra.name_drivers(found) for group, found in slices.items() if found},
        {name: dra.name_drivers(stock.local(name)) for name in names},
        frozenset(one for one, row in rows if row is not None and pod_traits.is_daemonset(seen.snapshot.pod(row))),
    )


def type_of(error: BaseException) -> str:
    """Under which type a loop's failure counts: that of its cause, as where memory cannot be written."""
    match error:
        case kube_errors.KubeError() | TimeoutError():
            return "apiCallError"
        case base.Refused():
            return CLOUD_PROVIDER_ERROR
        case errors.InvalidInput():
            return "configurationError"
        case errors.WindlassError(__cause__=BaseException() as cause):
            return type_of(cause)
        case _:
            return "internalError"


# ── A decision, and drains ───────────────────────────────────────────────────────────────────────────────────────


def count_decision(decision: decide.Decision, known: Known) -> Iterator[Count]:
    """Scale-ups that turned out to have failed, and limits that stood in the way."""
    for failure in decision.story.health.failures:
        yield from _fail(failure.error.code, failure.nodes, failure.group, known)
    for direction, resource in _find_limits(decision.story):
        yield Count(f"{PEER}skipped_scale_events_count", (direction, _LIMITS[resource]))


def count_opinions(seen: Observation) -> Iterator[Count]:
    """What the user's own expander answered."""
    for opinion in seen.opinions:
        yield Count(families.EXPANDER_ANSWERS.name, (opinion.worth.value.replace(" ", "_"),))


def _fail(reason: str, nodes: int, group_id: str, known: Known) -> Iterator[Count]:
    group = known.groups.get(group_id)
    gpu = describe_gpu(group.template, group) if group is not None and group.template is not None else ("", "")
    yield Count(f"{PEER}failed_scale_ups_total", (reason, *gpu, known.drivers.get(group_id, "")))
    # Where others took more away meanwhile than was asked for here, no node failed to come; counters never go down.
    yield Count(f"{PEER}failed_node_creations_total", (reason,), max(nodes, 0))
    if gpu[1]:
        yield Count(f"{PEER}failed_gpu_scale_ups_total", (reason, *gpu))


def _find_limits(story: Story) -> Iterator[tuple[str, str]]:
    """(direction, resource), once for each group or node that a limit kept."""
    for proposal in story.scale_ups:
        for reasons in proposal.skipped.values():
            found = {name for reason in reasons for name in _read_resources(reason)}
            yield from (("up", name) for name in sorted(found) if name in _LIMITS)
    for kept in story.scale_down.choice.kept if story.scale_down.choice is not None else ():
        found = {name for exceeded in kept.exceeded for name in exceeded.resources}
        yield from (("down", name) for name in sorted(found) if name in _LIMITS)


def _read_resources(reason: str) -> list[str]:
    match = _RESOURCES.search(reason)
    return match[1].split(", ") if match else []


def count_advance(advanced: advance.Advanced, before: Mapping[str, DrainBegun]) -> Iterator[Count]:
    """Pods that would not leave."""
    for _, failure, _ in drain_events.find_failed(advanced, before):
        pods = drain_events.find_unevicted(failure)
        if pods:
            yield Count(f"{PEER}evicted_pods_total", ("failed",), len(pods))


def observe_estimates(decision: decide.Decision) -> Iterator[tuple[tuple[str, str, str], int]]:
    """(instance type, cpus, namespaces) and the number of kinds of pods, for each estimate that was made."""
    for proposal in decision.story.scale_ups:
        if proposal.choice is None:
            continue
        templates = decision.memory.volatile.templates
        options = {option.group: option.template for _, kept in proposal.choice.steps for option in kept}
        for group in sorted({group for alike in proposal.considered for group in alike.accepted}):
            together = [alike for alike in proposal.considered if group in alike.accepted]
            node = options.get(group) or (templates[group].node if group in templates else None)
            labels = {} if node is None else node.labels
            cpus = "0" if node is None else _spell_cpu(dict(node.capacity).get(facts.CPU, 0))
            namespaces = _bucket(len({alike.pod.namespace for alike in together}))
            yield (labels.get("node.kubernetes.io/instance-type", ""), cpus, namespaces), len(together)


def _spell_cpu(millicpu: int) -> str:
    return f"{millicpu}m" if millicpu % 1000 else str(millicpu // 1000)


def _bucket(namespaces: int) -> str:
    if namespaces <= 5:
        return str(namespaces)
    return "6-10" if namespaces <= 10 else "11+"


# ── What became of a plan ────────────────────────────────────────────────────────────────────────────────────────


def count_outcome(
    outcome: Outcome, known: Known, drains: Mapping[str, DrainBegun], unregistered: Iterable[plan.Instruction]
) -> Iterator[Count]:
    """What was done, and what was refused."""
    removals = frozenset(unregistered)
    for one in outcome.done:
        yield _count_instruction(one, "done")
        yield from _count_done(one, known, drains, removals)
    for one in outcome.failed:
        yield _count_instruction(one, "failed")
        if isinstance(one, plan.Resize):
            error = outcome.refused.get(one.group)
            reason = CLOUD_PROVIDER_ERROR if error is None else error.code
            yield from _fail(reason, one.to_size - one.from_size, one.group, known)


def _count_instruction(one: plan.Instruction, outcome: str) -> Count:
    return Count(families.INSTRUCTIONS.name, (type(one).__name__, outcome))


def _count_done(
    one: plan.Instruction, known: Known, drains: Mapping[str, DrainBegun], removals: frozenset[plan.Instruction]
) -> Iterator[Count]:
    match one:
        case plan.Resize(group, from_size, to_size):
            found = known.groups.get(group)
            has_template = found is not None and found.template is not None
            gpu = describe_gpu(found.template, found) if found is not None and has_template else ("", "")
            drivers = known.drivers.get(group, "")
            yield Count(f"{PEER}scaled_up_nodes_total", (*gpu, drivers), to_size - from_size)
            if gpu[1]:
                yield Count(f"{PEER}scaled_up_gpu_nodes_total", gpu, to_size - from_size)
        case plan.DeleteInstances(provider_ids=instances) if one in removals:
            yield Count(f"{PEER}old_unregistered_nodes_removed_count", (), len(instances))
        case plan.Evict() if one not in known.agents:
            yield Count(f"{PEER}evicted_pods_total", ("succeeded",))
        case plan.DeleteNode(node, group):
            fact, drain = known.nodes.get(node), drains.get(node)
            gpu = ("", "") if fact is None else describe_gpu(fact, known.groups.get(group))
            reason = _why_removed(fact, drain)
            yield Count(f"{PEER}scaled_down_nodes_total", (reason, *gpu, known.node_drivers.get(node, "")))
            if gpu[1]:
                yield Count(f"{PEER}scaled_down_gpu_nodes_total", (reason, *gpu))


def _why_removed(node: facts.Node | None, drain: DrainBegun | None) -> str:
    if node is None or not readiness.judge(node).is_ready:
        return "unready"
    return "empty" if drain is not None and drain.is_empty else "underutilized"


def describe_gpu(node: facts.Node | None, group: facts.NodeGroup | None) -> tuple[str, str]:
    """(resource, type) of a node's GPUs; both empty where it has none.

    Types are the user's own words here, which nobody has listed: they are told apart by whether the GPUs show.
    """
    resource = None if node is None else gpu_resource(node, gpus.CLUSTER_API_LABEL)
    if node is None or resource is None:
        return "", ""
    shown = dict(node.capacity)
    if not node.labels.get(gpus.CLUSTER_API_LABEL) and shown.get(resource, 0):
        return resource, _GENERIC
    if resource in shown:
        return resource, _NOT_LISTED
    template = group.template if group is not None else None
    return resource, _MISSING if template is not None and resource in dict(template.capacity) else _UNEXPECTED
