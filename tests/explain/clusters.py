"""Random clusters that live for a few loops: buffers, requests, proactive pods, drains, GPUs and volumes in both
behaviors. A number draws the same cluster again.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.engine.drainability import builders
from tests.engine.loop import builders as loop_builders
from tests.engine.loop.builders import LONG_AGO_S, NOW_S
from windlass.engine import taints
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.capacity_apis.capacity_buffer import FAKE_POD_ANNOTATION
from windlass.engine.loop import Decision
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan, well_known
from windlass.engine.model.provisioning import CONSUME_ANNOTATION, BufferPods, PodSet, ProvisioningRequest
from windlass.engine.model.scale_up_status import Quota
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.explain import explain_context
from windlass.selectors import LabelSelector, Operator, Requirement

ZONES = ("z0", "z1")
GPU = "nvidia.com/gpu"
DRIVER = "disk.example.com"
STARTING = facts.Taint("startup-taint.cluster-autoscaler.kubernetes.io/agent", "", "NoSchedule")
TAINT = facts.Taint("dedicated", "batch", "NoSchedule")
TOLERATION = facts.Toleration("dedicated", "Equal", "batch", "NoSchedule")
APPS = ("a", "b", "c")
OWNERS = {app: facts.Owner("apps/v1", "ReplicaSet", app, f"uid-{app}") for app in APPS}
WAITING = facts.StorageClass("fast", DRIVER, waits_for_consumer=True)


@dataclass
class Cluster:
    """What exists, and what is remembered of it."""

    groups: dict[str, node_groups.NodeGroup]
    nodes: dict[str, facts.Node]
    pods: list[facts.Pod]
    stored: list[Any]
    settings: Settings
    requests: dict[str, ProvisioningRequest]
    spares: tuple[BufferPods, ...]
    controllers: dict[tuple[str, str, str], facts.Controller]
    quotas: tuple[Quota, ...]
    budgets: tuple[facts.PodDisruptionBudget, ...]
    refusing: frozenset[str]
    memory: LoopMemory
    now_s: float
    drain_rules: tuple[node_groups.MachineDrainRule, ...] = ()

    def observe(self) -> Observation:
        return Observation(
            cluster_snapshot.build_snapshot(self.nodes.values(), self.pods, stored=self.stored),
            tuple(self.groups.values()),
            budgets=self.budgets,
            controllers=self.controllers,
            requests=tuple(self.requests.values()),
            quotas=self.quotas,
            spares=self.spares,
            machine_drain_rules=self.drain_rules,
        )

    def look(self) -> explain_context.ExplainContext:
        """What the next loop decides, refusals of the provider included."""
        observation = self.observe()
        at = explain_context.evaluate(observation, self.memory, self.settings, self.now_s)
        ordered = {instruction.group for instruction in at.decision.plan if isinstance(instruction, plan.Resize)}
        refused = {group: node_groups.InstanceError("Other", "Refused", "no") for group in ordered & self.refusing}
        if not refused:
            return at
        return explain_context.evaluate(replace(observation, refused=refused), self.memory, self.settings, self.now_s)

    def execute(self, decision: Decision, after_s: float) -> None:
        """Do what was decided; the nodes that were asked for do not come yet."""
        for instruction in decision.plan:
            match instruction:
                case plan.Resize():
                    self.groups[instruction.group] = replace(
                        self.groups[instruction.group], target_size=instruction.to_size
                    )
                case plan.Drain():
                    node = self.nodes[instruction.node]
                    marked = (*node.taints, taints.make_to_be_deleted(self.now_s))
                    self.nodes[instruction.node] = replace(node, taints=marked)
                case plan.SetConditions():
                    self.requests[instruction.name] = replace(
                        self.requests[instruction.name], conditions=instruction.conditions
                    )
                case plan.DeleteRequest():
                    del self.requests[instruction.name]
        self.memory = decision.memory
        self.now_s += after_s


def lives(number: int) -> Iterator[explain_context.ExplainContext]:
    """The loops of one cluster, in their order."""
    draw = random.Random(number)
    cluster = make(draw)
    for _ in range(draw.choice((1, 2, 3))):
        at = cluster.look()
        yield at
        cluster.execute(at.decision, draw.choice((1.0, 10.0, 60.0, 700.0)))


# ── Drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def make(draw: random.Random) -> Cluster:
    groups: dict[str, node_groups.NodeGroup] = {}
    nodes: dict[str, facts.Node] = {}
    for index in range(draw.choice((1, 2, 2, 3))):
        group, members = _group(draw, f"g{index}")
        groups[group.id] = group
        nodes |= {node.name: node for node in members}
    pods = [*_running(draw, list(nodes.values())), *_pending(draw)]
    stored = _store(draw, pods, list(nodes.values()))
    wanted = {item: draw.randint(0, 6) for item in APPS if draw.random() < 0.4}
    cluster = Cluster(
        groups,
        nodes,
        pods,
        stored,
        _settings(draw),
        {request.name: request for request in _requests(draw)},
        tuple(_spares(draw)),
        {
            ("ReplicaSet", "default", app): facts.Controller("ReplicaSet", "default", app, f"uid-{app}", count)
            for app, count in {**dict.fromkeys(APPS, 1), **wanted}.items()
        },
        (Quota("quota", {"cpu": draw.choice((4, 8, 12))}),) if draw.random() < 0.2 else (),
        tuple(loop_builders.budget(draw.randint(0, 2), f"budget-{app}", app) for app in APPS if draw.random() < 0.3),
        frozenset(entry for entry in groups if draw.random() < 0.1),
        LoopMemory(),
        NOW_S,
    )
    _add_unhealthy_pods(draw, cluster)
    _label_pods(draw, cluster)
    _add_drain_rules(draw, cluster)
    return cluster


def _add_drain_rules(draw: random.Random, cluster: Cluster) -> None:
    """Some select Machines of a group, and all of its pods or those of one app."""
    if draw.random() < 0.7:
        return
    cluster.drain_rules = tuple(
        node_groups.MachineDrainRule(
            "capi", name, draw.choice(list(facts.DrainBehavior)), draw.randint(-1, 1), pods=pods
        )
        for name, pods in (
            ("a", (node_groups.DrainedPodSelector(builders.labelled(app=draw.choice(APPS))),)),
            ("b", ()),
        )
        if draw.random() < 0.6
    )
    keys = tuple(machine_drain_rule.key for machine_drain_rule in cluster.drain_rules)
    for id, group in cluster.groups.items():
        why = "not readable" if draw.random() < 0.1 else ""
        named = [
            replace(instance, machine_drain_rules=keys, unreadable_drain_rules=why) for instance in group.instances
        ]
        if draw.random() < 0.6:
            cluster.groups[id] = replace(group, instances=tuple(named))


def _label_pods(draw: random.Random, cluster: Cluster) -> None:
    cluster.pods = [
        replace(pod, drain_behavior=draw.choice(list(facts.DrainBehavior))) if draw.random() < 0.1 else pod
        for pod in cluster.pods
    ]


def _add_unhealthy_pods(draw: random.Random, cluster: Cluster) -> None:
    cluster.pods = [
        replace(pod, health=draw.choice(list(facts.PodHealth))) if pod.node_name and draw.random() < 0.2 else pod
        for pod in cluster.pods
    ]
    cluster.budgets = tuple(
        replace(pod_disruption_budget, allows_unhealthy=draw.random() < 0.5)
        for pod_disruption_budget in cluster.budgets
    )


def _group(draw: random.Random, id: str) -> tuple[node_groups.NodeGroup, list[facts.Node]]:
    cpu, zone, has_gpus = draw.choice((1000, 2000, 4000)), draw.choice(ZONES), draw.random() < 0.3
    labels = {facts.ZONE: zone} | ({well_known.CLUSTER_API_GPU_LABEL: "a100"} if has_gpus else {})
    tainted = (TAINT,) if draw.random() < 0.2 else ()
    has = loop_builders.resources(cpu, 1000, pods=draw.choice((3, 100)), **({GPU: 2} if has_gpus else {}))
    members = []
    for index in range(draw.randint(0, 3)):
        ready = loop_builders.READY if draw.random() < 0.9 else loop_builders.NOT_READY
        there = tuple(item for item in has if item[0] != GPU) if draw.random() < 0.2 else has
        starting = (STARTING,) if draw.random() < 0.1 else ()
        members.append(
            loop_builders.node(
                f"{id}-{index}", cpu, labels=labels, allocatable=there, capacity=has, conditions=ready,
                taints=(*tainted, *starting), created_s=draw.choice((LONG_AGO_S, LONG_AGO_S, NOW_S - 100.0)),
            )
        )  # fmt: skip
    stuck = [node_groups.Instance(f"id://{id}-stuck", "Creating")] if draw.random() < 0.15 else []
    target = len(members) + len(stuck) + draw.choice((0, 0, 0, 1))
    template = loop_builders.node(
        f"{id}-template", cpu, labels=labels, allocatable=has, capacity=has, provider_id="", taints=tainted
    )
    group = loop_builders.group(
        id, members, draw.randint(0, 2), max(target, 1) + draw.randint(0, 4), target, template, stuck,
        zero_or_max=draw.random() < 0.1,
    )  # fmt: skip
    return (group if draw.random() < 0.85 else replace(group, template=None)), members


def _fields(draw: random.Random) -> dict[str, Any]:
    app, spec = draw.choice(APPS), dict[str, Any]()
    own = LabelSelector.of([Requirement("app", Operator.IN, (app,))])
    match draw.choice(("", "", "", "", "zone", "apart", "near", "spread", "tolerant", "gpu", "volume")):
        case "zone":
            spec["node_selector"] = ((facts.ZONE, draw.choice(ZONES)),)
        case "apart":
            key = draw.choice((facts.HOSTNAME, facts.ZONE))
            spec["anti_affinity"] = (facts.PodAffinityTerm(key, own, ("default",)),)
        case "near":
            spec["affinity"] = (facts.PodAffinityTerm(facts.ZONE, own, ("default",)),)
        case "spread":
            spec["spread"] = (facts.SpreadConstraint(draw.choice((facts.ZONE, facts.HOSTNAME)), 1, own),)
        case "tolerant":
            spec["tolerations"] = (TOLERATION,)
        case "gpu":
            return {"labels": {"app": app}, "owner": OWNERS[app], "spec": spec, "gpus": draw.randint(1, 2)}
        case "volume":
            return {"labels": {"app": app}, "owner": OWNERS[app], "spec": spec, "claims": draw.randint(1, 2)}
    return {"labels": {"app": app}, "owner": OWNERS[app], "spec": spec}


def _finish(pod: facts.Pod, gpu_count: int, claims: int) -> facts.Pod:
    """With its GPUs and its volumes."""
    if not gpu_count and not claims:
        return pod
    asked = tuple(sorted((*pod.spec.requests, (GPU, gpu_count)))) if gpu_count else pod.spec.requests
    volumes = tuple(
        facts.Volume(f"v{index}", "persistentVolumeClaim", f"{pod.name}-v{index}") for index in range(claims)
    )
    spec = replace(pod.spec, requests=asked, volumes=volumes)
    return replace(pod, spec=spec, digest=f"{pod.digest} {gpu_count} {volumes}")


def _running(draw: random.Random, nodes: list[facts.Node]) -> Iterator[facts.Pod]:
    number = 0
    for host in nodes:
        has = dict(host.allocatable)
        left, gpus_left = has[facts.CPU], has.get(GPU, 0)
        for _ in range(draw.randint(0, 3)):
            cpu, fields = draw.choice((100, 300, 500, 900)), _fields(draw)
            gpu_count, claims = fields.pop("gpus", 0), fields.pop("claims", 0)
            if cpu > left or gpu_count > gpus_left:
                continue
            left, gpus_left = left - cpu, gpus_left - gpu_count
            match draw.choice((*[""] * 9, "daemon", "stays")):
                case "daemon":
                    fields["owner"] = loop_builders.AGENT
                case "stays":
                    fields["annotations"] = {well_known.SAFE_TO_EVICT_ANNOTATION: "false"}
            yield _finish(loop_builders.running(f"run-{number}", host.name, cpu, **fields), gpu_count, claims)
            number += 1


def _pending(draw: random.Random) -> Iterator[facts.Pod]:
    number = 0
    for _ in range(draw.randint(1, 4)):
        fields, cpu = _fields(draw), draw.choice((100, 400, 700, 1500, 9000))
        gpu_count, claims = fields.pop("gpus", 0), fields.pop("claims", 0)
        age_s = draw.choice((60.0, 60.0, 60.0, 60.0, 0.5))
        match draw.choice(
            (*[""] * 12, "consumer", "consumer", "expendable", "gated", "untried", "nominated", "daemon", "slow")
        ):
            case "consumer":
                fields["annotations"] = {CONSUME_ANNOTATION: draw.choice(("r0", "gone"))}
            case "expendable":
                fields["spec"]["priority"] = -50
            case "gated":
                fields |= {"unschedulable_since_s": None, "is_gated": True}
            case "untried":
                fields |= {"unschedulable_since_s": None}
            case "nominated":
                fields |= {"nominated_node": draw.choice(("g0-0", "g1-0"))}
            case "daemon":
                fields |= {"owner": loop_builders.AGENT}
            case "slow":
                fields |= {"scale_up_delay_s": 3600.0}
        for _ in range(draw.choice((1, 1, 2, 4))):
            yield _finish(loop_builders.pending(f"wait-{number}", cpu, age_s=age_s, **fields), gpu_count, claims)
            number += 1


def _store(draw: random.Random, pods: list[facts.Pod], nodes: list[facts.Node]) -> list[Any]:
    """Volumes of pods, some bound in a zone, and what the drivers of some nodes can attach."""
    limits = {node.name: draw.choice((1, 2, None)) for node in nodes if draw.random() < 0.7}
    stored: list[Any] = [WAITING, *(facts.CSINode(name, ((DRIVER, limit),)) for name, limit in limits.items())]
    for pod in pods:
        for volume in pod.spec.volumes:
            if draw.random() < 0.1:
                continue
            name = f"pv-{volume.claim}" if pod.node_name or draw.random() < 0.5 else ""
            stored.append(
                facts.PersistentVolumeClaim(
                    "default", volume.claim, f"uid-{volume.claim}", storage_class="fast", volume_name=name,
                    request_bytes=1, access_modes=("ReadWriteOnce",), annotations={BOUND: "yes"} if name else {},
                )
            )  # fmt: skip
            if name:
                stored.append(
                    facts.PersistentVolume(
                        name, f"uid-{name}", {facts.ZONE: draw.choice(ZONES)}, capacity_bytes=1,
                        access_modes=("ReadWriteOnce",), storage_class="fast", phase="Bound",
                        claim_namespace="default", claim_name=volume.claim,
                    )
                )  # fmt: skip
    return stored


BOUND = "pv.kubernetes.io/bind-completed"


def _requests(draw: random.Random) -> Iterator[ProvisioningRequest]:
    for index in range(draw.choice((0, 1, 1, 2))):
        name, cpu = f"r{index}", draw.choice((300, 900, 3000))
        owner = facts.Owner("autoscaling.x-k8s.io/v1", "ProvisioningRequest", name, f"uid-{name}")
        spec = facts.PodSpec(requests=loop_builders.resources(cpu))
        pod = facts.Pod(
            "default",
            name,
            spec=spec,
            owner=owner,
            annotations={CONSUME_ANNOTATION: name},
            created_s=NOW_S - 60,
            digest=str(cpu),
        )
        kind = draw.choice(
            (
                provisioning_request_queue.CHECK_CAPACITY_CLASS,
                provisioning_request_queue.ATOMIC_SCALE_UP_CLASS,
            )
        )
        sets = (PodSet("t", draw.randint(1, 4), pod),)
        yield ProvisioningRequest("default", name, f"uid-{name}", kind, sets, created_s=NOW_S - 60, generation=1)


def _spares(draw: random.Random) -> Iterator[BufferPods]:
    for index in range(draw.choice((0, 1, 1, 2))):
        cpu = draw.choice((200, 800, 1800))
        like = loop_builders.pending(f"buffer-{index}", cpu, annotations=dict([FAKE_POD_ANNOTATION]))
        yield BufferPods(like, tuple(f"capacity-buffer-{index}-{item}" for item in range(draw.randint(1, 4))))


FEATURES = (
    ("injection", "capacity_buffer_pod_injection_enabled"),
    ("injection", "enable_proactive_scaleup"),
    ("provisioning_requests", "enable_provisioning_requests"),
)


def _settings(draw: random.Random) -> Settings:
    settings = draw.choice(loop_builders.BOTH)
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("injection", {"pod_injection_limit": 3}),
        ("scale_up", {"max_nodes_per_scaleup": 1}),
        ("scale_up", {"max_nodes_per_scaleup": 2}),
        ("scale_up", {"salvo_scale_up": True}),
        ("scale_up", {"balance_similar_node_groups": True}),
        ("scale_up", {"enforce_node_group_min_size": True}),
        ("scale_up", {"expander": ("least-waste", "random")}),
        ("limits", {"max_nodes_total": draw.randint(1, 8)}),
        ("scale_down", {"max_drain_parallelism": 3}),
        ("scale_down", {"scale_down_enabled": False}),
        ("scale_down", {"scale_down_delay_type_local": True}),
        ("groups", {"scale_down_utilization_threshold": 0.9}),
        ("pods", {"new_pod_scale_up_delay_s": 30.0}),
    )
    for part, field in FEATURES:
        settings = loop_builders.choose(settings, part, **{field: draw.random() < 0.5})
    for _ in range(draw.randint(0, 5)):
        part, fields = draw.choice(changes)
        settings = loop_builders.choose(settings, part, **fields)
    if draw.random() < 0.4:
        settings = loop_builders.at_once(settings)
    return replace(settings, seed=draw.randint(0, 3))
