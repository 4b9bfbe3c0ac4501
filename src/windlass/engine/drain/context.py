"""What rules may look at beside the pod: the time, the user's options, controllers and disruption budgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine import disruption, facts, machine_drain_rules

ControllerKey = tuple[str, str, str]
"""(kind, namespace, name)"""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user allows to be moved; the defaults are Cluster Autoscaler's."""

    skip_system_pods: bool = True
    """Keep nodes with pods of kube-system that no budget covers (--skip-nodes-with-system-pods)."""
    skip_local_storage: bool = True
    """Keep nodes with pods that store on the node's disk (--skip-nodes-with-local-storage)."""
    skip_custom_controllers: bool = True
    """Keep nodes with pods whose controller is not one of Kubernetes' own, or has too few replicas
    (--skip-nodes-with-custom-controller-pods)."""
    min_replicas: int = 0
    """Fewer than this many replicas wanted, and a pod stays (--min-replica-count)."""
    system_pod_timeout_s: float = 3600.0
    """Age at which a pod of kube-system may go without a budget (--blocking-system-pod-distruption-timeout)."""
    respect_do_not_disrupt: bool = False
    """Karpenter's annotation keeps a pod, and with it the node (--respect-do-not-disrupt)."""
    respect_machine_drain_rules: bool = False
    """Cluster API's label lets a pod end with its node, or finish (--respect-machine-drain-rules)."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything a rule may know. `budgets` is read here, never spent."""

    now_s: float
    options: Options = field(default_factory=Options)
    controllers: Mapping[ControllerKey, facts.Controller] | None = None
    """All that exist, by key; None where nobody lists controllers, and then no pod is blamed for lacking one."""
    budgets: disruption.Remaining = field(default_factory=disruption.Remaining)
    drain_rules: machine_drain_rules.DrainRules = machine_drain_rules.NO_RULES
