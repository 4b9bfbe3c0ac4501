"""Single decisions of OpenShift's MachineAutoscaler controller, put to the pure functions here. `seed_expect` wins over
`expect`; error texts that were read in the source (`read`) are held to as well.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass import quantity
from windlass.controllers.machine_deployments import ReplicaLimits
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineSetPair
from windlass.controllers.openshift.machine_autoscaler import model, reconcile, webhook
from windlass.controllers.openshift.machine_autoscaler.model import FINALIZER, AnnotateMachineSet
from windlass.controllers.openshift.machine_autoscaler.reconcile import reconcile_machine_autoscaler

NOW_S = 1_800_000_000.0
MACHINE_API, CLUSTER_API = machine_apis.MACHINE_APIS
EVERY = frozenset(machine_apis.MACHINE_APIS)


def _kind(api: machine_apis.MachineApi) -> str:
    return f"{api.group}/{api.versions[0]} MachineSet"


def _set(name: str, annotations: Json | None = None, status: Json | None = None) -> Json:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "status": status or {}}


def _autoscaler(key: str, target: str = "set", **more: Any) -> model.MachineAutoscaler:
    namespace, name = key.split("/")
    reference = model.TargetReference("machine.openshift.io/v1beta1", "MachineSet", target)
    return model.MachineAutoscaler(namespace, name, target=reference, **more)


def _validate(case: Json, _: Json) -> Json:
    found = webhook.validate_bounds(case["spec"]["minReplicas"], case["spec"]["maxReplicas"])
    return {"valid": not found, "errors": found}


def _refer(case: Json, _: Json) -> Json:
    reference = model.parse_target_reference(case["ref"]) or model.TargetReference()
    trouble = webhook.validate_target_reference(reference, EVERY)
    api = machine_apis.find_machine_api(reference.api_version)
    return {"valid": not trouble, "error": trouble.partition(":")[0], "namespace": api and api.namespace}


def _supported(case: Json, _: Json) -> Json:
    """What is left of the types that are listed before; one is supported if a reference to it is usable."""
    left = frozenset(api for api in EVERY if _kind(api) in case["before"] and _kind(api) not in case["remove"])
    asked = [item for item in case["before"] if not webhook.validate_target_reference(_refer_to(item), left)]
    return {"after": asked}


def _refer_to(kind: str) -> model.TargetReference:
    api_version, _, kind = kind.partition(" ")
    return model.TargetReference(api_version, kind, "any")


def _change(case: Json, constants: Json) -> Json:
    """Reconciled with the previous target first, then with the new one."""
    key = f"{constants['namespace']}/test"
    sets: dict[str, dict[str, str]] = {case[which]: {} for which in ("previous", "new") if case[f"{which}_exists"]}
    last = None
    for target in (case["previous"], case["new"]):
        if target is None:
            continue
        last = _reconcile(
            sets, _autoscaler(key, target, min=2, max=8, status=model.MachineAutoscalerStatus(last))
        ).last_target
    found: Json = {"new_annotations": sets.get(case["new"])}
    if case["previous"] in sets:
        wanted = case["expect"].get("previous_annotations_absent", [])
        found["previous_annotations_absent"] = [name for name in wanted if name not in sets[case["previous"]]]
    return found


def _reconcile(sets: dict[str, dict[str, str]], autoscaler: model.MachineAutoscaler) -> model.MachineAutoscalerStatus:
    """One pass, on annotations by name."""
    pairs = {
        name: MachineSetPair(name, _set(name, annotations, {"authoritativeAPI": "MachineAPI"}))
        for name, annotations in sets.items()
    }
    last = autoscaler.status.last_target
    moved = last.name if last is not None and last.name != autoscaler.target.name else None
    target = pairs.get(autoscaler.target.name, MachineSetPair(autoscaler.target.name))
    plan = reconcile_machine_autoscaler(
        model.ObservedMachineAutoscaler(
            autoscaler, EVERY, target, pairs.get(moved, MachineSetPair(moved)) if moved else None
        ),
        NOW_S,
    )
    for step in (plan.release, plan.target):
        if step is not None:
            sets[step.name] = _annotated(sets[step.name], step)
    return plan.status


def _annotated(before: Mapping[str, str], step: AnnotateMachineSet) -> dict[str, str]:
    merged = {**before, **step.annotations}
    return {key: value for key, value in merged.items() if value is not None}


def _needs_update(case: Json, _: Json) -> Json:
    return {
        "needs_update": reconcile.bounds_differ(
            case["annotations"], ReplicaLimits(case["min"], case["max"]), MACHINE_API
        )
    }


def _read_limits(case: Json, _: Json) -> Json:
    try:
        replica_limits = reconcile.parse_bounds(case["annotations"] or {}, MACHINE_API)
    except reconcile.InvalidBounds as unreadable:
        return {"error": str(unreadable)}
    return {"min": replica_limits.min, "max": replica_limits.max}


def _set_owner(case: Json, _: Json) -> Json:
    """An owner that is written on a set is there, and about it."""
    owner, before = case["owner"], case["annotations"] or {}
    recorded = before.get(machine_apis.OWNER_ANNOTATION)
    others = {recorded: _autoscaler(recorded)} if recorded and recorded != owner else {}
    found = _decide(_autoscaler(owner, max=1), before, others)
    written = found.target is not None and machine_apis.OWNER_ANNOTATION in found.target.annotations
    is_taken = recorded == owner and before.get(machine_apis.OWNER_ANNOTATION) == owner
    return {
        "modified": written and not is_taken,
        "error": None,
        "condition": _condition(found.status),
        "writes": [] if found.target is None else [found.target.name],
    }


def _decide(
    autoscaler: model.MachineAutoscaler, annotations: Json, others: Mapping[str, model.MachineAutoscaler]
) -> Any:
    pair = MachineSetPair("set", _set("set", annotations, {"authoritativeAPI": "MachineAPI"}))
    return reconcile_machine_autoscaler(model.ObservedMachineAutoscaler(autoscaler, EVERY, pair, None, others), NOW_S)


def _condition(status: model.MachineAutoscalerStatus) -> Json:
    (found,) = status.conditions
    return {name: value for name, value in found.items() if name != "lastTransitionTime"}


def _read_owner(case: Json, _: Json) -> Json:
    try:
        namespace, name = reconcile.parse_owner(case["annotations"] or {})
    except reconcile.InvalidBounds as unreadable:
        return {"error": str(unreadable)}
    return {"namespace": namespace, "name": name}


def _finalize(case: Json, _: Json) -> Json:
    taken = reconcile.released_annotations(case["annotations"])
    return {"modified": bool(taken), "absent": list(taken)}


def _has_gpu(case: Json, _: Json) -> Json:
    """A count that cannot be read is none: nothing panics."""
    found = machine_apis.has_gpus(case["annotations"])
    return {"panics": False} if "upstream_bug" in case else {"has_gpu": found}


def _warn(case: Json, _: Json) -> Json:
    return {"warning": machine_apis.check_accelerator_label(case["labels"] or {}, "test-name")}


def _translate(case: Json, _: Json) -> Json:
    before = case["annotations"]
    if before is None:
        return {"annotations": None if not machine_apis.translate_capacity({}) else {}}
    try:
        return {"annotations": _as_quantities({**before, **machine_apis.translate_capacity(before)})}
    except machine_apis.InvalidCapacityAnnotation as unreadable:
        return {"error_contains": str(unreadable)}


def _as_quantities(annotations: Json) -> Json:
    """`1048576k` and `1048576000` are the same."""
    key = machine_apis.MEMORY_CAPACITY
    return {**annotations, **({key: quantity.parse_quantity(annotations[key])} if key in annotations else {})}


def _authority(case: Json, _: Json) -> Json:
    given, owner = case["autoscaler"], case["other_owner"]
    metadata = {"name": given["name"], "namespace": given["namespace"]}
    autoscaler = model.parse_machine_autoscaler({"metadata": metadata, "spec": given["spec"]})
    owned = {machine_apis.OWNER_ANNOTATION: owner} if owner else {}
    pair = MachineSetPair(
        autoscaler.target.name, *(_given(case[f"{word}_api_set"], owned) for word in ("machine", "cluster"))
    )
    others = {owner: _autoscaler(owner, pair.name)} if owner else {}
    plan = reconcile_machine_autoscaler(model.ObservedMachineAutoscaler(autoscaler, EVERY, pair, None, others), NOW_S)
    return {
        "write_to": plan.target and plan.target.api.group,
        "annotations": plan.target and dict(plan.target.annotations),
        "condition": _condition(plan.status),
    }


def _given(found: Json, annotations: Json) -> Json | None:
    return _set(found["name"], annotations, found.get("status")) if found else None


def _bug(case: Json, _: Json) -> Json:
    if case.get("deleting"):
        return _delete(case)
    plan = _decide(_autoscaler("test/test", min=case["min"], max=case["max"]), case["annotations"], {})
    return {"written": plan.target is not None, "added": plan.target and dict(plan.target.annotations)}


def _delete(case: Json) -> Json:
    last, target = case.get("last_target", "set"), case.get("spec_target", "set")
    owners = {last: "test/test", target: case.get("spec_target_owner", "test/test" if target == last else "")}
    sets = {name: {machine_apis.OWNER_ANNOTATION: owner, MACHINE_API.min_size: "1"} for name, owner in owners.items()}
    before = {name: dict(item) for name, item in sets.items()}
    reference = model.TargetReference("machine.openshift.io/v1beta1", "MachineSet", last)
    status = model.MachineAutoscalerStatus(reference)
    _reconcile(sets, _autoscaler("test/test", target, is_deleting=True, finalizers=(FINALIZER,), status=status))
    stripped = [name for name in sets if sets[name] != before[name]]
    return {"stripped": stripped, "target_stripped": target in stripped}


_SECTIONS: Mapping[str, Callable[[Json, Json], Json]] = {
    "validate": _validate,
    "validate_read": _validate,
    "reference": _refer,
    "reference_seed": _refer,
    "supported_types": _supported,
    "target_change": _change,
    "needs_update": _needs_update,
    "get_limits": _read_limits,
    "set_owner": _set_owner,
    "get_owner": _read_owner,
    "finalize": _finalize,
    "has_gpu": _has_gpu,
    "gpu_label_warning": _warn,
    "scale_from_zero": _translate,
    "scale_from_zero_read": _translate,
    "authority_seed": _authority,
    "upstream_bugs": _bug,
}


def run(path: Path) -> Iterator[Outcome]:
    for section, constants, case in read_sections(path):
        expected = {**(case.get("seed_expect") or case["expect"]), **case.get("read", {})}
        if "upstream_bug" in case and "seed_expect" not in case:
            expected = {"panics": False}
        found = _SECTIONS[section](case, constants)
        differences = tuple(_compare(expected, found))
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)


def _compare(expected: Json, found: Json) -> Iterator[str]:
    for name, wanted in expected.items():
        was = found.get(name)
        if name == "annotations" and wanted is not None:
            wanted = _as_quantities(wanted)
        if name.endswith("_contains"):
            agrees = wanted in (was or "")
        elif name == "error" and wanted is True:
            agrees = bool(was)
        elif isinstance(wanted, list) and isinstance(was, list):
            agrees = sorted(wanted) == sorted(was)
        else:
            agrees = wanted == was
        if not agrees:
            yield f"{name}: expected {wanted!r}, found {was!r}"
