"""Counter increments of a decision and of its plan result, and node removal latencies."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from windlass import errors
from windlass.engine import drain_loop, loop
from windlass.engine.cluster_state import readiness
from windlass.engine.model import facts, node_groups, plan, well_known
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import Observation
from windlass.engine.scale_down import unneeded
from windlass.engine.scale_down.utilization import gpu_resource
from windlass.explain.decision_view import DecisionView
from windlass.kube import errors as kube_errors
from windlass.observability import gauge_values, metric_definitions, object_events
from windlass.observability.metric_definitions import CA_PREFIX
from windlass.providers import base

NO_DELAY = "none"

_WAITING = frozenset({UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, UnremovableReason.NOT_UNREADY_LONG_ENOUGH})


@dataclass(frozen=True, slots=True)
class UnneededNode:
    """An unneeded node."""

    since_s: float
    wait_s: float
    """Seconds that it must be unneeded before it is eligible for removal."""
    delay: str = NO_DELAY
    """The last reason for a delay beyond that."""


TrackedNodes = Mapping[str, UnneededNode]
"""Tracked nodes by name."""


@dataclass(frozen=True, slots=True)
class RemovalLatency:
    """Seconds between a node's becoming eligible for removal and its removal, or its being needed again."""

    deleted: bool
    delay: str
    seconds: float

    @property
    def labels(self) -> tuple[str, str]:
        return ("true" if self.deleted else "false", self.delay)


def track_removals(
    before: TrackedNodes, view: DecisionView, settings: Settings, now_s: float
) -> tuple[TrackedNodes, list[RemovalLatency]]:
    """Return the unneeded nodes, and the latencies of those that are no longer. A loop without a simulation changes
    nothing.
    """
    if view.evaluation is None:
        return before, []
    table = view.observation.snapshot.nodes
    now: dict[str, UnneededNode] = {}
    for name, since_s in view.decision.memory.durable.scale_down.since.items():
        group = view.group_of.get(name)
        if group is not None and name in table.rows:
            wait_s = unneeded.find_unneeded_time_s(table.facts[table.rows[name]], for_group(settings, group.options))
            now[name] = replace(before.get(name, UnneededNode(since_s, wait_s)), wait_s=wait_s)
    for name, kept in view.postponed.items():
        if name in now and kept.reason not in _WAITING:
            now[name] = replace(now[name], delay=str(kept.reason))
    deleted = {drain.node for drain in view.deletions}
    latencies = [
        RemovalLatency(name in deleted, node.delay, now_s - node.since_s - node.wait_s)
        for name, node in {**before, **now}.items()
        if name in deleted or name not in now
    ]
    tracked = {name: node for name, node in now.items() if name not in deleted}
    return tracked, [latency for latency in latencies if latency.seconds > 0]


CLOUD_PROVIDER_ERROR = "cloudProviderError"

_LIMITS = {facts.CPU: "CpuResourceLimit", facts.MEMORY: "MemoryResourceLimit"}

_RESOURCES = re.compile(r"resources: (.*)$")

_GENERIC, _NOT_LISTED, _MISSING, _UNEXPECTED = "generic", "not-listed", "missing-gpu", "unexpected-label"


@dataclass(frozen=True, slots=True)
class PlanObjects:
    """Context of a plan's objects, for counting results."""

    groups: Mapping[str, node_groups.NodeGroup] = field(default_factory=dict)
    nodes: Mapping[str, facts.Node] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)
    """The `dra_drivers` label by node group, where it is not empty."""
    node_drivers: Mapping[str, str] = field(default_factory=dict)
    """The `dra_drivers` label by node, where it is not empty."""
    agents: frozenset[plan.Instruction] = frozenset()
    """Evictions of DaemonSet pods, which are not counted."""


def find_plan_objects(observation: Observation, decision: loop.Decision | drain_loop.DrainLoopResult) -> PlanObjects:
    """Look up the objects that a plan names."""
    inventory = observation.snapshot.devices.inventory
    slices = {group.id: gauge_values.expected_slices(group, decision.memory) for group in observation.groups}
    nodes, pods = observation.snapshot.nodes, observation.snapshot.pods
    names = [
        instruction.node
        for instruction in decision.plan
        if isinstance(instruction, plan.DeleteNode) and instruction.node in nodes.rows
    ]
    evictions = [instruction for instruction in decision.plan if isinstance(instruction, plan.Evict)]
    rows = [(evict, pods.rows.get(evict.uid or f"{evict.namespace}/{evict.name}")) for evict in evictions]
    return PlanObjects(
        {group.id: group for group in observation.groups},
        {name: nodes.facts[nodes.rows[name]] for name in names},
        {
            group: gauge_values.driver_label(resource_slices)
            for group, resource_slices in slices.items()
            if resource_slices
        },
        {name: gauge_values.driver_label(inventory.slices_of_node(name)) for name in names},
        frozenset(
            evict for evict, row in rows if row is not None and well_known.is_daemonset(observation.snapshot.pod(row))
        ),
    )


