"""The autoscaler's own taints, startup taints, and the pods of DaemonSets that are evicted."""

from tests.conformance.outcome import Json, by_section
from windlass.engine import facts, taints
from windlass.engine.scale_down import daemonset_eviction
from windlass.engine.settings import Templates


def _add(case: Json, constants: Json) -> list[str]:
    return _keys(taints.add(_taints(case["existing"]), _taints(case["add"])))


def _clean(case: Json, constants: Json) -> Json:
    existing = _taints(case["existing"])
    left = taints.clean(existing, case["remove"])
    return {"changed": left != existing, "taints": _keys(left)}


def _startup_prefix(case: Json, constants: Json) -> bool:
    return taints.read_settings(Templates(startup_taint_prefix=tuple(case["prefixes"]))).is_startup(case["key"])


def _daemonset_eviction(case: Json, constants: Json) -> list[str]:
    pods = [
        facts.Pod("default", name, annotations={daemonset_eviction.ENABLE_EVICTION: value} if value else {})
        for name, value in case["pods"].items()
    ]
    return [pod.name for pod in pods if daemonset_eviction.is_evicted(pod, case["default"])]


def _taints(keys: list[str]) -> tuple[facts.Taint, ...]:
    return tuple(facts.Taint(key, "", "NoSchedule") for key in keys)


def _keys(found: tuple[facts.Taint, ...]) -> list[str]:
    return [taint.key for taint in found]


run = by_section(
    {"add": _add, "clean": _clean, "startup_prefix": _startup_prefix, "daemonset_eviction": _daemonset_eviction}
)
