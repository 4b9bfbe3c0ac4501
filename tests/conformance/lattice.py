"""Single decisions about LatticeClusters' pools, put to the pure functions here. `seed_expect` wins over `expect`.

Upstream waits where a MachineDeployment is absent and makes it elsewhere; ours makes it, in the same decision.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers import machine_deployments
from windlass.controllers.lattice import model, reconcile

MACHINE = machine_deployments.MachineTemplate({"dataSecretName": "s"}, {"apiGroup": "g", "kind": "K", "name": "n"})
VERSION = "cluster.x-k8s.io/v1beta2"


def _pool(given: Json, name: str = "general") -> model.WorkerPool:
    return dataclasses.replace(model.parse_pool(name, given), machine=MACHINE)


def _evaluate(pool: model.WorkerPool, live: Json | None) -> reconcile.PoolResult:
    cluster = model.LatticeCluster("ns", "c", pools=(pool,))
    deployments = {} if live is None else {"c-pool-general": machine_deployments.parse_machine_deployment(live)}
    return reconcile.reconcile_pool(model.ObservedLatticeCluster(cluster, VERSION, deployments), pool)


def _live(pool: model.WorkerPool, current: int) -> Json:
    """What a pool has become, and at which size it is now: we own what we applied, and no one else owns anything."""
    wanted = machine_deployments.DesiredMachineDeployment(
        VERSION, "ns", "c-pool-general", "c", pool.machine, pool.size.limits
    )
    body = machine_deployments.build_manifest(wanted, None if pool.size.is_autoscaled else current)
    fields = {"metadata": {"labels": body["metadata"]["labels"]}, "spec": body["spec"]}
    if "annotations" in body["metadata"]:
        fields["metadata"]["annotations"] = body["metadata"]["annotations"]
    managed = {"manager": model.MANAGER, "operation": "Apply", "apiVersion": VERSION, "fieldsV1": _fields(fields)}
    scaled = {"manager": "a", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    body["metadata"]["managedFields"] = [managed, scaled]
    body["spec"]["replicas"] = current
    return body


def _fields(value: Json) -> Json:
    return {f"f:{name}": _fields(item) if isinstance(item, dict) else {} for name, item in value.items()}


def _enabled(case: Json) -> Json:
    return {"autoscaled": _pool(case["pool"]).size.is_autoscaled}


def _validate(case: Json) -> Json:
    error = reconcile.validate_pool(_pool(case["pool"]))
    return {"valid": not error, "error": error or None, "error_contains": error or None}


def _scaling(case: Json) -> Json:
    pool, current = _pool(case["pool"]), case["current"]
    verdict = _evaluate(pool, None if current is None else _live(pool, current))
    written = _replicas(verdict.step)
    if current is None:
        return {"action": "wait" if written else "none", "desired": written}
    target = None if written in (None, current) else written
    action = "none" if target is None else "scale"
    desired = target if target is not None else verdict.status.desired_replicas
    is_autoscaled = verdict.status.autoscaling_enabled
    return {"action": action, "target": target, "desired": desired, "autoscaled": is_autoscaled, "current": current}


def _replicas(step: machine_deployments.ApplyMachineDeployment | None) -> int | None:
    """What a step makes of replicas; None if it leaves them alone."""
    if step is None:
        return None
    if step.handover is not None and step.handover.force:
        return step.handover.replicas
    found: int | None = (step.body or {}).get("spec", {}).get("replicas")
    return found


def _annotations(step: machine_deployments.ApplyMachineDeployment | None, live: Json) -> Json | None:
    body = live if step is None or step.body is None else step.body
    found: Json = body["metadata"].get("annotations") or {}
    return found or None


def _warning(case: Json) -> Json:
    found = reconcile.ignored_replicas_warning(_pool(case["pool"], case.get("pool_id", "general")))
    return {"warning": found, "warning_contains": found}


def _event(case: Json) -> Json:
    verdict = _evaluate(_pool(case["pool"], case["pool_id"]), None)
    event = verdict.event
    told = None
    if event is not None:
        told = {"type": event.type, "reason": event.reason, "action": event.action, "note": event.message}
    return {"event": told, "status_message": verdict.status.message}


def _new_annotations(case: Json) -> Json:
    step = _evaluate(_pool(case["pool"]), None).step
    return {"annotations": _annotations(step, {"metadata": {}})}


def _totals(case: Json) -> Json:
    pools = tuple(model.WorkerPool(name, replicas) for name, replicas in case["pools"].items())
    cluster = model.LatticeCluster("ns", "c", control_plane_replicas=case["control_plane"], pools=pools)
    return {"workers": cluster.workers, "nodes": cluster.nodes}


def _pool_id(case: Json) -> Json:
    errors = [error for name in case["pools"] if (error := reconcile.validate_pool_id(name))]
    return {"valid": not errors, "error_contains": "; ".join(errors)}


def _matrix(case: Json) -> Json:
    return _transition({"before": case["pool"], "after": case["pool"], "current": case["current"]})


def _transition(case: Json) -> Json:
    live = _live(_pool(case["before"]), case["current"])
    if not _pool(case["before"]).size.is_autoscaled:
        live["metadata"]["managedFields"].pop()  # nobody has scaled it but we
    pool = _pool(case["after"])
    verdict = _evaluate(pool, live)
    written = _replicas(verdict.step)
    return {
        "autoscaled": verdict.status.autoscaling_enabled,
        "annotations": _annotations(verdict.step, live),
        "set_replicas": None if written == case["current"] else written,
    }


def _initial(case: Json) -> Json:
    return {"initial_replicas": reconcile.initial_replicas(_pool(case["pool"]))}


def _checked(case: Json) -> Json:
    return {"error": reconcile.validate_pool(_pool(case["pool"])) or None}


def _status(case: Json) -> Json:
    given = case["machine_deployment"]
    live = None if given is None else {"metadata": {"name": "c-pool-general"}, **given}
    return dataclasses.asdict(_evaluate(_pool(case["pool"]), live).status)


_SECTIONS: Mapping[str, Callable[[Json], Json]] = {
    "upstream_enabled": _enabled,
    "upstream_validate": _validate,
    "upstream_scaling": _scaling,
    "upstream_warning": _warning,
    "upstream_annotations": _new_annotations,
    "upstream_totals": _totals,
    "upstream_pool_id": _pool_id,
    "seed_matrix": _matrix,
    "seed_initial_replicas": _initial,
    "seed_transition": _transition,
    "seed_validate": _checked,
    "seed_warning": _event,
    "seed_status": _status,
}


def run(path: Path) -> Iterator[Outcome]:
    for section, _, case in read_sections(path):
        expected = case.get("seed_expect") or case["expect"]
        found = _SECTIONS[section](case)
        differences = tuple(
            f"{name}: expected {value!r}, found {found.get(name)!r}"
            for name, value in expected.items()
            if not _agrees(name, value, found.get(name))
        )
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)


def _agrees(name: str, expected: object, found: object) -> bool:
    if name.endswith("_contains") and isinstance(expected, str):
        return isinstance(found, str) and expected in found
    return expected == found
