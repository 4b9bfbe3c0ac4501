"""Single decisions of OpenShift's ClusterAutoscaler controller, put to the pure functions here.

`seed_expect` wins over `expect`; whole command lines and messages that were read in the source (`read`) are held to as
well. Where upstream writes at every pass, ours is to write nothing.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import controller, manifests, model, reconcile, webhook
from windlass.controllers.openshift.cluster_autoscaler.controller import event_target
from windlass.controllers.openshift.cluster_autoscaler.model import (
    ClusterAutoscalerPlan,
    ClusterAutoscalerSettings,
    DeleteObject,
    EnsureObject,
)
from windlass.controllers.openshift.cluster_autoscaler.reconcile import reconcile_cluster_autoscaler

NOW_S = 1_800_000_000.0


def _settings(case: Json, constants: Json) -> ClusterAutoscalerSettings:
    return ClusterAutoscalerSettings(
        cloud_provider=constants.get("cloud_provider", "clusterapi"),
        namespace=constants.get("namespace", "test-namespace"),
        verbosity=case.get("verbosity") or constants.get("verbosity") or 0,
    )


def _gates(case: Json) -> machine_apis.FeatureGates:
    return machine_apis.FeatureGates(case.get("platform", ""), frozenset(case.get("feature_gates", ())))


def _flags(case: Json, constants: Json) -> Json:
    settings = _settings(case, constants)
    args = manifests.autoscaler_args(case["spec"], settings, _gates(case))
    wanted = case["expect"]
    balancing = [flag for flag in args if flag.startswith(("--balanc",))]
    return {
        "args": args,
        "contains": [flag for flag in wanted.get("contains", ()) if flag in args],
        "no_prefix": [item for item in wanted.get("no_prefix", ()) if not any(flag.startswith(item) for flag in args)],
        "flags": balancing,
        "env_disable_clusterapi": "OPENSHIFT_CLUSTERAPI_DISABLE"
        in manifests.autoscaler_environment(settings, _gates(case)),
    }


def _validate(case: Json, constants: Json) -> Json:
    validation_result = webhook.validate_cluster_autoscaler(
        case["object_name"], case["spec"], constants["allowed_name"]
    )
    told = {"errors_any_order": sorted(validation_result.errors), "warnings": list(validation_result.warnings)}
    return {"valid": validation_result.is_valid, "warns": bool(validation_result.warnings), **told}


def _gpu_label(case: Json, _: Json) -> Json:
    return {"warning": machine_apis.check_accelerator_value(case["value"])}


def _response(case: Json, _: Json) -> Json:
    return {"valid": webhook.ValidationResult(tuple(case["errors"]), tuple(case["warnings"])).is_valid}


def _live(case: Json) -> dict[tuple[str, str], Json]:
    found = case["deployment"]
    return {(model.DEPLOYMENT.kind, found["metadata"]["name"]): found} if isinstance(found, dict) else {}


def _reconcile(case: Json, _: Json) -> Json:
    if case["request"] not in case["objects"]:  # then nothing is decided at all
        return {"error": None, "requeue": False, "actions": [], "deployment_afterwards": case["deployment"] is not None}
    autoscaler = model.ClusterAutoscaler(case["request"], is_deleting=bool(case.get("deleting")))
    plan = reconcile_cluster_autoscaler(
        model.ObservedClusterAutoscaler(autoscaler, live=_live(case)),
        ClusterAutoscalerSettings(name=case["singleton"]),
        NOW_S,
    )
    deleted = any(isinstance(step, DeleteObject) for step in plan.steps)
    made = any(isinstance(step, EnsureObject) for step in plan.steps)
    afterwards = made or (case["deployment"] is not None and not deleted)
    return {"error": plan.failure or None, "requeue": False, "deployment_afterwards": afterwards}


def _steps(case: Json, _: Json) -> Json:
    given = case["object"]
    if given is None:
        return {"actions": [], "events": [], "error": False}
    spec = {} if given["valid"] else {"resourceLimits": {"maxNodesTotal": -1}}
    autoscaler = model.ClusterAutoscaler("default", is_deleting=bool(given.get("deleting")), spec=spec)
    live = {}
    if case["deployment"] == "present":
        body = {"metadata": {"name": model.deployment_name("default"), "uid": "u"}}
        live = {(model.DEPLOYMENT.kind, model.deployment_name("default")): body}
    trouble = "<error>" if case["deployment"] == "error" else ""
    plan = reconcile_cluster_autoscaler(
        model.ObservedClusterAutoscaler(autoscaler, live=live, sync_error=trouble), ClusterAutoscalerSettings(), NOW_S
    )
    is_refused = any(event.type == "Warning" for event in plan.events)
    return {"actions": list(dict.fromkeys(_name_steps(plan))), "events": _events(plan), "error": is_refused}


_KINDS = {
    model.SERVICE.kind: "ensure monitoring",
    model.SERVICE_MONITOR.kind: "ensure monitoring",
    model.PROMETHEUS_RULE.kind: "ensure monitoring",
    model.NETWORK_POLICY.kind: "ensure network policies",
}


def _name_steps(plan: ClusterAutoscalerPlan) -> Iterator[str]:
    for step in plan.steps:
        is_new = isinstance(step, EnsureObject) and step.live is None
        yield _KINDS.get(step.resource.kind, "create Deployment" if is_new else "update Deployment")


def _events(plan: ClusterAutoscalerPlan) -> list[list[str]]:
    settings = ClusterAutoscalerSettings()
    target = f"{settings.namespace}/{model.deployment_name('default')}"
    return [
        [
            event.type,
            event.reason,
            event.message.replace(target, "<namespace>/cluster-autoscaler-<name>").replace(
                "ResourceLimits.MaxNodesTotal must be greater than 0", "<errors>"
            ),
        ]
        for event in plan.events
    ]


def _refer(case: Json, constants: Json) -> Json:
    """A ClusterAutoscaler has no namespace; whatever has one is told of in its own."""
    return event_target(
        model.ClusterAutoscaler("cluster-scoped"), case["namespace"] or constants["namespace"]
    ).reference()


def _annotations(case: Json, constants: Json) -> Json:
    settings = ClusterAutoscalerSettings(release_version=constants["release_version"])
    wanted = manifests.build_deployment(model.ClusterAutoscaler("default"), settings, machine_apis.FeatureGates())
    wanted["metadata"]["ownerReferences"] = []
    live = {"metadata": {"annotations": case["annotations"]}}
    made = controller.merge_into_live(EnsureObject(model.DEPLOYMENT, wanted, live))["metadata"]["annotations"]
    return {"annotations": {name: made.get(name) for name in case["expect"]["annotations"]}}


def _version(case: Json, _: Json) -> Json:
    return {"matches": manifests.has_version({"metadata": {"annotations": case["annotations"]}}, case["version"])}


def _rolled_out(case: Json, _: Json) -> Json:
    found = {"metadata": {"generation": case["generation"]}, "status": case["status"]}
    return {"updated": manifests.is_rolled_out(found)}


def _operator(given: Json | None, version: str | None = None) -> Json | None:
    if given is None:
        return None
    found = [
        {"type": kind, "status": status, "lastTransitionTime": "2020-01-01T00:00:00Z"} for kind, status in given.items()
    ]
    versions = [{"name": reconcile.OPERATOR_VERSION_NAME, "version": version}] if version else []
    return {"status": {"conditions": found, "versions": versions}}


def _deployment(given: Json | None) -> Json | None:
    if given is None:
        return None
    return {"metadata": {"annotations": {model.VERSION_ANNOTATION: given["version"]}}, "status": given["status"]}


def _machine_api(case: Json, _: Json) -> Json:
    found = _operator(case["machine_api"])
    trouble = reconcile.find_degradation(model.ObservedClusterOperators(machine_api=found), "1.0.0")
    error = trouble and trouble.message.partition("error checking machine-api status: ")[2]
    return {"ok": trouble is None, "error": error or None}


def _autoscaler(case: Json, constants: Json) -> Json:
    observed = model.ObservedClusterOperators(
        has_autoscaler=case["cluster_autoscaler"], deployment=_deployment(case["deployment"])
    )
    return {"ok": reconcile.is_deployment_synced(observed, constants["release_version"])}


_WELL = {"Available": "True", "Degraded": "False"}
_STATES = {
    "available": model.ObservedClusterOperators(machine_api=_operator(_WELL)),
    "progressing": model.ObservedClusterOperators(machine_api=_operator(_WELL), has_autoscaler=True),
    "degraded": model.ObservedClusterOperators(),
}


def _reports(case: Json, _: Json) -> Json:
    return _describe(_report_often([_STATES[item] for item in case["report"]], "1.0.0", None))


def _report(case: Json, constants: Json) -> Json:
    own = case["own_operator"]
    before = None if own is None else _operator(own["conditions"], own["version"])
    observed = model.ObservedClusterOperators(
        machine_api=_operator(case["machine_api"]),
        has_autoscaler=case["cluster_autoscaler"],
        deployment=_deployment(case["deployment"]),
    )
    return _describe(_report_often([observed] * case["calls"], constants["release_version"], before))


def _report_often(
    observeds: list[model.ObservedClusterOperators], version: str, own: Json | None
) -> reconcile.ClusterOperatorReport:
    """One pass after another, each as late as it is due."""
    memory = reconcile.DegradedHistory()
    for number, observed in enumerate(observeds):
        now_s = NOW_S + number * reconcile.STATUS_INTERVAL_S
        cluster_operator_report = reconcile.report_cluster_operator(
            dataclasses.replace(observed, own=own), memory, version, now_s
        )
        memory = cluster_operator_report.memory
        own = {
            "status": {"conditions": cluster_operator_report.conditions, "versions": cluster_operator_report.versions}
        }
    return cluster_operator_report


def _describe(cluster_operator_report: reconcile.ClusterOperatorReport) -> Json:
    said = {item["type"]: item for item in cluster_operator_report.conditions}
    told: Json = {
        "ok": cluster_operator_report.is_well,
        "conditions": {kind: entry["status"] for kind, entry in said.items()},
    }
    told["version"] = next((each["version"] for each in cluster_operator_report.versions), None)
    told["progressing_time_moved"] = said["Progressing"]["lastTransitionTime"] != "2020-01-01T00:00:00Z"
    for kind, condition in said.items():
        told[f"{kind.lower()}_reason"] = condition.get("reason")
        told[f"{kind.lower()}_message"] = condition.get("message")
    return told


def _step(case: Json, _: Json) -> Json:
    try:
        return {"progressing": reconcile.is_upgrade(case["new"], case["reported"]), "error": False}
    except reconcile.InvalidVersion:
        return {"progressing": False, "error": True}


_SECTIONS: Mapping[str, Callable[[Json, Json], Json]] = {
    "flags": _flags,
    "flags_read": _flags,
    "platform_labels": _flags,
    "validate": _validate,
    "gpu_label": _gpu_label,
    "validator_response": _response,
    "reconcile": _reconcile,
    "reconcile_read": _steps,
    "object_reference": _refer,
    "annotations": _annotations,
    "release_version": _version,
    "deployment_updated": _rolled_out,
    "status_machine_api": _machine_api,
    "status_autoscaler": _autoscaler,
    "status_reports": _reports,
    "status_version_change": _step,
    "status_report": _report,
}


def run(path: Path) -> Iterator[Outcome]:
    for section, constants, case in read_sections(path):
        expected = {**(case.get("seed_expect") or case["expect"]), **case.get("read", {})}
        if expected.get("conditions") == {}:
            del expected["conditions"]
        found = _SECTIONS[section](case, constants)
        differences = tuple(
            f"{name}: expected {wanted!r}, found {found.get(name)!r}"
            for name, wanted in expected.items()
            if found.get(name) != (sorted(wanted) if name.endswith("_any_order") else wanted)
        )
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)
