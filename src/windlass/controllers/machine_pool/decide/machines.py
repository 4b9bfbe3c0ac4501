"""Machines: one for each machine of an infrastructure pool that says it has some. They are never deleted here."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from windlass import selectors
from windlass.controllers.machine_pool import names
from windlass.controllers.machine_pool.decide import ownership
from windlass.controllers.machine_pool.facts import Condition, InfraMachine, Machine, Node, Pool
from windlass.controllers.machine_pool.plan import ApplyMachine, MarkMachine

UP_TO_DATE = Condition("UpToDate", "True", "UpToDate")
NOT_UP_TO_DATE = Condition("UpToDate", "False", "NotUpToDate", "Machine is being deleted")


def is_of(pool: Pool, machine: Machine) -> bool:
    """Whether the pool may count a Machine with its labels: not if another owner controls it."""
    controller = next((owner for owner in machine.owners if owner.controller), None)
    return controller is None or controller.uid == pool.uid


def align(
    pool: Pool, infra_machines: Iterable[InfraMachine], machines: Iterable[Machine], nodes: Mapping[str, Node]
) -> list[ApplyMachine]:
    """What it takes for every infrastructure machine to have a Machine as it should be."""
    existing = {machine.infrastructure_name: machine for machine in machines}
    steps = []
    for infra in infra_machines:
        machine = existing.get(infra.reference.name)
        if machine is None and infra.is_deleting:
            continue
        node = nodes.get(infra.provider_id)
        version = (node.kubelet_version if node else "") or (machine.version if machine else "")
        wanted = _compose(pool, infra, machine, version)
        if machine is None or _differs(machine, wanted, version):
            steps.append(ApplyMachine(wanted["metadata"]["name"], wanted))
    return steps


def _compose(pool: Pool, infra: InfraMachine, machine: Machine | None, version: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": machine.name if machine else infra.reference.name,
        "namespace": pool.namespace,
        "labels": {
            **pool.template_labels,
            names.POOL_NAME_LABEL: names.label_value(pool.name),
            names.CLUSTER_NAME_LABEL: pool.cluster_name,
        },
        "annotations": dict(pool.template_annotations),
        "ownerReferences": [ownership.spell(ownership.controlled_by(pool))],
    }
    if machine is not None:
        metadata["uid"] = machine.uid
    if not pool.template_annotations:
        del metadata["annotations"]
    return {
        "metadata": metadata,
        "spec": {
            "clusterName": pool.cluster_name,
            "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": _spell_reference(pool, infra),
            **({"version": version} if version else {}),
        },
    }


def _spell_reference(pool: Pool, infra: InfraMachine) -> dict[str, str]:
    reference = {"kind": infra.reference.kind, "name": infra.reference.name}
    if pool.api_version == names.V1BETA1:
        return {"apiVersion": infra.api_version, **reference, "namespace": pool.namespace}
    return {"apiGroup": infra.reference.group, **reference}


def _differs(machine: Machine, wanted: Mapping[str, Any], version: str) -> bool:
    metadata = wanted["metadata"]
    labels, annotations = metadata["labels"], metadata.get("annotations", {})
    owned = {("labels", key) for key in labels} | {("annotations", key) for key in annotations}
    return (
        not labels.items() <= machine.labels.items()
        or not annotations.items() <= machine.annotations.items()
        or not machine.applied <= owned
        or metadata["ownerReferences"][0] not in [ownership.spell(owner) for owner in machine.owners]
        or machine.version != version
    )


def mark(machines: Iterable[Machine]) -> list[MarkMachine]:
    """Say on every Machine whether it is up to date: as long as nobody deletes it, it is."""
    return [MarkMachine(machine.name, wanted) for machine in machines if not _says(machine, wanted := _judge(machine))]


def as_marked(machines: Iterable[Machine]) -> list[Machine]:
    """The Machines as they will be once they are marked."""
    return [dataclasses.replace(machine, up_to_date=_judge(machine)) for machine in machines]


def _judge(machine: Machine) -> Condition:
    wanted = NOT_UP_TO_DATE if machine.is_deleting else UP_TO_DATE
    return dataclasses.replace(wanted, observed_generation=machine.generation)


def _says(machine: Machine, wanted: Condition) -> bool:
    said = machine.up_to_date
    return said is not None and dataclasses.replace(said, since="") == wanted


def versions(found: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """How many there are of each version, lowest version first; those that say none are left out."""
    counted = Counter(version for version in found if version)
    return tuple(sorted(counted.items(), key=lambda item: _precedence(item[0])))


def _precedence(version: str) -> tuple[list[int], str]:
    core = version.removeprefix("v").partition("-")[0].partition("+")[0]
    numbers = map(selectors.parse_int64, core.split("."))
    return [-1 if number is None else number for number in numbers], version
