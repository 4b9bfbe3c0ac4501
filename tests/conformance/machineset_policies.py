"""What the admission policies let through: the very data of deploy/policies, on a real API server.

MachineSets there may say anything: recorded cases have no more of an object than the rules look at. Without a test bed
nothing is judged, and a line says so.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from testbed import api, fixtures, sharing
from testbed.bed import Bed
from tests.conformance.outcome import Json, Outcome
from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.openshift.controller_harness import machine_sets_definition
from windlass.controllers.openshift import machine_apis

POLICIES = Path(__file__).parents[2] / "deploy" / "policies"
_ADMIN = "kubernetes-admin"
_WITHIN_S = 30.0
_HEARD_WITHIN_S = 5.0
"""Policies hear of the mirror that they look at by a watch: one that was made, or went, a moment ago may not count."""


def evaluate(cases: Sequence[tuple[str, Json]]) -> Iterator[Outcome]:
    if not cases:
        return
    if reason := fixtures.why_not():
        print(f"NOT JUDGED: {len(cases)} cases of admission policies: {reason}", file=sys.stderr)
        return
    with sharing.running() as bed:
        install(bed)
        for section, case in cases:
            differences = _try_until_heard(bed, case, _HEARD_WITHIN_S)
            yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)


def install(bed: Bed) -> None:
    """Kinds that say anything, the two namespaces, and the policies, once they are in force."""
    for machine_api in machine_apis.MACHINE_APIS:
        for body in (
            machine_sets_definition(machine_api),
            definition(machine_api.group, "Machine", machine_api.versions[0]),
        ):
            (version,) = body["spec"]["versions"]
            version["subresources"].pop("status")  # a status that is given counts
            bed.api.add(body)
        bed.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": machine_api.namespace}})
    add_policies(bed)
    wait_enforced(bed)


def add_policies(bed: Bed) -> None:
    for path in sorted(POLICIES.glob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text()):
            plural = body["kind"].lower().replace("policy", "policies") if body["kind"].endswith("Policy") else ""
            plural = plural or f"{body['kind'].lower()}s"
            bed.api.call("POST", f"/apis/{body['apiVersion']}/{plural}", body)


def wait_enforced(bed: Bed) -> None:
    """A policy counts about a second after it was made: each is tried until it refuses something."""
    probe: Json = {
        "operation": "CREATE",
        "user": _ADMIN,
        "new": _body(machine_apis.CLUSTER_API, {"template": {"spec": {"version": "1"}}}),
        "expect": {"allowed": False},
    }
    locked = _body(machine_apis.MACHINE_API, {}, {"authoritativeAPI": "MachineAPI"})
    lock = {
        "operation": "UPDATE",
        "user": _ADMIN,
        "old": _body(machine_apis.CLUSTER_API, {"replicas": 1}),
        "new": _body(machine_apis.CLUSTER_API, {"replicas": 2}),
        "mirror": locked,
        "expect": {"allowed": False},
    }
    for item in (probe, lock):
        assert not _try_until_heard(bed, item, _WITHIN_S), "policies are not in force"


def _try_until_heard(bed: Bed, case: Json, within_s: float) -> tuple[str, ...]:
    """What differs still when the policies have had time to hear of everything."""
    deadline_s = time.monotonic() + within_s
    while differences := tuple(_try(bed, case)):
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.2)
    return differences


def _body(api_: machine_apis.MachineApi, spec: Json, status: Json | None = None) -> Json:
    resource = api_.machine_sets()
    body: Json = {"apiVersion": resource.api_version, "kind": "MachineSet", "spec": spec}
    body["metadata"] = {"name": "probe", "namespace": api_.namespace}
    return body | ({} if status is None else {"status": status})


def _try(bed: Bed, case: Json) -> Iterator[str]:
    """Make what is there before, send the request as its user, and compare; nothing is left."""
    expected = case.get("seed_expect") or case["expect"]
    old, new, mirror = (_complete(case.get(name)) for name in ("old", "new", "mirror"))
    assert new is not None
    before = [item for item in (mirror, old) if item is not None]
    # Machine API's first: of a name that Cluster API has, nobody makes one that Machine API holds.
    with _there(
        bed, sorted(before, key=lambda each: each["apiVersion"] != machine_apis.MACHINE_API.machine_sets().api_version)
    ):
        message = _send(bed, case, new)
        if case.get("operation", "UPDATE") == "CREATE":
            _remove(bed, new)
    if (message is None) != expected["allowed"]:
        yield f"allowed: expected {expected['allowed']}, found {message or 'allowed'!r}"
        return
    texts = {**case["expect"], **case.get("read", {})} if "seed_expect" not in case else expected
    for name, wanted in texts.items():
        if name.startswith("message") and _plain(wanted) not in _plain(message or ""):
            yield f"{name}: expected {wanted!r}, found {message!r}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _complete(body: Json | None) -> Json | None:
    """Cases about the autoscaler say no more than a spec."""
    if body is None or "metadata" in body:
        return body
    return _body(machine_apis.CLUSTER_API, body.get("spec") or {})


def _send(bed: Bed, case: Json, new: Json) -> str | None:
    """What it is refused for; None if it is not."""
    path = api.path_of(new)
    server = bed.api.acting_as(case["user"])
    try:
        if case.get("operation", "UPDATE") == "CREATE":
            server.call("POST", path, new)
        elif case.get("subresource") == "scale":
            size = (new.get("spec") or {}).get("replicas", 0)
            patch = {"spec": {"replicas": size}}
            server.merge(f"{path}/{new['metadata']['name']}/scale", patch)
        else:
            there = bed.api.get(f"{path}/{new['metadata']['name']}")
            metadata = {**new["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]}
            server.call("PUT", f"{path}/{new['metadata']['name']}", {**new, "metadata": metadata})
    except api.Refused as refused:
        return str(json.loads(refused.body)["message"])
    return None


@contextlib.contextmanager
def _there(bed: Bed, bodies: Iterable[Json]) -> Iterator[None]:
    made = []
    try:
        for body in bodies:
            bed.api.acting_as(_SYNC).add(body)
            made.append(body)
        yield
    finally:
        for body in made:
            _remove(bed, body)


_SYNC = "system:serviceaccount:openshift-cluster-api:capi-controllers"
"""Whom no lock concerns."""


def _remove(bed: Bed, body: Json) -> None:
    path = f"{api.path_of(body)}/{body['metadata']['name']}"
    with contextlib.suppress(api.Refused):
        bed.api.delete(path)
    api.wait_for(path, lambda: bed.api.find(path), lambda found: found is None)
