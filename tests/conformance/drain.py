"""Drain rules: each alone on one pod, and all in order on the pods of a node."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.drainability import local_storage, pdb, pdb_rules, pod_status, replicated, rules, safe_to_evict
from windlass.engine.drainability.context import DrainContext, NodeDeleteOptions
from windlass.engine.model import facts
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.snapshot.pod_table import PodTable

KINDS = {
    "replication_controllers": "ReplicationController",
    "replica_sets": "ReplicaSet",
    "stateful_sets": "StatefulSet",
    "jobs": "Job",
}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _context(case: Json, options: NodeDeleteOptions, *, controllers_listed: bool = True) -> DrainContext:
    now_s = seconds(case["now"]) if "now" in case else 0.0
    controllers = {_key(c): c for c in _controllers(case)} if controllers_listed else None
    return DrainContext(now_s, options, controllers, pdb.RemainingPdbTracker(map(objects.pdb, case.get("pdbs", ()))))


def _controllers(case: Json) -> Iterable[facts.Controller]:
    for field, kind in KINDS.items():
        yield from (objects.controller(kind, listed) for listed in case.get(field, ()))
    others = case.get("other_controllers_present", "")
    for kind, key in (text.split(" ") for text in others.split(", ") if text):
        namespace, name = key.split("/")
        yield facts.Controller(kind, namespace, name)


def _key(controller: facts.Controller) -> ControllerKey:
    return controller.kind, controller.namespace, controller.name


# ── One rule ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _opinion(rule: rules.DrainabilityRule, case: Json, constants: Json) -> Json:
    """The answer in the terms that the case is recorded in: the outcome, or only whether it blocks."""
    case = constants | case
    options = NodeDeleteOptions(
        skip_custom_controllers=case.get("skip_custom_controllers", True),
        min_replicas=case.get("min_replicas", 0),
        system_pod_timeout_s=case.get("system_pod_timeout_s", 0.0),
    )
    status = rule(objects.pod(case["pod"]), _context(case, options))
    reason = {} if status is None or status.reason is None else {"reason": str(status.reason)}
    if "blocks" in case["expect"]:
        return {"blocks": status is not None and status.blocks} | reason
    return {"outcome": "no_opinion" if status is None else str(status.action)} | reason


# ── All rules ────────────────────────────────────────────────────────────────────────────────────────────────────


def _chain(case: Json, constants: Json) -> Json:
    case = constants | case
    options = NodeDeleteOptions(
        case["skip_system_pods"],
        case["skip_local_storage"],
        case["skip_custom_controllers"],
        case.get("min_replicas", 0),
        case["system_pod_timeout_s"],
    )
    moves = _Moves(case["pods"], _context(case, options, controllers_listed=case["controllers_listed"]))
    return moves.lists | moves.blocked


def _generated(case: Json, constants: Json) -> Json:
    flags = case["options"]
    options = NodeDeleteOptions(
        flags["skip_system"],
        flags["skip_local"],
        flags["skip_custom"],
        flags["min_replicas"],
        flags["system_timeout_s"],
    )
    moves = _Moves(case["pods"], _context(case, options))
    return moves.blocked if moves.blocked["blocked"] else moves.lists | moves.blocked


class _Moves:
    """What becomes of the pods of a node, by the judge of the loop."""

    def __init__(self, pods: list[Json], about: DrainContext) -> None:
        self._pods = [objects.pod(pod) for pod in pods]
        table = PodTable()
        for number, pod in enumerate(self._pods):
            table.add(replace(pod, name=f"{pod.name}-{number}", uid=""))  # some were recorded under one name
        self._moves = rules.PodDrainability(table, about).pods_to_move(range(len(pods)))

    @property
    def lists(self) -> Json:
        """Pods are recorded sorted by name; their order on the node is not part of the answer."""
        parts = {name: getattr(self._moves, name) for name in ("move", "daemonset", "on_completion")}
        return {name: sorted(self._pods[row].key for row in rows) for name, rows in parts.items()}

    @property
    def blocked(self) -> Json:
        blocking = self._moves.blocking
        if blocking is None:
            return {"blocked": False}
        reason = blocking.outcome.reason
        return {"blocked": True, "blocking_pod": self._pods[blocking.pod].key, "reason": str(reason)}


def _alone(rule: rules.DrainabilityRule) -> Callable[[Json, Json], object]:
    return lambda case, constants: _opinion(rule, case, constants)


run_rules = by_section(
    {
        "chain": _chain,
        "rule_budget": _alone(pdb_rules.check_pdb),
        "rule_daemonset": _alone(pod_status.check_daemonset),
        "rule_local_storage": _alone(local_storage.check_local_storage),
        "rule_long_terminating": _alone(pod_status.check_long_terminating),
        "rule_mirror": _alone(pod_status.check_mirror),
        "rule_not_safe_to_evict": _alone(safe_to_evict.check_not_safe_to_evict),
        "rule_on_completion": _alone(safe_to_evict.check_on_completion),
        "rule_replica_count": _alone(replicated.check_replica_count),
        "rule_replicated": _alone(replicated.check_replicated),
        "rule_safe_to_evict": _alone(safe_to_evict.check_safe_to_evict),
        "rule_system": _alone(pdb_rules.check_system),
        "rule_terminal": _alone(pod_status.check_terminal),
    }
)
run_chain = by_section({"generated": _generated})
