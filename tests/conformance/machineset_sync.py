"""Single decisions of OpenShift's MachineSet controllers and policies. `seed_expect` wins over `expect`.

Conversions, the rule about replicas and migrations are put to the pure functions here; what is left once everything has
settled to the controller, on the embedded server; what the policies let through to a real API server.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance import machineset_policies, machineset_settled
from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import PAUSED_ANNOTATION
from windlass.controllers.openshift.machineset_sync import (
    authority_migration,
    field_ownership,
    machine_set_conversion,
    model,
    object_diff,
)

NOW_S = 1_800_000_000.0


def _diff(case: Json, _: Json) -> Json:
    if "a_kind" in case:
        try:
            object_diff.diff_objects({"kind": case["a_kind"]}, {"kind": case["b_kind"]})
        except object_diff.KindMismatch as error:
            return {"error_contains": str(error)}
    ignored = [tuple(path) for path in case.get("ignore", ())]
    text = object_diff.diff_objects(case["a"], case["b"], ignored)
    return {"changed": bool(text), "text": text}


def _status_diff(case: Json, _: Json) -> Json:
    text = object_diff.diff_objects(
        _typed(case["a"]),
        _typed(case["b"]),
        object_diff.CLUSTER_API_IGNORED_FIELDS,
        object_diff.CLUSTER_API_OWN_CONDITIONS,
    )
    return {"changed": bool(text), "text": text}


def _typed(body: Json) -> Json:
    """As a typed object has it: counters of the old part are there, zero if nobody said anything."""
    old = ((body.get("status") or {}).get("deprecated") or {}).get("v1beta1")
    if old is None or "conditions" in old:
        return body
    zeros = {"availableReplicas": 0, "fullyLabeledReplicas": 0, "readyReplicas": 0}
    return {**body, "status": {**body["status"], "deprecated": {"v1beta1": {**zeros, **old}}}}


def _ignored(case: Json, _: Json) -> Json:
    ours = object_diff.diff_objects(case["a"], case["b"], object_diff.MACHINE_API_IGNORED_FIELDS)
    theirs = object_diff.diff_objects(
        case["a"], case["b"], object_diff.CLUSTER_API_IGNORED_FIELDS, object_diff.CLUSTER_API_OWN_CONDITIONS
    )
    return {"machine_api_changed": bool(ours), "cluster_api_changed": bool(theirs)}


def _provider_spec(case: Json, _: Json) -> Json:
    sets = [{"spec": {"template": {"spec": {"providerSpec": {"value": case[side]}}}}} for side in "ab"]
    text = object_diff.diff_objects(sets[0], sets[1], object_diff.MACHINE_API_IGNORED_FIELDS)
    return {"provider_spec_changed": "[providerSpec]" in text, "changed": bool(text)}


def _selector(case: Json, _: Json) -> Json:
    convert = (
        machine_set_conversion.selector_to_cluster_api
        if case["direction"] == "to_cluster_api"
        else machine_set_conversion.selector_to_machine_api
    )
    return {"selector": convert(case["selector"])}


def _spec(case: Json, _: Json) -> Json:
    convert = (
        machine_set_conversion.spec_to_cluster_api
        if case["direction"] == "to_cluster_api"
        else machine_set_conversion.spec_to_machine_api
    )
    return {"spec": {name: _look_up(convert(case["spec"]), name) for name in case["expect"]["spec"]}}


def _look_up(found: Any, path: str) -> Any:
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _conversion_errors(case: Json, _: Json) -> Json:
    body = {"spec": {"template": {"spec": {"metadata": case["template_metadata"]}}}}
    return {"errors": machine_set_conversion.list_unsupported_fields(body), "warnings": []}


def _status_to_cluster_api(case: Json, _: Json) -> Json:
    selector = machine_set_conversion.selector_to_cluster_api(case.get("selector") or {})
    made = machine_set_conversion.status_to_cluster_api({"spec": case["spec"], "status": case["status"]}, selector)
    expected = case["expect"]
    found: Json = {}
    if "fields" in expected:
        # Not written here: the mirror's own generation is put in its place by whoever writes it.
        fields = {name: _look_up(made, name) for name in expected["fields"]}
        found["fields"] = fields | ({"observedGeneration": 0} if "observedGeneration" in fields else {})
    old, new = made["deprecated"]["v1beta1"]["conditions"], made["conditions"]
    for name, given in (("old_conditions", old), ("conditions", new)):
        if name in expected:
            found[name] = [_cut(item, given) for item in expected[name]]
    if "old_conditions_exactly" in expected:
        wanted = expected["old_conditions_exactly"]
        found["old_conditions_exactly"] = [_cut(entry, old) for entry in wanted] if len(old) == len(wanted) else old
    if "condition_absent" in expected and not any(each["type"] == expected["condition_absent"] for each in old + new):
        found["condition_absent"] = expected["condition_absent"]
    return found


def _cut(wanted: Json, given: list[Json]) -> Json:
    """The condition of the same type, as far as it is asked about."""
    there = next((item for item in given if item["type"] == wanted["type"]), {})
    return {name: there.get(name) for name in wanted}


def _status_to_machine_api(case: Json, _: Json) -> Json:
    made = machine_set_conversion.status_to_machine_api(case["status"])
    found = {name: made.get(name) for name in case["expect"]["status"]}
    return {"status": found | ({"observedGeneration": 0} if "observedGeneration" in found else {})}


def _condition(case: Json, _: Json) -> Json:
    body = {"metadata": {"generation": 23}, "status": {"synchronizedGeneration": 22}}
    synchronized_condition = model.SynchronizedCondition(
        case["status"], case["reason"], case["message"], case["generation"]
    )
    found = authority_migration.synchronized_status(synchronized_condition, body, NOW_S) or {}
    (condition,) = found["conditions"]
    wanted = {name: condition.get(name, "") for name in case["expect"]["condition"]}
    return {"condition": wanted, "synchronizedGeneration": found["synchronizedGeneration"]}


def _migration(case: Json, _: Json) -> Json:
    """One pass, and what the objects say afterwards."""
    before, mirror = case["machine_api_set"], case["cluster_api_set"]
    observed = model.ObservedMachineSetPair(machine_apis.MachineSetPair("foo", before, mirror))
    if complaint := authority_migration.missing_mirror_message(observed):
        return {"error_contains": complaint}
    steps = (authority_migration.plan_migration(observed, NOW_S) or model.EMPTY_PLAN).steps
    found: Json = {"writes": [type(step).__name__ for step in steps], "requeue": False}
    if before is None:
        return found
    said: Json = dict(before.get("status") or {})
    marks = dict(model.get_annotations(mirror))
    for step in steps:
        if isinstance(step, model.SetAuthority):
            kept = [item for item in said.get("conditions") or () if item["type"] != model.SYNCHRONIZED]
            more = [*kept, *step.status["conditions"]] if "conditions" in step.status else said.get("conditions")
            said |= {**step.status, "conditions": more}
        if isinstance(step, model.Patch) and step.api is machine_apis.CLUSTER_API:
            marks |= step.patch["metadata"]["annotations"]
    marks = {key: value for key, value in marks.items() if value is not None}
    found |= {f"status.{name}": said.get(name) for name in ("authoritativeAPI", "synchronizedGeneration")}
    found["spec.authoritativeAPI"] = before["spec"]["authoritativeAPI"]
    found["cluster_api_annotation"] = marks
    found["cluster_api_annotation_absent"] = "".join({PAUSED_ANNOTATION} - marks.keys())
    for side, body in (("machine_api", {"status": said}), ("cluster_api", mirror or {})):
        paused = [entry for entry in model.get_status(body).get("conditions") or () if entry["type"] == "Paused"]
        found[f"{side}_condition"] = {name: paused[0][name] for name in ("type", "status")} if paused else None
    given = [{name: each.get(name, "") for name in each} for each in said.get("conditions") or ()]
    found["status"] = {**said, "conditions_contain": [_without_time(each) for each in given]}
    return found


def _without_time(condition: Json) -> Json:
    return {name: value for name, value in condition.items() if name != "lastTransitionTime"}


def _replicas(case: Json, _: Json) -> Json:
    holder = machine_apis.MachineAuthority(case["authority"])
    marks, others = case["marks"], frozenset(case["cluster_api_other_owners"])
    ours = field_ownership.ReplicasState(case["machine_api_replicas"], marks["machine_api"])
    theirs = field_ownership.ReplicasState(case["cluster_api_replicas"], marks["cluster_api"], others)
    decided = field_ownership.decide_replicas(holder, ours, theirs)
    now = {machine_apis.MACHINE_API: ours.replicas, machine_apis.CLUSTER_API: theirs.replicas}
    said = {machine_apis.MACHINE_API: "machine_api", machine_apis.CLUSTER_API: "cluster_api"}
    actions = []
    for write in decided.writes:
        is_mark = now[write.api] == write.replicas
        to = said[write.api]
        actions.append(f"mark {to} at {write.replicas}" if is_mark else f"apply {write.replicas} to {to}")
    return {"why": decided.reason, "actions": actions}


_SECTIONS: Mapping[str, Callable[[Json, Json], Json]] = {
    "diff": _diff,
    "cluster_api_status_diff": _status_diff,
    "ignored_read": _ignored,
    "provider_spec_diff": _provider_spec,
    "labels_to_cluster_api_read": lambda case, _: {
        "output": machine_set_conversion.labels_to_cluster_api(case["input"])
    },
    "labels_to_machine_api_read": lambda case, _: {
        "output": machine_set_conversion.labels_to_machine_api(case["input"]) or None
    },
    "annotations_to_cluster_api_read": lambda case, _: {
        "output": machine_set_conversion.annotations_to_cluster_api(case["input"]) or None
    },
    "annotations_to_machine_api_read": lambda case, _: {
        "output": machine_set_conversion.annotations_to_machine_api(case["input"]) or None
    },
    "selector_read": _selector,
    "spec_read": _spec,
    "conversion_errors": _conversion_errors,
    "status_to_cluster_api": _status_to_cluster_api,
    "status_to_machine_api": _status_to_machine_api,
    "condition": _condition,
    "migration": _migration,
    "migration_read": _migration,
    "replicas_rule_notes": _replicas,
}


def run(path: Path) -> Iterator[Outcome]:
    policies: list[tuple[str, Json]] = []
    for section, constants, case in read_sections(path):
        if section.startswith("vap_"):
            policies.append((section, case))
            continue
        name = f"{section}: {case['name']}"
        if section == "sync":
            yield machineset_settled.evaluate(name, case)
            continue
        found = _SECTIONS[section](case, constants)
        expected = {**(case.get("seed_expect") or case["expect"]), **case.get("read", {})}
        differences = tuple(_compare(expected, found))
        yield Outcome(name, 0 if differences else 1, 1, differences)
    yield from machineset_policies.evaluate(policies)


def _compare(expected: Json, found: Json) -> Iterator[str]:
    for name, wanted in expected.items():
        was: Any = found.get(name)
        if name == "order_matters":
            continue
        if name == "error_contains":
            is_same = wanted in (was or "")
        elif name == "actions" and not expected.get("order_matters", True):
            is_same = sorted(wanted) == sorted(was or ())
        elif name == "status" and isinstance(wanted, Mapping) and "conditions_contain" in wanted:
            is_same = all(
                all(item in was["conditions_contain"] for item in value)
                if key == "conditions_contain"
                else was[key] == value
                for key, value in wanted.items()
            )
        elif name == "errors":
            is_same = len(wanted) == len(was) and all(text in entry for text, entry in zip(wanted, was, strict=True))
        else:
            is_same = was == wanted
        if not is_same:
            yield f"{name}: expected {wanted!r}, found {was!r}"
