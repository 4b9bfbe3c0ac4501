"""pods/eviction: a deletion that disruption budgets can refuse."""

from dataclasses import replace
from typing import Any

from windlass import selectors
from windlass.apiserver import budgets, rendering, status, storage
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core
from windlass.apiserver.kinds import pods
from windlass.apiserver.types.model import Json
from windlass.apiserver.verbs import deleting

_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_MANY_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_MOST_DISRUPTED = 2000
_EVICTING: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def evict(core: Core, call: Call) -> Answer:
    eviction = call.read_object()
    if eviction.get("apiVersion", "policy/v1") not in ("policy/v1", "policy/v1beta1"):
        said = f"the API version in the data ({eviction['apiVersion']}) does not match the expected API version (v1)"
        raise status.bad_request(said)
    if (eviction.get("metadata") or {}).get("name", "") != call.name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    options = deleting.parse_options(eviction.get("deleteOptions") or {})
    options = replace(options, is_dry_run=options.is_dry_run or call.is_dry_run)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status.not_found(call.resource, call.name)
    pod = stored.decode()
    if not _may_ignore_budgets(pod):
        found = _find_budgets(core, pod)
        if len(found) > 1:
            return rendering.answer_json(500, _too_many_budgets())
        if found and not _is_dispensable(pod, found[0].decode()):
            _charge(core, call, found[0], options)
    _evict(core, call, stored, options)
    return rendering.answer_json(201, status.success() | {"code": 201})


def _too_many_budgets() -> Json:
    said = {"status": "Failure", "message": _TOO_MANY_BUDGETS, "code": 500}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **said}


def _may_ignore_budgets(pod: Json) -> bool:
    is_idle = pod["status"].get("phase") in (*pods.FINISHED, "Pending")
    return is_idle or "deletionTimestamp" in pod["metadata"]


def _find_budgets(core: Core, pod: Json) -> list[storage.Stored]:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    table = core.table(core.resource("policy", "poddisruptionbudgets"))
    return [stored for stored in table.within(namespace) if _selects(stored.decode(), labels)]


def _selects(budget: Json, labels: Any) -> bool:
    selector: selectors.LabelSelector | None = budgets.read_selector(budget)
    return selector is not None and selector.matches(labels)


def _is_dispensable(pod: Json, budget: Json) -> bool:
    """May an unhealthy pod go without being charged?"""
    if pods.is_ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = budget["status"].get("desiredHealthy", 0)
    return bool(desired > 0 and budget["status"].get("currentHealthy", 0) >= desired)


def _charge(core: Core, call: Call, stored: storage.Stored, options: deleting.Options) -> None:
    """Take one disruption from the budget, or refuse."""
    budget = stored.decode()
    name, known = budget["metadata"]["name"], budget["status"]
    if known.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        said = f"The disruption budget {name} is still being processed by the server."
        raise _refuse(said, retry_after_s=10)
    if len(known.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        resource = core.resource("policy", "poddisruptionbudgets")
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise status.forbidden(resource, name, why)
    if known.get("disruptionsAllowed", 0) == 0:
        raise _refuse(_explain(name, known))
    if options.is_dry_run:
        return
    known["disruptionsAllowed"] -= 1
    known.setdefault("disruptedPods", {})[call.name] = call.now
    if known["disruptionsAllowed"] == 0:
        budgets.set_condition(budget, call.now)
    core.store.write(core.table(core.resource("policy", "poddisruptionbudgets")), stored.key, budget)


def _refuse(cause: str, retry_after_s: int = 0) -> status.Refused:
    return status.too_many_requests(_WOULD_VIOLATE, retry_after_s, {"reason": "DisruptionBudget", "message": cause})


def _explain(name: str, known: Json) -> str:
    conditions = [found for found in known.get("conditions") or () if found["type"] == "DisruptionAllowed"]
    condition = conditions[0] if conditions else {}
    is_explained = condition.get("status") == "False" and condition.get("message")
    current, desired = known.get("currentHealthy", 0), known.get("desiredHealthy", 0)
    at_present = f"The disruption budget {name} does not allow evicting pods currently"
    if is_explained and condition.get("reason") == "SyncFailed":
        return f"{at_present} because it failed sync: {condition['message']}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{at_present} ({condition['reason']}): {condition['message']}" if is_explained else at_present


def _evict(core: Core, call: Call, stored: storage.Stored, options: deleting.Options) -> None:
    """Say why the pod goes, then delete it."""
    deleting.check_preconditions(call, stored, options)
    if not options.is_dry_run:
        pod = stored.decode()
        pods.set_condition(pod, _EVICTING, call.now)
        stored = core.store.write(core.table(call.resource), stored.key, pod)
    deleting.delete_stored(core, call, stored, replace(options, version=""))
