"""Single decisions of Cluster API's MachinePool controller and webhook, put to the pure functions here.

`seed_expect` wins over `expect`. Whole passes are played with the plan carried out on plain values until nothing is
left to do (`_live`), so that what upstream does in one pass and we do in two comes to the same.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.outcome import Json, Outcome, read_sections
from tests.controllers.machine_pool.builders import CLUSTER, CONFIG, GROUP, INFRA, NOW_S, external, pool, refs
from windlass.controllers.machine_pool import api_types, conditions, model, owned_objects, reconcile, watches, webhook
from windlass.controllers.machine_pool.model import MachinePoolSettings


def node(given: Json) -> model.Node:
    return model.Node(given["name"], f"uid-{given['name']}", "1", given.get("providerID", ""), bool(given.get("ready")))


# Phases


def _phase(case: Json, _: Json) -> Json:
    status = {
        "phase": case["phase"],
        "bootstrap_created": case["bootstrap_created"],
        "infrastructure_provisioned": case["infrastructure_provisioned"],
        "node_refs": refs([str(number) for number in range(case["node_refs"])]),
        "nodes": model.NodeCounts(case["ready_replicas"]),
    }
    annotations = {model.MANAGED_BY_ANNOTATION: value} if (value := case.get("managed_by")) is not None else {}
    machine_pool = pool(
        status=status,
        replicas=case["replicas"],
        deleted_s=NOW_S if case["deleting"] else None,
        annotations=case.get("annotations") or annotations,
    )
    return {"phase": conditions.compute_phase(machine_pool)}


# Bootstrap


def _bootstrap_change(case: Json, _: Json) -> Json:
    """The name that is there was copied from the old config."""
    running = {
        "phase": model.RUNNING,
        "bootstrap_created": True,
        "infrastructure_provisioned": True,
        "node_refs": refs(["node"]),
        "nodes": model.NodeCounts(1, 1),
        "replicas": 1,
    }
    before = pool(status=running, data_secret_name=case["old"]["secret"], is_secret_copied=True, bootstrap_ref=CONFIG)
    new = case["new"]
    status = {"initialization": {"dataSecretCreated": new["ready"]}, "dataSecretName": new["secret"]}
    verdict = conditions.reconcile_bootstrap(before, external(CONFIG, status=status), rotate=False)
    after = dataclasses.replace(before.status, bootstrap_created=verdict.created)
    return {
        "phase": conditions.compute_phase(dataclasses.replace(before, status=after)),
        "data_secret_name": verdict.data_secret_name,
        "bootstrap_created": verdict.created,
        "requeue_s": 0,
    }


def _bootstrap(case: Json, _: Json) -> Json:
    config: model.ProviderObject | model.MissingObject | None = None
    if case["config_ref"]:
        given = case["config"]
        config = model.MissingObject(CONFIG) if given is None else external(CONFIG, status=_bootstrap_status(given))
    before = pool(
        data_secret_name=case["data_secret_name"],
        bootstrap_ref=CONFIG if config else None,
        status={"bootstrap_created": case["bootstrap_created"]},
    )
    verdict = conditions.reconcile_bootstrap(before, config, rotate=False)
    return {
        "error": bool(verdict.problem),
        "bootstrap_created": bool(verdict.created),
        "data_secret_name": verdict.data_secret_name,
        "requeue_s": 0,
    }


def _bootstrap_status(given: Json) -> Json:
    status = {"initialization": {"dataSecretCreated": given.get("dataSecretCreated")}}
    return {**status, **({"dataSecretName": given["dataSecretName"]} if "dataSecretName" in given else {})}


# Infrastructure and whole passes


def _infrastructure(case: Json, _: Json) -> Json:
    given = case["pool"]["status"]
    status = {
        "infrastructure_provisioned": given.get("infrastructureProvisioned"),
        "bootstrap_created": given.get("bootstrapDataSecretCreated"),
        "node_refs": refs(given.get("nodeRefs") or []),
    }
    before = pool(replicas=case["pool"]["replicas"], status=status)
    made = _live(_seen(before, external(INFRA, case["infra"]["spec"], case["infra"]["status"]), []))
    after = made.pool.status
    return {
        "error": bool(made.failures),
        "requeue_s": made.again_s or 0,
        "infrastructure_provisioned": after.infrastructure_provisioned,
        "ready": after.nodes.ready,
        "available": after.nodes.available,
        "unavailable": after.nodes.unavailable,
        "failureReason": after.failure_reason or None,
        "failureMessage": after.failure_message or None,
        "phase": after.phase,
    }


def _scale_zero(case: Json, _: Json) -> Json:
    given = case["infra"]
    infra = external(INFRA, {"providerIDList": given["providerIDList"]}, {"ready": True, "replicas": given["replicas"]})
    before = pool(replicas=case["replicas"], status={"node_refs": refs(case["node_refs"])})
    world = _seen(before, infra, [node(item) for item in case["nodes"]])
    made = _live(world)
    left = isinstance(made.world.nodes, tuple) and bool(made.world.nodes)
    return {"phase": made.pool.status.phase, "node_kept": left, "requeue_s": made.again_s or 0}


def _seen(
    before: model.MachinePool, infra: model.ProviderObject | model.MissingObject, there: list[model.Node], **more: Any
) -> model.ObservedMachinePool:
    return model.ObservedMachinePool(before, CLUSTER, more.pop("config", None), infra, tuple(there), **more)


@dataclasses.dataclass
class Lived:
    """What a world came to."""

    pool: model.MachinePool
    world: model.ObservedMachinePool
    failures: tuple[str, ...]
    again_s: float | None
    is_gone: bool = False


def _live(world: model.ObservedMachinePool, now_s: float = NOW_S, *, node_delete_fails: bool = False) -> Lived:
    """Carry out plans on values until nothing is left to do."""
    for _ in range(5):
        made = reconcile.reconcile_machine_pool(world, MachinePoolSettings(), now_s)
        failures = list(made.failures)
        there = list(world.nodes) if isinstance(world.nodes, tuple) else []
        for step in made.steps:
            if isinstance(step, model.DeleteNode):
                if node_delete_fails:
                    failures.append("node")
                else:
                    there = [each for each in there if each.name != step.name]
        is_gone = world.pool.is_deleting and model.FINALIZER not in made.pool.finalizers
        changed = dataclasses.replace(world, pool=made.pool, nodes=tuple(there))
        if changed == world or is_gone:
            return Lived(made.pool, changed, tuple(failures), made.requeue_after_s, is_gone)
        world = changed
    return Lived(made.pool, world, tuple(failures), made.requeue_after_s)


def _reconcile(case: Json, _: Json) -> Json:
    given = case["pool"]
    deleted = given["deleted_s_ago"]
    before = pool(
        finalizers=tuple(given["finalizers"]),
        provider_ids=tuple(given["providerIDList"]),
        status={"node_refs": refs(given["nodeRefs"])},
        deleted_s=None if deleted is None else NOW_S - deleted,
        node_deletion_timeout_s=given["timeout_s"],
    )
    infra: model.ProviderObject | model.MissingObject = external(
        INFRA, {"providerIDList": given["providerIDList"]}, {"ready": True}
    )
    if not case["infra_exists"]:
        infra = model.MissingObject(INFRA)
    there = [node(item) for item in case["nodes"]]
    made = _live(_seen(before, infra, there), node_delete_fails=case["node_delete_fails"])
    is_waiting = bool(made.failures)
    return {"pool_exists": not made.is_gone, "error": is_waiting, "requeue_s": 0 if is_waiting else made.again_s or 0}


# Nodes


def _node_references(case: Json, constants: Json) -> Json:
    known = owned_objects.index_by_provider_id(node(item) for item in constants["nodes"])
    node_summary = owned_objects.summarize_nodes(case["provider_ids"], known, case["min_ready_seconds"], NOW_S)
    if case["provider_ids"] and not node_summary.found:
        return {"error": "cannot find nodes with matching ProviderIDs in ProviderIDList"}
    return {
        "node_refs": [ref.name for ref in node_summary.refs],
        "ready": node_summary.ready,
        "available": node_summary.available,
    }


def _node_map(case: Json, _: Json) -> Json:
    nodes = owned_objects.index_by_provider_id(node(item) for item in case["nodes"])
    return {"map": {provider_id: each.name for provider_id, each in nodes.items()}}


def _patch_nodes(case: Json, _: Json) -> Json:
    namespace, _, name = case["pool"].partition("/")
    owner = pool(namespace=namespace, name=name, cluster_name=case["cluster"])
    there = [
        model.Node(
            item["name"],
            annotations=item["annotations"],
            taints=tuple(model.Taint(taint["key"], taint) for taint in item["taints"]),
        )
        for item in case["nodes"]
    ]
    patches = {patch.node.name: patch for patch in owned_objects.plan_node_patches(owner, there)}
    return {"nodes": [_patched(each, patches.get(each.name)) for each in there]}


def _patched(before: model.Node, patch: model.PatchNode | None) -> Json:
    taints = before.taints if patch is None or patch.taints is None else patch.taints
    annotations = {**before.annotations, **(patch.annotations if patch else {})}
    return {"name": before.name, "annotations": annotations, "taints": [dict(taint.body) for taint in taints] or None}


# Machines


def _machines(case: Json, _: Json) -> Json:
    owner = pool(name=case["pool"], cluster_name="c")
    infra = external(INFRA, status={"infrastructureMachineKind": case["infrastructure_machine_kind"]})
    known = [
        model.InfraMachine(model.ObjectReference(GROUP, "InfraMachine", item["name"]))
        for item in case["infra_machines"]
    ]
    there = [
        model.Machine(f"machine-{entry['infra']}", infrastructure_name=entry["infra"]) for entry in case["machines"]
    ]
    kind = api_types.read_machine_kind(infra.status)
    steps = owned_objects.plan_machines(owner, known if kind else (), there, {})
    return {"machines": len({machine.name for machine in there} | {step.name for step in steps})}


def _infra_machine_to_pool(case: Json, constants: Json) -> Json:
    given = case["infra_machine"]
    wanted = watches.machine_index_keys(given["namespace"], given["labels"])
    for item in constants["pools"]:
        candidate = pool(name=item["name"], namespace=item["namespace"], cluster_name=item["cluster"])
        if watches.machine_index_key(candidate) in wanted:
            return {"pool": candidate.key}
    return {"pool": None}


def _replicas_and_versions(case: Json, _: Json) -> Json:
    before = pool(replicas=case.get("spec_replicas"), status={"replicas": case.get("status_replicas")})
    if case["has_machines"]:
        after = reconcile.set_counters_from_machines(before, [_machine(item) for item in case["machines"]])
    else:
        known = case.get("node_versions") or {}
        versions = owned_objects.count_versions(known.get(name, "") for name in case.get("node_refs") or ())
        after = reconcile.set_counters_from_infrastructure(before, versions)
    status = after.status
    return {
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "upToDateReplicas": status.up_to_date_replicas,
        "versions": [{"version": version, "replicas": count} for version, count in status.versions] or None,
    }


def _machine(given: Json) -> model.Machine:
    said = given.get("conditions") or {}
    return model.Machine(
        "machine",
        version=given["version"],
        is_ready=said.get("Ready") == "True",
        is_available=said.get("Available") == "True",
        up_to_date=model.Condition("UpToDate", said["UpToDate"]) if "UpToDate" in said else None,
    )


def _has_machines(case: Json, _: Json) -> Json:
    given = case["infra"]
    if given is None:
        verdict = conditions.reconcile_infrastructure(pool(), model.MissingObject(INFRA))
        return {"has_machines": False, "error": bool(verdict.problem)}
    return {"has_machines": bool(api_types.read_machine_kind(given["status"])), "error": False}


# Ownership


def _finalizer(case: Json, _: Json) -> Json:
    before = pool(finalizers=tuple(case["finalizers"]))
    made = reconcile.reconcile_machine_pool(_seen(before, model.MissingObject(INFRA), []), MachinePoolSettings(), NOW_S)
    return {"finalizers": list(made.pool.finalizers)}


def _owners(case: Json, _: Json) -> Json:
    cluster = model.Cluster(case["cluster"]["name"], case["cluster"].get("uid", ""))
    before = pool(finalizers=(), cluster_name=cluster.name, bootstrap_ref=CONFIG)
    observed = model.ObservedMachinePool(before, cluster, external(CONFIG), external(INFRA))
    first = reconcile.reconcile_machine_pool(observed, MachinePoolSettings(), NOW_S)
    second = reconcile.reconcile_machine_pool(
        dataclasses.replace(observed, pool=first.pool), MachinePoolSettings(), NOW_S
    )
    adopted = {step.external.reference: step for step in second.steps if isinstance(step, model.AdoptProviderObject)}
    return {
        "first_pass": {"finalizers_contain": first.pool.finalizers[0]},
        "second_pass": {
            "ownerReferences": [
                {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
                for owner in second.pool.owners
            ]
        },
        "bootstrap": {"owners": len(adopted[CONFIG].owners), "label": adopted[CONFIG].labels},
        "infra": {"owners": len(adopted[INFRA].owners), "label": adopted[INFRA].labels},
    }


# Deletion


def _node_delete_timeout(case: Json, _: Json) -> Json:
    ago = case["deleted_s_ago"]
    going = pool(deleted_s=None if ago is None else NOW_S - ago, node_deletion_timeout_s=case["timeout_s"])
    return {"passed": reconcile.is_node_deletion_timed_out(going, NOW_S)}


def _delete_external(case: Json, _: Json) -> Json:
    config = external(CONFIG) if case["bootstrap_exists"] else model.MissingObject(CONFIG)
    infra = external(INFRA) if case["infra_exists"] else model.MissingObject(INFRA)
    going = pool(deleted_s=NOW_S, bootstrap_ref=CONFIG)
    verdict = reconcile.reconcile_deletion(model.ObservedMachinePool(going, CLUSTER, config, infra), NOW_S)
    words = {CONFIG: "bootstrap", INFRA: "infra"}
    deletes = [words[step.external.reference] for step in verdict.steps if isinstance(step, model.DeleteProviderObject)]
    return {"done": verdict.is_done, "deletes": deletes, "error": bool(verdict.problem)}


# Conditions


def _conditions(case: Json, _: Json) -> Json:
    """Nodes whose Ready status the table leaves empty are as ready as the pool's counter says: it is recounted here."""
    ids = ["azure://westus2/id-node-4", "aws://us-east-1/id-node-1"]
    given = case["pool"]
    ready = given.get("ready_replicas", 0) == len(ids)
    there = [
        model.Node(name, f"uid-{name}", "1", item, ready)
        for name, item in zip(("azure-node-4", "node-1"), ids, strict=True)
    ]
    config = external(CONFIG, status={**_bootstrap_status(case["bootstrap"]), **_conditions_of(case["bootstrap"])})
    infra: model.ProviderObject | model.MissingObject = model.MissingObject(INFRA)
    if case["infra"] is not None:
        status = {"ready": case["infra"]["ready"], **_conditions_of(case["infra"])}
        infra = external(INFRA, {"providerIDList": case["infra"]["providerIDList"]}, status)
    before = pool(
        replicas=given["replicas"],
        data_secret_name=None,
        bootstrap_ref=CONFIG,
        provider_ids=tuple(given.get("providerIDList") or ()),
        status={"node_refs": refs(given.get("nodeRefs") or []), "replicas": given.get("status_replicas")},
    )
    made = _live(_seen(before, infra, there, config=config))
    found = {condition.type: condition for condition in made.pool.status.old_conditions}
    wanted = case["expect"].get("conditions") or []
    return {
        "error": bool(made.failures),
        "all_true": all(condition.status == "True" for condition in found.values()),
        "conditions": [
            {key: getattr(found[entry["type"]], key) for key in entry} for entry in wanted if entry["type"] in found
        ],
    }


