"""Small worlds with ProvisioningRequests in them: nodes of 4 cores, requests of pods with one or more."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.loop import Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.provisioning import CONSUME_ANNOTATION, PodSet, ProvisioningRequest
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot

NOW_S = 1_000_000.0
CORES = 4
SERVED = Settings(provisioning_requests=ProvisioningRequestSettings(enable_provisioning_requests=True))
RESOURCES = (("cpu", 1000 * CORES), ("memory", 2**34), ("pods", 110))


def request(
    name: str,
    count: int = 1,
    *,
    cores: int = 1,
    kind: str = provisioning_request_queue.CHECK_CAPACITY_CLASS,
    **more: object,
) -> ProvisioningRequest:
    pod = make_pod(name, cores, **({"selector": more.pop("selector")} if "selector" in more else {}))  # type: ignore[arg-type]
    made = ProvisioningRequest(
        "ns", name, f"uid-{name}", kind, (PodSet("t", count, pod),), created_s=NOW_S - 60, generation=1
    )
    return replace(made, **more)  # type: ignore[arg-type]


def make_pod(owner: str, cores: int, selector: str = "") -> facts.Pod:
    spec = facts.PodSpec(
        requests=(("cpu", 1000 * cores), ("memory", 1)), node_selector=(("kind", selector),) if selector else ()
    )
    belongs = facts.Owner("autoscaling.x-k8s.io/v1", "ProvisioningRequest", owner, f"uid-{owner}")
    return facts.Pod(
        "ns",
        owner,
        spec=spec,
        owner=belongs,
        annotations={CONSUME_ANNOTATION: owner},
        created_s=NOW_S - 60,
        digest=f"{cores}{selector}",
    )


@dataclass
class World:
    """Groups of nodes, and requests whose conditions are written as decided."""

    requests: dict[str, ProvisioningRequest]
    sizes: dict[str, int] = field(default_factory=lambda: {"a": 2})
    most: Mapping[str, int] = field(default_factory=dict)
    settings: Settings = SERVED
    pods: list[facts.Pod] = field(default_factory=list)
    memory: LoopMemory = field(default_factory=LoopMemory)
    now_s: float = NOW_S
    refusing: frozenset[str] = frozenset()
    controllers: dict[tuple[str, str, str], facts.Controller] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = dict(self.sizes)

    def observe(self) -> Observation:
        nodes = [self._node(group, number) for group, count in self.nodes.items() for number in range(count)]
        groups = tuple(
            node_groups.NodeGroup(
                group,
                0,
                self.most.get(group, 10),
                size,
                tuple(node_groups.Instance(f"x://{group}/{number}") for number in range(self.nodes[group])),
                replace(self._node(group, 0), name=f"{group}-template", provider_id=""),
            )
            for group, size in self.sizes.items()
        )
        return Observation(
            cluster_snapshot.build_snapshot(nodes, self.pods),
            groups,
            controllers=self.controllers,
            requests=tuple(self.requests.values()),
        )

    def _node(self, group: str, number: int) -> facts.Node:
        ready = facts.Condition("Ready", "True", 0.0)
        name = f"{group}-{number}"
        return facts.Node(
            name, name, {"kind": group, facts.HOSTNAME: name}, allocatable=RESOURCES, capacity=RESOURCES,
            provider_id=f"x://{group}/{number}", conditions=(ready,),
        )  # fmt: skip

    def loop(self, after_s: float = 10.0) -> Decision:
        """One loop, and what it orders."""
        self.now_s += after_s
        observation = self.observe()
        decision = decide(observation, self.memory, self.settings, self.now_s)
        raised = {
            instruction.group: instruction for instruction in decision.plan if isinstance(instruction, plan.Resize)
        }
        refused = {group: node_groups.InstanceError("Other", "no") for group in raised if group in self.refusing}
        for group, order in raised.items():
            if group not in refused:
                self.sizes[group] = order.to_size
        if refused:
            decision = decide(replace(observation, refused=refused), self.memory, self.settings, self.now_s)
        for one in decision.plan:
            match one:
                case plan.TakeBack():
                    self.sizes[one.group] -= one.by
                case plan.SetConditions():
                    self.requests[one.name] = replace(self.requests[one.name], conditions=one.conditions)
                case plan.DeleteRequest():
                    del self.requests[one.name]
        self.memory = decision.memory
        return decision

    def come(self) -> None:
        """Nodes that were asked for are there."""
        self.nodes = dict(self.sizes)

    def said(self, name: str) -> dict[str, tuple[str, str]]:
        return {condition.type: (condition.status, condition.reason) for condition in self.requests[name].conditions}


def make(*found: ProvisioningRequest, **more: object) -> World:
    return World({provisioning_request.name: provisioning_request for provisioning_request in found}, **more)  # type: ignore[arg-type]


ACCEPTED = {provisioning_request_queue.ACCEPTED: ("True", "Accepted")}
FOUND = {**ACCEPTED, provisioning_request_queue.PROVISIONED: ("True", "CapacityIsFound")}
ORDERED = {**ACCEPTED, provisioning_request_queue.PROVISIONED: ("True", "CapacityIsProvisioned")}
NOT_FOUND = {**ACCEPTED, provisioning_request_queue.PROVISIONED: ("False", "CapacityIsNotFound")}
