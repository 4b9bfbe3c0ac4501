"""The story of the mirroring of MachineSets: all that it has rights for happens to three pairs."""

import functools
import operator

from testbed import objects
from testbed.api import Object
from testbed.bed import Bed
from tests.testbed import pairs
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model

_TEMPLATES = f"/apis/{objects.INFRASTRUCTURE}/namespaces/{CLUSTER_API.namespace}/fakemachinetemplates"


def tell(bed: Bed) -> None:
    keep_template_inside(bed, "inside")
    mark_machine(bed, "marking")
    complain_of_holder(bed, "unreadable", "nameless")


def keep_template_inside(bed: Bed, name: str) -> None:
    """A set that has its template inside: one is made of it, another of another content, and it goes with the set."""
    pairs.add_set(bed, name, 0)
    for cpu in ("2", "4"):
        value = {"metadata": None, "spec": {"template": {"spec": {"capacity": {"cpu": cpu}}}}}
        bed.api.merge(pairs.place(MACHINE_API, name), {"spec": _within_machines({"providerSpec": {"value": value}})})
        pairs.wait(f"{name} has one of {cpu}", lambda: _cpus(bed, name), functools.partial(operator.eq, [cpu]))
    pairs.wait_held(bed, name, "MachineAPI")
    bed.api.delete(pairs.place(MACHINE_API, name))
    pairs.wait(f"{name} is gone", lambda: (*pairs.sizes(bed, name), *_cpus(bed, name)), lambda now: now == (None, None))


def _cpus(bed: Bed, name: str) -> list[str]:
    """Of the templates that were made for a set."""
    found = bed.api.items(_TEMPLATES, labelSelector=f"{model.SET_LABEL}={name}")
    return [each["spec"]["template"]["spec"]["capacity"]["cpu"] for each in found]


def _within_machines(spec: Object) -> Object:
    return {"template": {"spec": spec}}


def mark_machine(bed: Bed, name: str) -> None:
    """A set has a Machine, which is counted; the autoscaler marks it in the mirror, and its twin is marked as well."""
    pairs.add_set(bed, name, 1)
    pairs.wait_held(bed, name, "MachineAPI")
    machine = f"{name}-1"
    pairs.add_twins(bed, machine, {model.SET_LABEL: name})
    pairs.count(bed, name, 1, 1)
    mark = {"metadata": {"annotations": {CLUSTER_API.delete_machine: "now"}}}
    path = f"{pairs.place_machine(CLUSTER_API, machine)}?fieldManager={machine_apis.AUTOSCALER_MANAGER}"
    bed.api.acting_as(pairs.AUTOSCALER).merge(path, mark)

    def look() -> Object:
        found: Object = bed.api.get(pairs.place_machine(MACHINE_API, machine))["metadata"].get("annotations", {})
        return found

    pairs.wait(f"{machine} is marked", look, lambda now: now.get(MACHINE_API.delete_machine) == "now")


def complain_of_holder(bed: Bed, unreadable: str, nameless: str) -> None:
    """What is wrong is told of the set that holds, and told again; the older API lets a reference have no name."""
    pairs.add_set(bed, unreadable, 0)
    pairs.add_set(bed, nameless, 0, "ClusterAPI")
    pairs.wait_held(bed, nameless, "ClusterAPI")
    said = {"metadata": {"annotations": {machine_apis.MEMORY_MB_ANNOTATION: "much"}}}
    bed.api.merge(pairs.place(MACHINE_API, unreadable), said)
    reference = {"spec": _within_machines({"infrastructureRef": {"name": None}})}
    older = pairs.place(CLUSTER_API, nameless, pairs.V1BETA1)
    pairs.wait_allowed(f"a change of {nameless}", lambda: bed.api.merge(older, reference))
    for which, name in ((MACHINE_API, unreadable), (CLUSTER_API, nameless)):
        for count in (1, 2):
            _wait_told(bed, which, name, count)
            bed.api.merge(pairs.place(which, name), {"metadata": {"labels": {"looked-at": f"again-{count}"}}})
    bed.api.delete(pairs.place(CLUSTER_API, nameless))
    pairs.wait("both are gone", lambda: pairs.sizes(bed, nameless), lambda now: now == (None, None))


def _wait_told(bed: Bed, which: machine_apis.MachineApi, name: str, count: int) -> None:
    def look() -> int:
        place = f"/api/v1/namespaces/{which.namespace}/events"
        found = bed.api.items(place, fieldSelector=f"involvedObject.name={name},type=Warning")
        return max((each["count"] for each in found), default=0)

    pairs.wait(f"{name} is told of {count} times", look, lambda now: now >= count)