def _conditions_of(given: Json) -> Json:
    return {"conditions": given["conditions"]} if "conditions" in given else {}


# Webhook


def _webhook_default(case: Json, _: Json) -> Json:
    made = webhook.default_machine_pool({"metadata": {"name": "pool"}, "spec": case["spec"]}, None)
    machine = made["spec"]["template"]["spec"]
    label = made["metadata"]["labels"][model.CLUSTER_NAME_LABEL]
    return {
        f"label {model.CLUSTER_NAME_LABEL}": "<spec.clusterName>" if label == case["spec"]["clusterName"] else label,
        "replicas": made["spec"]["replicas"],
        "version": machine["version"],
        "nodeDeletionTimeoutSeconds": machine["deletion"]["nodeDeletionTimeoutSeconds"],
    }


def _validate(
    case: Json, machine: Json, cluster: str = "", old: str | None = None, metadata: Json | None = None
) -> Json:
    machine = {"bootstrap": {"dataSecretName": "data"}, "clusterName": cluster, **machine}
    made = {"spec": {"clusterName": cluster, "template": {"metadata": metadata or {}, "spec": machine}}}
    before = None if old is None else {"spec": {"clusterName": old}}
    complaints = webhook.validate_machine_pool(made, before)
    wanted = (case.get("read") or {}).get("message_contains", "")
    if wanted and not any(wanted in item for item in complaints):
        return {"valid": f"complaints {complaints} do not have {wanted!r}"}
    return {"valid": not complaints}