def error_type(error: BaseException) -> str:
    """Return the type under which a loop's failure is counted: that of its cause, if it has one."""
    match error:
        case kube_errors.KubeError() | TimeoutError():
            return "apiCallError"
        case base.ProviderError():
            return CLOUD_PROVIDER_ERROR
        case errors.InvalidInput():
            return "configurationError"
        case errors.WindlassError(__cause__=BaseException() as cause):
            return error_type(cause)
        case _:
            return "internalError"


# ── Decisions and drains ─────────────────────────────────────────────────────────────────────────────────────────


def count_decision(view: DecisionView, objects: PlanObjects) -> Iterator[metric_definitions.CounterIncrement]:
    """Count failed scale-ups, and limits that were reached."""
    for failure in view.record.health.failures:
        yield from _count_failure(failure.error.code, failure.nodes, failure.group, objects)
    for direction, resource in _limits_reached(view):
        yield metric_definitions.CounterIncrement(
            f"{CA_PREFIX}skipped_scale_events_count", (direction, _LIMITS[resource])
        )


def count_opinions(observation: Observation) -> Iterator[metric_definitions.CounterIncrement]:
    """Count the responses of the gRPC expander."""
    for opinion in observation.opinions:
        yield metric_definitions.CounterIncrement(
            metric_definitions.EXPANDER_ANSWERS.name, (opinion.effect.value.replace(" ", "_"),)
        )


def _count_failure(
    reason: str, nodes: int, group_id: str, objects: PlanObjects
) -> Iterator[metric_definitions.CounterIncrement]:
    group = objects.groups.get(group_id)
    gpu = describe_gpu(group.template, group) if group is not None and group.template is not None else ("", "")
    yield metric_definitions.CounterIncrement(
        f"{CA_PREFIX}failed_scale_ups_total", (reason, *gpu, objects.drivers.get(group_id, ""))
    )
    # Nodes removed by other clients are not failed creations; counters never decrease.
    yield metric_definitions.CounterIncrement(f"{CA_PREFIX}failed_node_creations_total", (reason,), max(nodes, 0))
    if gpu[1]:
        yield metric_definitions.CounterIncrement(f"{CA_PREFIX}failed_gpu_scale_ups_total", (reason, *gpu))


def _limits_reached(view: DecisionView) -> Iterator[tuple[str, str]]:
    """Yield (direction, resource) for each group or node that a limit blocked."""
    for proposal in view.record.scale_ups:
        for reasons in proposal.skipped.values():
            resources = {name for reason in reasons for name in _read_resources(reason)}
            yield from (("up", name) for name in sorted(resources) if name in _LIMITS)
    for kept in view.postponed.values():
        resources = {name for exceeded in kept.exceeded for name in exceeded.resources}
        yield from (("down", name) for name in sorted(resources) if name in _LIMITS)


def _read_resources(reason: str) -> list[str]:
    match = _RESOURCES.search(reason)
    return match[1].split(", ") if match else []


def count_advance(
    advanced: drain_loop.DrainLoopResult, before: Mapping[str, StartedDrain]
) -> Iterator[metric_definitions.CounterIncrement]:
    """Count pods that could not be evicted."""
    for _, failure, _ in object_events.find_failed_drains(advanced, before):
        pods = object_events.find_unevicted_pods(failure)
        if pods:
            yield metric_definitions.CounterIncrement(f"{CA_PREFIX}evicted_pods_total", ("failed",), len(pods))


def observe_estimates(decision: loop.Decision) -> Iterator[tuple[tuple[str, str, str], int]]:
    """Return (instance type, cpus, namespaces) and the number of pod equivalence groups of each estimate."""
    for proposal in decision.story.scale_ups:
        if proposal.choice is None:
            continue
        templates = decision.memory.volatile.templates
        options = {option.group: option.template for _, kept in proposal.choice.steps for option in kept}
        for group in sorted({group for alike in proposal.considered for group in alike.accepted}):
            together = [alike for alike in proposal.considered if group in alike.accepted]
            node = options.get(group) or (templates[group].node if group in templates else None)
            labels = {} if node is None else node.labels
            cpus = "0" if node is None else _format_cpu(dict(node.capacity).get(facts.CPU, 0))
            namespaces = _estimate_bucket(len({alike.pod.namespace for alike in together}))
            yield (labels.get("node.kubernetes.io/instance-type", ""), cpus, namespaces), len(together)


