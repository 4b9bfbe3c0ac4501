"""The scene: what scale-down looks at in one loop, and what it must know of the loops before."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine import disruption, facts, gpus, searching
from windlass.engine.drain import by_kind, context
from windlass.engine.scale_down import eligibility, unneeded
from windlass.engine.scale_down.candidates import Pace
from windlass.engine.scale_down.deletion_budgets import NOTHING_IN_PROGRESS, InProgress
from windlass.engine.settings import Drain
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
    returning: Sequence[int] = ()
    """Rows of pods that were evicted and wait to come back; they are given their places first."""
    gpu_label: str = gpus.CLUSTER_API_LABEL
    """The label by which the provider's nodes tell that they should have GPUs."""

    def count_registered(self) -> Counter[str]:
        """How many nodes of each group there are."""
        return Counter(self.group_of[name].id for name in self.names if name in self.group_of)

    def count_being_deleted(self) -> Counter[str]:
        """How many nodes of each group are on their way out."""
        return Counter(self.group_of[name].id for name in self.in_progress.nodes if name in self.group_of)


def read_drain_options(drain: Drain) -> context.Options:
    """What the user's flags allow to be moved."""
    return context.Options(
        drain.skip_nodes_with_system_pods,
        drain.skip_nodes_with_local_storage,
        drain.skip_nodes_with_custom_controller_pods,
        drain.min_replica_count,
        drain.blocking_system_pod_distruption_timeout_s,
    )