def _webhook_metadata(case: Json, _: Json) -> Json:
    return _validate(case, {}, metadata={"labels": case["labels"], "annotations": case["annotations"]})


_SECTIONS = {
    "phases": _phase,
    "phases_read": _phase,
    "bootstrap_change": _bootstrap_change,
    "bootstrap": _bootstrap,
    "infrastructure": _infrastructure,
    "scale_zero": _scale_zero,
    "node_references": _node_references,
    "node_map": _node_map,
    "patch_nodes": _patch_nodes,
    "machines": _machines,
    "infra_machine_to_pool": _infra_machine_to_pool,
    "replicas_and_versions": _replicas_and_versions,
    "has_machines": _has_machines,
    "finalizer": _finalizer,
    "owners": _owners,
    "reconcile": _reconcile,
    "node_delete_timeout": _node_delete_timeout,
    "delete_external": _delete_external,
    "conditions": _conditions,
    "webhook_default": _webhook_default,
    "webhook_bootstrap": lambda case, _: _validate(case, {"bootstrap": case["bootstrap"]}),
    "webhook_cluster_name_change": lambda case, _: _validate(case, {}, case["new"], case["old"]),
    "webhook_cluster_names": lambda case, _: _validate(case, {"clusterName": case["template"]}, case["spec"]),
    "webhook_version": lambda case, _: _validate(case, {"version": case["version"]}),
    "webhook_metadata": _webhook_metadata,
}


def run(path: Path) -> Iterator[Outcome]:
    for section, constants, case in read_sections(path):
        decide = _SECTIONS.get(section)
        if decide is None:
            yield Outcome(case["name"], 0, 1, (f"no runner for section {section!r}",))
            continue
        expected = case.get("seed_expect") or case["expect"]
        found = decide(case, constants)
        differences = [
            f"{key}: expected {value!r}, found {found.get(key)!r}"
            for key, value in expected.items()
            if found.get(key) != value
        ]
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, tuple(differences))
