"""Single decisions of OpenShift's MachineAutoscaler controller, put to the pure functions here. `seed_expect` wins over
`expect`; error texts that were read in the source (`read`) are held to as well.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers.openshift import accelerators, apis, capacity, names
from windlass.controllers.openshift.authority import Pair
from windlass.controllers.openshift.machine_autoscaler import facts, observe
from windlass.controllers.openshift.machine_autoscaler.decide import bounds, decide, validation
from windlass.controllers.openshift.machine_autoscaler.names import FINALIZER
from windlass.controllers.openshift.machine_autoscaler.plan import Annotate
from windlass.controllers.worker_pools.sizes import Limits
from windlass.kube import quantity

NOW_S = 1_800_000_000.0
MACHINE_API, CLUSTER_API = apis.BOTH
EVERY = frozenset(apis.BOTH)


def _kind(api: apis.Api) -> str:
    return f"{api.group}/{api.versions[0]} MachineSet"


def _set(name: str, annotations: Json | None = None, status: Json | None = None) -> Json:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "status": status or {}}


def _autoscaler(key: str, target: str = "set", **more: Any) -> facts.Autoscaler:
    namespace, name = key.split("/")
    reference = facts.Reference("machine.openshift.io/v1beta1", "MachineSet", target)
    return facts.Autoscaler(namespace, name, target=reference, **more)


def _validate(case: Json, _: Json) -> Json:
    found = validation.check(case["spec"]["minReplicas"], case["spec"]["maxReplicas"])
    return {"valid": not found, "errors": found}


def _refer(case: Json, _: Json) -> Json:
    reference = observe.read_reference(case["ref"]) or facts.Reference()
    trouble = validation.check_reference(reference, EVERY)
    api = apis.find(reference.api_version)
    return {"valid": not trouble, "error": trouble.partition(":")[0], "namespace": api and api.namespace}


def _supported(case: Json, _: Json) -> Json:
    """What is left of the types that are listed before; one is supported if a reference to it is usable."""
    left = frozenset(api for api in EVERY if _kind(api) in case["before"] and _kind(api) not in case["remove"])
    asked = [each for each in case["before"] if not validation.check_reference(_refer_to(each), left)]
    return {"after": asked}


def _refer_to(kind: str) -> facts.Reference:
    api_version, _, kind = kind.partition(" ")
    return facts.Reference(api_version, kind, "any")


def _change(case: Json, constants: Json) -> Json:
    """Reconciled with the previous target first, then with the new one."""
    key = f"{constants['namespace']}/test"
    sets: dict[str, dict[str, str]] = {case[which]: {} for which in ("previous", "new") if case[f"{which}_exists"]}
    last = None
    for target in (case["previous"], case["new"]):
        if target is None:
            continue
        last = _reconcile(sets, _autoscaler(key, target, min=2, max=8, status=facts.Status(last))).last_target
    found: Json = {"new_annotations": sets.get(case["new"])}
    if case["previous"] in sets:
        wanted = case["expect"].get("previous_annotations_absent", [])
        found["previous_annotations_absent"] = [name for name in wanted if name not in sets[case["previous"]]]
    return found


def _reconcile(sets: dict[str, dict[str, str]], autoscaler: facts.Autoscaler) -> facts.Status:
    """One pass, on annotations by name."""
    pairs = {
        name: Pair(name, _set(name, annotations, {"authoritativeAPI": "MachineAPI"}))
        for name, annotations in sets.items()
    }
    last = autoscaler.status.last_target
    moved = last.name if last is not None and last.name != autoscaler.target.name else None
    target = pairs.get(autoscaler.target.name, Pair(autoscaler.target.name))
    plan = decide(facts.Seen(autoscaler, EVERY, target, pairs.get(moved, Pair(moved)) if moved else None), NOW_S)
    for step in (plan.release, plan.target):
        if step is not None:
            sets[step.name] = _annotated(sets[step.name], step)
    return plan.status


def _annotated(before: Mapping[str, str], step: Annotate) -> dict[str, str]:
    merged = {**before, **step.annotations}
    return {key: value for key, value in merged.items() if value is not None}


def _needs_update(case: Json, _: Json) -> Json:
    return {"needs_update": bounds.differ(case["annotations"], Limits(case["min"], case["max"]), MACHINE_API)}


def _read_limits(case: Json, _: Json) -> Json:
    try:
        found = bounds.read(case["annotations"] or {}, MACHINE_API)
    except bounds.Unreadable as unreadable:
        return {"error": str(unreadable)}
    return {"min": found.min, "max": found.max}


def _set_owner(case: Json, _: Json) -> Json:
    """An owner that is written on a set is there, and about it."""
    owner, before = case["owner"], case["annotations"] or {}
    recorded = before.get(names.OWNER_ANNOTATION)
    others = {recorded: _autoscaler(recorded)} if recorded and recorded != owner else {}
    found = _decide(_autoscaler(owner, max=1), before, others)
    written = found.target is not None and names.OWNER_ANNOTATION in found.target.annotations
    is_taken = recorded == owner and before.get(names.OWNER_ANNOTATION) == owner
    return {
        "modified": written and not is_taken,
        "error": None,
        "condition": _condition(found.status),
        "writes": [] if found.target is None else [found.target.name],
    }


def _decide(autoscaler: facts.Autoscaler, annotations: Json, others: Mapping[str, facts.Autoscaler]) -> Any:
    pair = Pair("set", _set("set", annotations, {"authoritativeAPI": "MachineAPI"}))
    return decide(facts.Seen(autoscaler, EVERY, pair, None, others), NOW_S)


def _condition(status: facts.Status) -> Json:
    (found,) = status.conditions
    return {name: value for name, value in found.items() if name != "lastTransitionTime"}


def _read_owner(case: Json, _: Json) -> Json:
    try:
        namespace, name = bounds.read_owner(case["annotations"] or {})
    except bounds.Unreadable as unreadable:
        return {"error": str(unreadable)}
    return {"namespace": namespace, "name": name}


def _finalize(case: Json, _: Json) -> Json:
    taken = bounds.find_ours(case["annotations"])
    return {"modified": bool(taken), "absent": list(taken)}


def _has_gpu(case: Json, _: Json) -> Json:
    """A count that cannot be read is none: nothing panics."""
    found = accelerators.has_gpus(case["annotations"])
    return {"panics": False} if "upstream_bug" in case else {"has_gpu": found}


def _warn(case: Json, _: Json) -> Json:
    return {"warning": accelerators.check_labels(case["labels"] or {}, "test-name")}


def _translate(case: Json, _: Json) -> Json:
    before = case["annotations"]
    if before is None:
        return {"annotations": None if not capacity.translate({}) else {}}
    try:
        return {"annotations": _as_quantities({**before, **capacity.translate(before)})}
    except capacity.Unreadable as unreadable:
        return {"error_contains": str(unreadable)}


def _as_quantities(annotations: Json) -> Json:
    """`1048576k` and `1048576000` are the same."""
    key = capacity.MEMORY
    return {**annotations, **({key: quantity.parse(annotations[key])} if key in annotations else {})}


def _authority(case: Json, _: Json) -> Json:
    given, owner = case["autoscaler"], case["other_owner"]
    metadata = {"name": given["name"], "namespace": given["namespace"]}
    autoscaler = observe.read_autoscaler({"metadata": metadata, "spec": given["spec"]})
    owned = {names.OWNER_ANNOTATION: owner} if owner else {}
    pair = Pair(autoscaler.target.name, *(_given(case[f"{word}_api_set"], owned) for word in ("machine", "cluster")))
    others = {owner: _autoscaler(owner, pair.name)} if owner else {}
    plan = decide(facts.Seen(autoscaler, EVERY, pair, None, others), NOW_S)
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
    sets = {name: {names.OWNER_ANNOTATION: owner, MACHINE_API.min_size: "1"} for name, owner in owners.items()}
    before = {name: dict(each) for name, each in sets.items()}
    reference = facts.Reference("machine.openshift.io/v1beta1", "MachineSet", last)
    status = facts.Status(reference)
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
