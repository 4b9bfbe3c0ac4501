"""The scene: what scale-down looks at in one loop, and what it must know of the loops before."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from windlass.engine import disruption, facts, gpus, machine_drain_rules, searching
from windlass.engine.drain import by_kind, context
from windlass.engine.observation import Observation
from windlass.engine.scale_down import eligibility, unneeded
from windlass.engine.scale_down.candidates import Pace
from windlass.engine.scale_down.deletion_budgets import NOTHING_IN_PROGRESS, InProgress
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class State:
    """What the next loop must know."""

    since: unneeded.Since = field(default_factory=dict)
    previous: frozenset[str] = frozenset()
    """Nodes that were unneeded when last looked at; they are tried first, also after their times were cleared."""
    rechecks: eligibility.Rechecks = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)

    def clear(self) -> "State":
        """All unneeded times are lost: the cluster was in no state to be judged."""
        return replace(self, since={})


@dataclass(frozen=True, slots=True)
class Scene:
    """What scale-down looks at. The snapshot and the budgets are left as they were found."""

    snapshot: Snapshot
    """Everything in its place, pending pods that have one included."""
    names: Sequence[str]
    """Nodes that exist, in their order. Upcoming ones are none of them: pods of nodes that go cannot wait for them."""
    group_of: Mapping[str, facts.NodeGroup]
    """By node name."""
    judge: by_kind.Judge
    budgets: disruption.Remaining
    """Those that the judge looks at."""
    search: searching.Search
    """Where the round-robin stands. The hints are those of simulated removals only, and age with every look."""
    in_progress: InProgress = NOTHING_IN_PROGRESS
    recently_evicted: Sequence[int] = ()
    """Rows of pods that were evicted and are not created anew yet; they are given their places first."""
    expected: AbstractSet[int] = frozenset()
    """Rows of pods that count on nodes that they do not run on yet: if such a node goes they need another place, but
    nothing of them is evicted."""
    gpu_label: str = gpus.CLUSTER_API_LABEL
    """The label by which the provider's nodes tell that they should have GPUs."""

    def count_registered(self) -> Counter[str]:
        """How many nodes of each group there are."""
        return Counter(self.group_of[name].id for name in self.names if name in self.group_of)

    def count_being_deleted(self) -> Counter[str]:
        """How many nodes of each group are on their way out."""
        return Counter(self.group_of[name].id for name in self.in_progress.nodes if name in self.group_of)


def read_drain_options(settings: Settings) -> context.Options:
    """What the user's flags allow to be moved."""
    drain = settings.drain
    return context.Options(
        drain.skip_nodes_with_system_pods,
        drain.skip_nodes_with_local_storage,
        drain.skip_nodes_with_custom_controller_pods,
        drain.min_replica_count,
        drain.blocking_system_pod_distruption_timeout_s,
        settings.deviations.respect_do_not_disrupt,
        settings.deviations.respect_machine_drain_rules,
    )


def make_drain_context(seen: Observation, settings: Settings, now_s: float) -> context.Context:
    """What drain rules may know in a loop."""
    chosen = settings.deviations
    budgets = disruption.Remaining(
        seen.budgets, chosen.foresee_refused_evictions, chosen.respect_unhealthy_pod_eviction_policy
    )
    rules = read_drain_rules(seen, settings)
    return context.Context(now_s, read_drain_options(settings), seen.controllers, budgets, rules)


def read_drain_rules(seen: Observation, settings: Settings) -> machine_drain_rules.DrainRules:
    """Cluster API's rules for the nodes that there are, if they are respected."""
    if not settings.deviations.respect_machine_drain_rules:
        return machine_drain_rules.NO_RULES
    table, namespaces = seen.snapshot.nodes, seen.snapshot.tallies.namespaces
    alive = table.alive.tolist()
    nodes = ((row, node) for row, node in enumerate(table.facts) if alive[row])
    return machine_drain_rules.read(seen.machine_drain_rules, seen.groups, nodes, namespaces)
