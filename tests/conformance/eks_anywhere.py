"""Single decisions of EKS Anywhere's controller, put to the pure functions here. `seed_expect` wins over `expect`.

Whole texts that were read in the source (`read.message`) are held to as well. Upstream's own tests name a
MachineDeployment like its group; ours are told so.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers import machine_deployments
from windlass.controllers.eks_anywhere import model, reconcile
from windlass.controllers.eks_anywhere.reconcile import reconcile_cluster

NOW_S = 1_800_000_000.0
MACHINE = machine_deployments.MachineTemplate({"dataSecretName": "s"}, {"apiGroup": "g", "kind": "K", "name": "n"})


def _cluster(case: Json, name: str, groups: list[model.WorkerNodeGroup]) -> model.Cluster:
    conditions = tuple(model.parse_condition(item) for item in case["conditions"])
    return model.Cluster(
        model.NAMESPACE,
        name,
        control_plane_count=case.get("count", 1),
        is_in_place=case.get("upgrade_strategy") == model.IN_PLACE,
        has_external_etcd=case.get("external_etcd") is not None,
        groups=tuple(groups),
        status=model.ClusterStatus(conditions),
    )


def _workers(case: Json, constants: Json) -> Json:
    cluster = case.get("cluster") or constants["cluster"]
    groups = [model.parse_group(cluster, given, place) for place, given in enumerate(case["groups"])]
    if "cluster" not in case:
        groups = [dataclasses.replace(group, machine_deployment=group.name) for group in groups]
    if case.get("upgrade_strategy") == model.IN_PLACE:
        groups = [dataclasses.replace(group, is_in_place=True) for group in groups]
    labelled = machine_deployments.CLUSTER_NAME_LABEL
    listed = [item for item in case["machine_deployments"] if item["metadata"].get("labels", {}).get(labelled)]
    groups = [dataclasses.replace(group, machine=MACHINE) for group in groups]
    return _conditions(
        model.ObservedCluster(
            _cluster(case, cluster, groups),
            "cluster.x-k8s.io/v1beta2",
            model.NAMESPACE,
            machine_deployments=tuple(machine_deployments.parse_machine_deployment(entry) for entry in listed),
        )
    )


def _control_plane(case: Json, constants: Json) -> Json:
    given, etcd = case["kubeadm_control_plane"], case["external_etcd"]
    found = None
    if etcd is not None and etcd["cluster_has_ref"]:
        told = etcd["etcd"]
        status = {"observedGeneration": told["observedGeneration"], "ready": told["ready"]}
        found = model.parse_etcd({"metadata": {"generation": told["generation"]}, "status": status})
    return _conditions(
        model.ObservedCluster(
            _cluster(case, constants["cluster"], []),
            "cluster.x-k8s.io/v1beta2",
            model.NAMESPACE,
            control_plane=None if given is None else model.parse_control_plane(given),
            etcd=found,
        )
    )


def _conditions(observed: model.ObservedCluster) -> Json:
    plan = reconcile_cluster(observed, NOW_S)
    return {condition.type: dataclasses.asdict(condition) for condition in plan.status.conditions}


def _cni(case: Json, _: Json) -> Json:
    before = {item["type"]: model.parse_condition(item) for item in case["conditions"]}
    condition = reconcile.cni_configured_condition(
        before.get(model.CONTROL_PLANE_READY), before.get(model.DEFAULT_CNI_CONFIGURED)
    )
    return {} if condition is None else {condition.type: dataclasses.asdict(condition)}


def _validate(case: Json, _: Json) -> Json:
    if case["group"] is None:
        return {"error_contains": None}
    return {"error_contains": reconcile.validate_size(model.parse_group("c", case["group"]).size) or None}


def _default(case: Json, _: Json) -> Json:
    group = model.parse_group("c", case["group"])
    given = case["group"].get("autoscalingConfiguration")
    made = {"name": group.name, "count": group.size.replicas}
    return {"group": {**made, **({"autoscalingConfiguration": given} if given else {})}}


def _machine_deployment(case: Json, _: Json) -> Json:
    """As a new one is applied."""
    given = {"name": "g", "count": case["replicas"], "autoscalingConfiguration": case["autoscaling"]}
    group = dataclasses.replace(model.parse_group("c", given), machine=MACHINE)
    cluster = model.Cluster(model.NAMESPACE, "c", groups=(group,))
    (step,) = reconcile_cluster(
        model.ObservedCluster(cluster, "cluster.x-k8s.io/v1beta2", model.NAMESPACE), NOW_S
    ).steps
    body = step.body  # type: ignore[union-attr]
    assert body is not None
    return {"annotations": body["metadata"].get("annotations", {}), "replicas": body["spec"].get("replicas")}


_SECTIONS: Mapping[str, Callable[[Json, Json], Json]] = {
    "workers": _workers,
    "workers_seed": _workers,
    "control_plane": _control_plane,
    "cni": _cni,
    "validate_autoscaling": _validate,
    "defaults": _default,
    "machine_deployment": _machine_deployment,
}


def run(path: Path) -> Iterator[Outcome]:
    for section, constants, case in read_sections(path):
        expected = case.get("seed_expect") or case["expect"]
        found = _SECTIONS[section](case, constants)
        differences = tuple(_compare({**expected, **case.get("read", {})}, found))
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)


def _compare(expected: Json, found: Json) -> Iterator[str]:
    if "condition" in expected:
        wanted = expected["condition"]
        condition = found.get(wanted["type"], {})
        pairs: list[tuple[Any, Any]] = [(value, condition.get(name)) for name, value in wanted.items()]
        if "message" in expected:
            pairs.append((expected["message"], condition.get("message")))
        if expected.get("message_contains", "") not in (condition.get("message") or ""):
            pairs.append((expected["message_contains"], condition.get("message")))
    else:
        pairs = [(value, found.get(name)) for name, value in expected.items()]
    yield from (f"expected {wanted!r}, found {was!r}" for wanted, was in pairs if wanted != was)