def _format_cpu(millicpu: int) -> str:
    return f"{millicpu}m" if millicpu % 1000 else str(millicpu // 1000)


def _estimate_bucket(namespaces: int) -> str:
    if namespaces <= 5:
        return str(namespaces)
    return "6-10" if namespaces <= 10 else "11+"


# ── Plan results ─────────────────────────────────────────────────────────────────────────────────────────────────


def count_outcome(
    outcome: PlanResult,
    objects: PlanObjects,
    drains: Mapping[str, StartedDrain],
    unregistered: Iterable[plan.Instruction],
) -> Iterator[metric_definitions.CounterIncrement]:
    """Count executed and rejected instructions."""
    removals = frozenset(unregistered)
    for instruction in outcome.done:
        yield _count_instruction(instruction, "done")
        yield from _count_done(instruction, objects, drains, removals)
    for instruction in outcome.failed:
        yield _count_instruction(instruction, "failed")
        if isinstance(instruction, plan.Resize):
            error = outcome.refused.get(instruction.group)
            reason = CLOUD_PROVIDER_ERROR if error is None else error.code
            yield from _count_failure(reason, instruction.to_size - instruction.from_size, instruction.group, objects)


def _count_instruction(instruction: plan.Instruction, outcome: str) -> metric_definitions.CounterIncrement:
    return metric_definitions.CounterIncrement(
        metric_definitions.INSTRUCTIONS.name, (type(instruction).__name__, outcome)
    )


def _count_done(
    instruction: plan.Instruction,
    objects: PlanObjects,
    drains: Mapping[str, StartedDrain],
    removals: frozenset[plan.Instruction],
) -> Iterator[metric_definitions.CounterIncrement]:
    match instruction:
        case plan.Resize(group, from_size, to_size):
            node_group = objects.groups.get(group)
            has_template = node_group is not None and node_group.template is not None
            gpu = describe_gpu(node_group.template, node_group) if node_group is not None and has_template else ("", "")
            drivers = objects.drivers.get(group, "")
            yield metric_definitions.CounterIncrement(
                f"{CA_PREFIX}scaled_up_nodes_total", (*gpu, drivers), to_size - from_size
            )
            if gpu[1]:
                yield metric_definitions.CounterIncrement(
                    f"{CA_PREFIX}scaled_up_gpu_nodes_total", gpu, to_size - from_size
                )
        case plan.DeleteInstances(provider_ids=instances) if instruction in removals:
            yield metric_definitions.CounterIncrement(
                f"{CA_PREFIX}old_unregistered_nodes_removed_count", (), len(instances)
            )
        case plan.Evict() if instruction not in objects.agents:
            yield metric_definitions.CounterIncrement(f"{CA_PREFIX}evicted_pods_total", ("succeeded",))
        case plan.DeleteNode(node, group):
            fact, drain = objects.nodes.get(node), drains.get(node)
            gpu = ("", "") if fact is None else describe_gpu(fact, objects.groups.get(group))
            reason = _removal_reason(fact, drain)
            yield metric_definitions.CounterIncrement(
                f"{CA_PREFIX}scaled_down_nodes_total", (reason, *gpu, objects.node_drivers.get(node, ""))
            )
            if gpu[1]:
                yield metric_definitions.CounterIncrement(f"{CA_PREFIX}scaled_down_gpu_nodes_total", (reason, *gpu))


def _removal_reason(node: facts.Node | None, drain: StartedDrain | None) -> str:
    if node is None or not readiness.assess_node(node).is_ready:
        return "unready"
    return "empty" if drain is not None and drain.is_empty else "underutilized"


def describe_gpu(node: facts.Node | None, group: node_groups.NodeGroup | None) -> tuple[str, str]:
    """Return (resource, type) of a node's GPUs; both empty if it has none.

    Types are arbitrary label values, so they are classified by whether the GPUs are allocatable.
    """
    resource = None if node is None else gpu_resource(node, well_known.CLUSTER_API_GPU_LABEL)
    if node is None or resource is None:
        return "", ""
    shown = dict(node.capacity)
    if not node.labels.get(well_known.CLUSTER_API_GPU_LABEL) and shown.get(resource, 0):
        return resource, _GENERIC
    if resource in shown:
        return resource, _NOT_LISTED
    template = group.template if group is not None else None
    return resource, _MISSING if template is not None and resource in dict(template.capacity) else _UNEXPECTED
