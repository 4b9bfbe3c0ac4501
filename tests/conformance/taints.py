"""The autoscaler's own taints, startup taints, and the pods of DaemonSets that are evicted."""

from tests.conformance.outcome import Json, by_section
from windlass.autoscaler import actuator
from windlass.engine import taints
from windlass.engine.actuation import eviction
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import TemplateSettings

EFFECT = "NoSchedule"


def _add(case: Json, constants: Json) -> list[str]:
    node = _node(case["existing"])
    actuator.apply_node_changes(node, [plan.SetTaint("n", key, "", EFFECT) for key in case["add"]])
    return _as_recorded(_keys(node), case["expect"])


def _clean(case: Json, constants: Json) -> Json:
    node = _node(case["existing"])
    changed = actuator.apply_node_changes(node, [plan.RemoveTaint("n", key) for key in case["remove"]])
    return {"changed": changed, "taints": _keys(node)}


def _as_recorded(keys: list[str], expected: list[str]) -> list[str]:
    """Taints have no order; one that is set anew, with the time of a new mark, comes last."""
    return expected if sorted(keys) == sorted(expected) else keys


def _startup_prefix(case: Json, constants: Json) -> bool:
    return taints.make_transient_taints(TemplateSettings(startup_taint_prefix=tuple(case["prefixes"]))).is_startup(
        case["key"]
    )


def _daemonset_eviction(case: Json, constants: Json) -> list[str]:
    pods = [
        facts.Pod("default", name, annotations={eviction.ENABLE_DS_EVICTION: value} if value else {})
        for name, value in case["pods"].items()
    ]
    return [pod.name for pod in pods if eviction.is_daemonset_pod_evicted(pod, case["default"])]


def _node(keys: list[str]) -> Json:
    return {"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "effect": EFFECT} for key in keys]}}


def _keys(node: Json) -> list[str]:
    return [taint["key"] for taint in node["spec"]["taints"]]


run = by_section(
    {"add": _add, "clean": _clean, "startup_prefix": _startup_prefix, "daemonset_eviction": _daemonset_eviction}
)
