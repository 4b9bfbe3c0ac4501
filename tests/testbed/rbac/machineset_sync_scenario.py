"""The story of the mirroring of MachineSets: all that it has rights for happens to three pairs."""

import functools
import operator

from testbed import objects
from testbed.api import Object
from testbed.bed import Bed
from tests.testbed import machine_set_pairs
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model

_TEMPLATES = f"/apis/{objects.INFRASTRUCTURE}/namespaces/{CLUSTER_API.namespace}/fakemachinetemplates"


def report(bed: Bed) -> None:
    keep_template_inside(bed, "inside")
    mark_machine(bed, "marking")
    complain_of_holder(bed, "unreadable", "nameless")
    delete_mirror(bed, "unwanted")


def delete_mirror(bed: Bed, name: str) -> None:
    """A mirror is deleted, and nothing that it would go with is: its set goes as well."""
    machine_set_pairs.add_set(bed, name, 0)
    machine_set_pairs.wait_held(bed, name, "MachineAPI")
    bed.api.delete(machine_set_pairs.place(CLUSTER_API, name))
    machine_set_pairs.wait(
        f"{name} is gone", lambda: machine_set_pairs.sizes(bed, name), lambda now: now == (None, None)
    )


def keep_template_inside(bed: Bed, name: str) -> None:
    """A set that has its template inside: one is made of it, another of another content, and it goes with the set."""
    machine_set_pairs.add_set(bed, name, 0)
    for cpu in ("2", "4"):
        value = {"metadata": None, "spec": {"template": {"spec": {"capacity": {"cpu": cpu}}}}}
        bed.api.merge(
            machine_set_pairs.place(MACHINE_API, name), {"spec": _within_machines({"providerSpec": {"value": value}})}
        )
        machine_set_pairs.wait(
            f"{name} has one of {cpu}", lambda: _cpus(bed, name), functools.partial(operator.eq, [cpu])
        )
    machine_set_pairs.wait_held(bed, name, "MachineAPI")
    bed.api.delete(machine_set_pairs.place(MACHINE_API, name))
    machine_set_pairs.wait(
        f"{name} is gone",
        lambda: (*machine_set_pairs.sizes(bed, name), *_cpus(bed, name)),
        lambda now: now == (None, None),
    )


def _cpus(bed: Bed, name: str) -> list[str]:
    """Of the templates that were made for a set."""
    found = bed.api.items(_TEMPLATES, labelSelector=f"{model.SET_LABEL}={name}")
    return [item["spec"]["template"]["spec"]["capacity"]["cpu"] for item in found]


def _within_machines(spec: Object) -> Object:
    return {"template": {"spec": spec}}


def mark_machine(bed: Bed, name: str) -> None:
    """A set has a Machine, which is counted; the autoscaler marks it in the mirror, and its twin is marked as well."""
    machine_set_pairs.add_set(bed, name, 1)
    machine_set_pairs.wait_held(bed, name, "MachineAPI")
    machine = f"{name}-1"
    machine_set_pairs.add_twins(bed, machine, {model.SET_LABEL: name})
    machine_set_pairs.count(bed, name, 1, 1)
    mark = {"metadata": {"annotations": {CLUSTER_API.delete_machine: "now"}}}
    path = f"{machine_set_pairs.place_machine(CLUSTER_API, machine)}?fieldManager={machine_apis.AUTOSCALER_MANAGER}"
    bed.api.acting_as(machine_set_pairs.AUTOSCALER).merge(path, mark)

    def probe() -> Object:
        found: Object = bed.api.get(machine_set_pairs.place_machine(MACHINE_API, machine))["metadata"].get(
            "annotations", {}
        )
        return found

    machine_set_pairs.wait(f"{machine} is marked", probe, lambda now: now.get(MACHINE_API.delete_machine) == "now")


def complain_of_holder(bed: Bed, unreadable: str, nameless: str) -> None:
    """What is wrong is told of the set that holds, and told again; the older API lets a reference have no name."""
    machine_set_pairs.add_set(bed, unreadable, 0)
    machine_set_pairs.add_set(bed, nameless, 0, "ClusterAPI")
    machine_set_pairs.wait_held(bed, nameless, "ClusterAPI")
    said = {"metadata": {"annotations": {machine_apis.MEMORY_MB_ANNOTATION: "much"}}}
    bed.api.merge(machine_set_pairs.place(MACHINE_API, unreadable), said)
    reference = {"spec": _within_machines({"infrastructureRef": {"name": None}})}
    older = machine_set_pairs.place(CLUSTER_API, nameless, machine_set_pairs.V1BETA1)
    machine_set_pairs.wait_allowed(f"a change of {nameless}", lambda: bed.api.merge(older, reference))
    for which, name in ((MACHINE_API, unreadable), (CLUSTER_API, nameless)):
        for count in (1, 2):
            _wait_told(bed, which, name, count)
            bed.api.merge(
                machine_set_pairs.place(which, name), {"metadata": {"labels": {"looked-at": f"again-{count}"}}}
            )
    bed.api.delete(machine_set_pairs.place(CLUSTER_API, nameless))
    machine_set_pairs.wait(
        "both are gone", lambda: machine_set_pairs.sizes(bed, nameless), lambda now: now == (None, None)
    )


def _wait_told(bed: Bed, which: machine_apis.MachineApi, name: str, count: int) -> None:
    def probe() -> int:
        place = f"/api/v1/namespaces/{which.namespace}/events"
        found = bed.api.items(place, fieldSelector=f"involvedObject.name={name},type=Warning")
        return max((item["count"] for item in found), default=0)

    machine_set_pairs.wait(f"{name} is told of {count} times", probe, lambda now: now >= count)
