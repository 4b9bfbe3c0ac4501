"""Drain rules on PodDisruptionBudgets: kube-system pods need one, and no pod leaves while one allows no disruption.

A kube-system pod without a budget blocks until it is older than `system_pod_timeout_s` (with `skip_system_pods`). The
eviction API refuses pods that more than one budget covers. It evicts pods that have not started, and unhealthy pods
as far as the budget's unhealthyPodEvictionPolicy allows.
"""

from windlass.engine.drainability import pdb
from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts

SYSTEM_RULE = "System"

SYSTEM_NAMESPACE = "kube-system"


def check_system(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if pod.namespace != SYSTEM_NAMESPACE or not context.options.skip_system_pods:
        return None
    if context.budgets.matching(pod.namespace, pod.labels):
        return None
    timeout_s = context.options.system_pod_timeout_s
    if pod.created_s and pod.created_s + timeout_s < context.now_s:
        return drainability.drainable_status(
            SYSTEM_RULE, "is a pod of kube-system without a disruption budget, older than {:g} s", timeout_s
        )
    return drainability.blocked_status(
        SYSTEM_RULE,
        drainability.BlockingPodReason.UNMOVABLE_KUBE_SYSTEM_POD,
        "is a pod of kube-system that no disruption budget covers, not yet older than {:g} s",
        timeout_s,
    )


_EXEMPTIONS = {
    facts.PodHealth.READY: "is terminating",
    facts.PodHealth.UNREADY: "is not Ready",
    facts.PodHealth.NOT_STARTED: "has not started",
}

_UNHEALTHY = (
    "is not Ready, and covered by disruption budget {}, which allows no disruption now and lets unhealthy pods go only "
    "while enough others are healthy; with unhealthyPodEvictionPolicy: AlwaysAllow it would let this one go"
)


_STALE = (
    "is covered by disruption budget {}, whose status is older than its spec: the API evicts no pod that it covers "
    "until the disruption controller has updated it"
)


def check_pdb(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return check_pdb_indexes(context.budgets.charged_for(pod), context, pod.health)


def check_pdb_indexes(
    budgets: pdb.PdbIndexes, context: DrainContext, health: facts.PodHealth = facts.PodHealth.READY
) -> drainability.DrainabilityStatus | None:
    """The same of a pod of which only the budgets that are charged for it, and its health, are known."""
    exhausted = context.budgets.exhausted(budgets)
    if exhausted is None:
        return None
    if context.budgets.are_too_many(budgets):
        names = ", ".join(context.budgets.budgets[position].name for position in budgets)
        saying = "is covered by more than one disruption budget ({}): the API does not evict such a pod"
        return drainability.blocked_status("PDB", drainability.BlockingPodReason.NOT_ENOUGH_PDB, saying, names)
    if context.budgets.is_refusing(exhausted):
        return drainability.blocked_status("PDB", drainability.BlockingPodReason.NOT_ENOUGH_PDB, _STALE, exhausted.name)
    if context.budgets.spares_unhealthy and health is facts.PodHealth.UNREADY and len(budgets) == 1:
        return drainability.blocked_status(
            "PDB", drainability.BlockingPodReason.NOT_ENOUGH_PDB, _UNHEALTHY, exhausted.name
        )
    saying = "is covered by disruption budget {}, which allows no disruption now"
    return drainability.blocked_status("PDB", drainability.BlockingPodReason.NOT_ENOUGH_PDB, saying, exhausted.name)


def explain_pdb_exemption(pod: facts.Pod, context: DrainContext) -> str:
    """Why a pod may go although the budgets that cover it would keep another one; empty where they would not."""
    covering = context.budgets.matching(pod.namespace, pod.labels)
    exhausted = context.budgets.exhausted(covering)
    if exhausted is None or context.budgets.charged_for(pod):
        return ""
    condition = _EXEMPTIONS[facts.PodHealth.READY if pod.is_terminating else pod.health]
    if context.budgets.are_too_many(covering):
        return f"{condition}: the API evicts it although more than one disruption budget covers it"
    return f"{condition}: the API evicts it although disruption budget {exhausted.name} allows no disruption now"
