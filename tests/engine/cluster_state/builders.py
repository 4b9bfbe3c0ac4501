"""Clusters for the tests of health: groups with nodes in chosen states, and instances without nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from windlass.engine.cluster_state import health, remediation, scale_requests
from windlass.engine.model import cluster_health, decision_record, facts, node_groups, settings

NOW_S = 100_000.0
LONG_AGO_S = NOW_S - 86_400.0
PROVISION_S = settings.GroupDefaults().max_node_provision_time_s
PEER = settings.Settings.cluster_autoscaler()
WINDLASS = settings.Settings()
STOCKOUT = node_groups.InstanceError("OutOfResources", "STOCKOUT", "no machines left")


def condition(kind: str, status: str, since_s: float = LONG_AGO_S, reason: str = "") -> facts.Condition:
    return facts.Condition(kind, status, since_s, reason)


def node(name: str, *conditions: facts.Condition, created_s: float = LONG_AGO_S, **more: object) -> facts.Node:
    """A node; ready unless conditions are given."""
    given = conditions or (condition("Ready", "True"),)
    return facts.Node(name, provider_id=f"id://{name}", created_s=created_s, conditions=given, **more)  # type: ignore[arg-type]


def unready(name: str, created_s: float = LONG_AGO_S) -> facts.Node:
    return node(name, condition("Ready", "False"), created_s=created_s)


def nodes(group: str, count: int) -> list[facts.Node]:
    """Ready nodes, for which `group` must not have others of the same numbers."""
    return [node(f"{group}-{number}") for number in range(count)]


def stuck(group: str, count: int) -> list[node_groups.Instance]:
    """Instances for which no node registers."""
    return [node_groups.Instance(f"id://{group}-stuck-{number}", "Creating") for number in range(count)]


def failed(group: str, count: int, error: node_groups.InstanceError = STOCKOUT) -> list[node_groups.Instance]:
    """Instances that cannot be created."""
    return [node_groups.Instance(f"id://{group}-{error.code}-{number}", "Creating", error) for number in range(count)]


@dataclass
class Cluster:
    """Groups and nodes, and what is remembered from look to look."""

    chosen: settings.Settings = PEER
    memory: cluster_health.HealthMemory = field(default_factory=cluster_health.HealthMemory)
    groups: list[node_groups.NodeGroup] = field(default_factory=list)
    members: list[facts.Node] = field(default_factory=list)
    group_of: dict[str, node_groups.NodeGroup] = field(default_factory=dict)

    def has(
        self,
        group: str,
        members: Sequence[facts.Node] = (),
        target: int | None = None,
        instances: Sequence[node_groups.Instance] = (),
        min_size: int = 0,
        options: node_groups.GroupOptions | None = None,
    ) -> "Cluster":
        """Set or replace a group. Its target size is what it has, unless given."""
        every = (*(node_groups.Instance(member.provider_id) for member in members), *instances)
        made = node_groups.NodeGroup(
            group,
            min_size,
            100,
            len(every) if target is None else target,
            every,
            options=options or node_groups.GroupOptions(),
        )
        gone = {name for name, other in self.group_of.items() if other.id == group}
        self.groups = [other for other in self.groups if other.id != group] + [made]
        self.members = [member for member in self.members if member.name not in gone] + list(members)
        self.group_of = {name: other for name, other in self.group_of.items() if name not in gone}
        self.group_of |= {member.name: made for member in members}
        return self

    def asks(self, group: str, by: int, at_s: float) -> "Cluster":
        """Remember that the group was raised; `has` raises it."""
        grown = scale_requests.register_scale_up(self.memory.requests, group, by, at_s, PROVISION_S)
        self.memory = replace(self.memory, requests=grown)
        return self

    def look(self, now_s: float = NOW_S) -> tuple[cluster_health.ClusterHealth, decision_record.Remediation]:
        """Assess, remember, and plan repairs."""
        found = health.assess_health(self.members, self.groups, self.group_of, self.memory, self.chosen, now_s)
        self.memory = found.memory
        return found, remediation.plan_remediation(self.groups, found, self.chosen, now_s)
