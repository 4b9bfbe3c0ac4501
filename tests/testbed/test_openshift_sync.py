"""MachineSets of two APIs on the real control plane: the controller as a process, with its own rights and no others,
beside Cluster API's manager and under the admission policies. Machine API's controllers are played: they say that they
pause.
"""

import contextlib
import functools
import itertools
import operator as operator_
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from testbed import api, clusterapi, fixtures, objects, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import openshift_cluster
from tests.e2e.gateway import Gateway
from tests.e2e.openshift_cluster import CLUSTER
from tests.e2e.operator_process import operating
from tests.testbed.machine_set_pairs import (
    ADMIN,
    AUTOSCALER,
    SYNC,
    V1BETA1,
    add_mirror,
    add_set,
    add_twins,
    count,
    held,
    hold,
    place,
    place_machine,
    refusal,
    resize,
    resize_unlocked,
    scale,
    sizes,
    wait,
    wait_held,
    wait_marked,
    wait_sizes,
)
from tests.testbed.rbac import audit_log, machineset_sync_scenario
from windlass.controllers import rbac
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import authority_migration, model
from windlass.kube import unstructured

SAME = "Requested replica change is the same as current value"
LOCKED = "Changing .spec is not allowed"
HOLDERS = {"MachineAPI": MACHINE_API, "ClusterAPI": CLUSTER_API}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane with Machine API's kinds, a Cluster, a template, rights and policies."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("openshift"), Choice(kwok=True, capi=True, audited=True)) as found:
        openshift_cluster.install(found, ("machineset-sync",))
        clusterapi.add_cluster(found.api, found.kubeconfig, CLUSTER, CLUSTER_API.namespace)
        found.api.add(objects.machine_deployment("workers", 0, namespace=CLUSTER_API.namespace)[0])
        openshift_cluster.enforce(found)
        _wait_enforced(found)
        yield found


def _wait_enforced(bed: Bed) -> None:
    add_set(bed, "probe", 1)
    hold(bed, "probe", "MachineAPI")
    add_mirror(bed, "probe", 1)
    sizes_ = itertools.count(2)  # each another one: what changes nothing is never refused
    for act in (resize, scale):
        wait("the lock counts", functools.partial(_try_next, bed, act, sizes_), functools.partial(_has, LOCKED))
    now = bed.api.get(place(CLUSTER_API, "probe"))["spec"]["replicas"]
    wait("the other counts", lambda: refusal(scale, bed, AUTOSCALER, "probe", now), functools.partial(_has, SAME))


def _try_next(
    bed: Bed,
    act: Callable[..., Object],
    sizes_: Iterator[int],
    name: str = "probe",
    which: machine_apis.MachineApi = CLUSTER_API,
) -> str:
    return refusal(act, bed, ADMIN, name, next(sizes_), which)


def _has(text: str, found: str) -> bool:
    return text in found


@pytest.fixture(scope="module")
def operator(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The controller, as a process, as the ServiceAccount that its role is bound to; and what it asks for.

    Infrastructure tells it what the Cluster is called.
    """
    directory, namespace = tmp_path_factory.mktemp("operator"), CLUSTER_API.namespace
    flags = ["--leader-elect-namespace", namespace, "--record-duplicated-events"]
    running = operating(bed, directory, "machineset_sync", namespace, "capi-controllers", *flags)
    with pausing(bed), running as gateway:
        yield gateway


@contextlib.contextmanager
def pausing(bed: Bed) -> Iterator[None]:
    """Machine API's controller, as far as a mirror needs it: it says whether it is paused."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.2):
            found: list[Object] = []
            with contextlib.suppress(api.Refused):
                found = bed.api.items(place(MACHINE_API))
            for item in found:
                with contextlib.suppress(api.Refused):
                    _say_paused(bed, item)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _say_paused(bed: Bed, found: Object) -> None:
    status = found.get("status", {})
    is_paused = status.get("authoritativeAPI") != "MachineAPI"
    before = unstructured.find_condition(status.get("conditions"), "Paused") or {}
    if not status.get("authoritativeAPI") or before.get("status") == str(is_paused):
        return
    after = unstructured.set_condition(status.get("conditions"), "Paused", is_paused, "Paused", "", time.time())
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
    path = f"{place(MACHINE_API, found['metadata']['name'])}/status?fieldManager=machine-api"
    bed.api.merge(path, {"metadata": metadata, "status": {"conditions": list(after)}})


# The rules of authority


def test_the_rules_that_are_kept_here_are_those_of_the_real_definition(bed: Bed) -> None:
    add_set(bed, "rules", 1)
    path = f"{place(MACHINE_API, 'rules')}/status"
    said = [
        {"authoritativeAPI": by, "synchronizedGeneration": generation}
        for by, generation in itertools.product(("MachineAPI", "ClusterAPI", "Migrating"), (0, 1, 2))
    ]
    migrating = {"authoritativeAPI": "Migrating"}
    for before, after in itertools.product(said, said):
        # There is a way to anywhere: generations fall on leaving Migrating.
        for between in (migrating, {"authoritativeAPI": "MachineAPI", "synchronizedGeneration": 0}, migrating, before):
            bed.api.merge(path, {"status": between})
        expected = authority_migration.validate_status_transition(before, after)
        found = refusal(bed.api.merge, path, {"status": after})
        assert bool(found) == bool(expected), (before, after, found)
        for text in expected:
            assert text.rpartition('": ')[2] in found, (before, after, found)
    assert "Unsupported value" in refusal(add_set, bed, "wrong", 1, "Migrating")


# Admission


@pytest.fixture(scope="module")
def mirror(bed: Bed) -> str:
    """A MachineSet of Cluster API that mirrors one of Machine API; nobody mirrors it here."""
    return "probe"


@pytest.mark.parametrize("version", ["", V1BETA1])
def test_the_autoscaler_scales_a_mirror_to_and_from_zero(bed: Bed, mirror: str, version: str) -> None:
    there = bed.api.get(place(CLUSTER_API, mirror))["spec"]["replicas"]
    for size in (there + 1, 0, 2, 1):
        assert scale(bed, AUTOSCALER, mirror, size, version=version)["spec"].get("replicas", 0) == size
        assert SAME in refusal(scale, bed, AUTOSCALER, mirror, size, version=version)
    assert LOCKED in refusal(resize, bed, AUTOSCALER, mirror, 5, version=version)


@pytest.mark.parametrize("version", ["", V1BETA1])
def test_others_do_not_change_a_mirror_through_scale_either(bed: Bed, mirror: str, version: str) -> None:
    for size in (0, 4):
        assert LOCKED in refusal(scale, bed, ADMIN, mirror, size, version=version)
        assert LOCKED in refusal(resize, bed, ADMIN, mirror, size, version=version)
    admin = bed.api.acting_as(ADMIN)
    admin.merge(place(CLUSTER_API, mirror), {"metadata": {"labels": {"free": "yes"}}})
    bound = {"metadata": {"annotations": {CLUSTER_API.max_size: "9"}}}
    assert "annotation" in refusal(admin.merge, place(CLUSTER_API, mirror), bound)
    assert resize(bed, SYNC, mirror, 1)["spec"]["replicas"] == 1


def test_what_nobody_mirrors_is_not_locked(bed: Bed) -> None:
    add_mirror(bed, "alone", 1)
    assert scale(bed, ADMIN, "alone", 0)["spec"].get("replicas", 0) == 0
    add_set(bed, "unheld", 1, "ClusterAPI")
    add_mirror(bed, "unheld", 1)
    for size, by in ((2, None), (3, "Migrating"), (4, "ClusterAPI")):
        if by is not None:
            hold(bed, "unheld", by)
        assert refusal(scale, bed, ADMIN, "unheld", size) == ""


def test_a_machine_api_set_without_a_status_may_be_changed_though_it_has_a_twin(bed: Bed) -> None:
    """Upstream's policy reads status without a guard, and denies."""
    add_set(bed, "new", 1, "ClusterAPI")
    add_mirror(bed, "new", 1)
    assert refusal(resize, bed, ADMIN, "new", 2, MACHINE_API) == ""
    hold(bed, "new", "ClusterAPI")
    sizes_ = itertools.count(3)  # policies hear of twins by watches; what changes nothing is never refused
    for act, told in ((resize, "You may only modify"), (scale, LOCKED)):
        tried = functools.partial(_try_next, bed, act, sizes_, "new", MACHINE_API)
        wait(f"{act.__name__} is refused", tried, functools.partial(_has, told))


def test_of_a_mirrored_machine_the_autoscaler_changes_the_mark_and_nothing_else(bed: Bed) -> None:
    at = place_machine(CLUSTER_API, "twin")
    add_twins(bed, "twin")
    admin, autoscaler = bed.api.acting_as(ADMIN), bed.api.acting_as(AUTOSCALER)
    values = map(str, itertools.count())  # each another one: what changes nothing is never refused

    def mark() -> Object:
        return {"metadata": {"annotations": {CLUSTER_API.delete_machine: next(values)}}}

    wait("locked", lambda: refusal(admin.merge, at, mark()), lambda text: "annotation" in text)
    assert refusal(autoscaler.merge, at, mark()) == ""
    assert "annotation" in refusal(
        autoscaler.merge, at, {"metadata": {"annotations": {machine_apis.PAUSED_ANNOTATION: None}}}
    )
    assert LOCKED in refusal(autoscaler.merge, at, {"spec": {"failureDomain": "elsewhere"}})


# The controller


def test_sizes_go_where_they_belong_under_the_policies(bed: Bed, operator: Gateway) -> None:
    add_set(bed, "sized", 3)
    wait_held(bed, "sized", "MachineAPI")
    found = bed.api.get(place(CLUSTER_API, "sized"))
    assert machine_apis.PAUSED_ANNOTATION in found["metadata"]["annotations"]
    assert found["spec"]["template"]["spec"]["infrastructureRef"]["name"] == "workers"
    for size in (5, 0, 2, 0, 4):
        scale(bed, AUTOSCALER, "sized", size)
        wait_sizes(bed, "sized", size)
        wait_marked(bed, "sized")
    resize(bed, ADMIN, "sized", 1, MACHINE_API)
    wait_sizes(bed, "sized", 1)
    wait_marked(bed, "sized")
    scale(bed, AUTOSCALER, "sized", 6)
    wait_sizes(bed, "sized", 6)
    wait_held(bed, "sized", "MachineAPI")


def test_counts_of_the_holder_are_mirrored_as_the_real_definition_wants_them(bed: Bed, operator: Gateway) -> None:
    add_set(bed, "counted", 2)
    wait_held(bed, "counted", "MachineAPI")
    count(bed, "counted", 2, 1)
    wait_held(bed, "counted", "MachineAPI")


def test_annotations_of_the_operator_go_to_the_other_from_either_side(bed: Bed, operator: Gateway) -> None:
    add_set(bed, "bound", 1)
    wait_held(bed, "bound", "MachineAPI")
    for which, least in ((MACHINE_API, "1"), (CLUSTER_API, "2"), (MACHINE_API, "3")):
        said = {"metadata": {"annotations": {which.min_size: least, which.max_size: "9"}}}
        path = f"{place(which, 'bound')}?fieldManager={machine_apis.OPERATOR_MANAGER}"
        bed.api.acting_as(SYNC).merge(path, said)

        wait("bounds on both sides", functools.partial(_bounds, bed), functools.partial(operator_.eq, [least, least]))
        wait_held(bed, "bound", "MachineAPI")


def _bounds(bed: Bed) -> list[str]:
    bodies = zip(
        machine_apis.MACHINE_APIS,
        [bed.api.get(place(machine_api, "bound")) for machine_api in machine_apis.MACHINE_APIS],
        strict=True,
    )
    return [body["metadata"]["annotations"].get(each.min_size, "") for each, body in bodies]


def test_authority_moves_there_and_back_and_machines_are_run_by_one_at_a_time(bed: Bed, operator: Gateway) -> None:
    add_set(bed, "moved", 1)
    wait_held(bed, "moved", "MachineAPI")
    machines = f"/apis/{objects.CLUSTER_API}/namespaces/{CLUSTER_API.namespace}/machines"
    label = f"{model.SET_LABEL}=moved"
    assert bed.api.items(machines, labelSelector=label) == []
    bed.api.merge(place(MACHINE_API, "moved"), {"spec": {"authoritativeAPI": "ClusterAPI"}})
    wait_held(bed, "moved", "ClusterAPI")
    wait("Cluster API acts", lambda: len(bed.api.items(machines, labelSelector=label)), lambda count: count == 1)
    resize_unlocked(bed, ADMIN, "moved", 2, CLUSTER_API)
    wait_sizes(bed, "moved", 2)
    wait_held(bed, "moved", "ClusterAPI")
    counted = functools.partial(bed.api.get, place(MACHINE_API, "moved"))
    wait("counts are mirrored", counted, lambda found: found["status"].get("replicas") == 2)
    bed.api.merge(place(MACHINE_API, "moved"), {"spec": {"authoritativeAPI": "MachineAPI"}})
    wait_held(bed, "moved", "MachineAPI")
    resize(bed, ADMIN, "moved", 0, MACHINE_API)
    wait_sizes(bed, "moved", 0)
    assert len(bed.api.items(machines, labelSelector=label)) == 2, "a paused mirror's size does nothing"


def test_both_go_with_the_holder(bed: Bed, operator: Gateway) -> None:
    for wanted in ("MachineAPI", "ClusterAPI"):
        name = f"gone-{wanted.lower()}"
        add_set(bed, name, 0, wanted)
        wait_held(bed, name, wanted)
        bed.api.delete(place(MACHINE_API if wanted == "MachineAPI" else CLUSTER_API, name))
        wait("both are gone", functools.partial(sizes, bed, name), lambda now: now == (None, None))


def test_whoever_writes_when_both_end_up_equal_and_nothing_is_lost(bed: Bed, operator: Gateway) -> None:
    """Twenty pairs at once, each with an autoscaler, an administrator and migrations."""
    pairs = [f"race-{number}" for number in range(20)]
    for name in pairs:
        add_set(bed, name, 2, "MachineAPI" if int(name[5:]) % 3 else "ClusterAPI")
    for name in pairs:
        wait(f"{name} is synchronized", functools.partial(held, bed, name), lambda now: now[1:3] == ("True", True))
    failures: list[str] = []
    threads = [threading.Thread(target=_race, args=(bed, name, failures)) for name in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for name in pairs:
        wanted = bed.api.get(place(MACHINE_API, name))["spec"]["authoritativeAPI"]
        wait_held(bed, name, wanted)
        assert sizes(bed, name) == (1, 1), name
    for name in pairs:
        for which in machine_apis.MACHINE_APIS:
            with contextlib.suppress(api.Refused):
                bed.api.delete(place(which, name))


def _race(bed: Bed, name: str, failures: list[str]) -> None:
    """A history of one pair; what is written last by an autoscaler, after a while, is there in the end."""
    rng = random.Random(name)
    for _ in range(8):
        time.sleep(rng.choice((0.0, 0.05, 0.5, 1.0)))
        what, size = rng.choice(("autoscaler", "autoscaler", "administrator", "migration")), rng.choice((0, 2))
        if what == "autoscaler":
            refusal(scale, bed, AUTOSCALER, name, size)
        elif what == "administrator":
            by = bed.api.get(place(MACHINE_API, name)).get("status", {}).get("authoritativeAPI")
            if by in HOLDERS:
                refusal(resize, bed, ADMIN, name, size, HOLDERS[by])
        else:
            wanted = {"spec": {"authoritativeAPI": rng.choice(("MachineAPI", "ClusterAPI"))}}
            refusal(bed.api.merge, place(MACHINE_API, name), wanted)
    last = 1  # nobody else writes that; and few machines: Cluster API makes them for real
    try:
        _insist(bed, name, last)
        wait_sizes(bed, name, last, poll_s=1.0)  # twenty of these look at the same time
    except (api.Refused, TimeoutError) as error:
        failures.append(f"{name}: {error}")


def _insist(bed: Bed, name: str, size: int) -> None:
    """Scale as an autoscaler does, which comes again if somebody else wrote at the same moment."""

    def attempt() -> bool:
        try:
            scale(bed, AUTOSCALER, name, size)
        except api.Refused as refused:
            if refused.code != 409:
                raise
            return False
        return True

    wait(f"{name} is scaled to {size}", attempt, bool)


# Beside OpenShift's own sync


_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{CLUSTER_API.namespace}/leases/machine-api-migration-leader"


@contextlib.contextmanager
def other_sync(bed: Bed, name: str) -> Iterator[list[str]]:
    """OpenShift's own, as far as one pair needs it: it holds its Lease, and reverts what others write to the mirror and
    to its mirrored Machines. What it was refused."""
    ended, refused = threading.Event(), list[str]()
    server = bed.api.acting_as(SYNC)

    def renew() -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": "machine-api-migration", "leaseDurationSeconds": 137, "renewTime": now}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": _LEASE_METADATA, "spec": spec}
        if bed.api.find(_LEASE) is None:
            bed.api.add(body)
        else:
            bed.api.merge(_LEASE, {"spec": spec})

    def revert() -> None:
        held, mirror = bed.api.get(place(MACHINE_API, name)), place(CLUSTER_API, name)
        manager = "?fieldManager=machine-api-migration"
        size = held["spec"]["replicas"]
        if bed.api.get(mirror)["spec"]["replicas"] != size:
            server.merge(f"{mirror}{manager}", {"spec": {"replicas": size}})
        twin = f"{name}-1"
        marked = bed.api.get(place_machine(MACHINE_API, twin))["metadata"].get("annotations", {})
        mark = marked.get(MACHINE_API.delete_machine)
        copied = {"metadata": {"annotations": {CLUSTER_API.delete_machine: mark}}}
        server.merge(f"{place_machine(CLUSTER_API, twin)}{manager}", copied)

    def run() -> None:
        while not ended.wait(0.05):
            try:
                renew()
                revert()
            except api.Refused as error:
                if error.code != 409:
                    refused.append(str(error))

    renew()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield refused
    finally:
        ended.set()
        thread.join()
        bed.api.delete(_LEASE)


_LEASE_METADATA = {"name": "machine-api-migration-leader", "namespace": CLUSTER_API.namespace}


def test_beside_openshifts_own_sync_sizes_and_marks_arrive_though_it_reverts_them(bed: Bed, operator: Gateway) -> None:
    name = "beside"
    add_set(bed, name, 3)
    wait_held(bed, name, "MachineAPI")
    add_twins(bed, f"{name}-1", {model.SET_LABEL: name})
    with other_sync(bed, name) as refused:
        wait_quiet(operator)
        before = bed.api.get(place(MACHINE_API, name))["status"]
        mark = {"metadata": {"annotations": {CLUSTER_API.delete_machine: "now"}}}
        path = f"{place_machine(CLUSTER_API, f'{name}-1')}?fieldManager={machine_apis.AUTOSCALER_MANAGER}"
        bed.api.acting_as(AUTOSCALER).merge(path, mark)
        for size in (5, 2):
            scale(bed, AUTOSCALER, name, size)
            wait_sizes(bed, name, size)
        at = place_machine(MACHINE_API, f"{name}-1")
        wait(
            "the Machine is marked",
            lambda: bed.api.get(at)["metadata"].get("annotations", {}).get(MACHINE_API.delete_machine),
            lambda seen: seen == "now",
        )
        assert bed.api.get(place(MACHINE_API, name))["status"] == before, "the condition is theirs"
        wait_quiet(operator)
    assert refused == []
    for which in machine_apis.MACHINE_APIS:
        bed.api.delete(place_machine(which, f"{name}-1"))


def test_it_asks_for_nothing_that_its_role_does_not_give_and_is_quiet_in_the_end(bed: Bed, operator: Gateway) -> None:
    wait_quiet(operator)
    refused = [call for call in operator.since(0.0) if call.status in (401, 403)]
    assert refused == []


def wait_quiet(gateway: Gateway) -> None:
    """Until nothing was written for ten seconds: on a busy machine what the last tests left may go on for some time."""
    began_s = time.monotonic()

    def probe() -> tuple[float, list[str]]:
        writes = [call for call in gateway.since(0.0) if call.method != "GET" and "/leases/" not in call.path]
        last_s = max((call.at_s for call in writes), default=0.0)
        return time.monotonic() - max(last_s, began_s), [f"{call.method} {call.path}" for call in writes[-5:]]

    wait("nothing is written", probe, lambda seen: seen[0] > 10.0, poll_s=0.5)


# Rights


def test_it_is_refused_nothing_and_uses_all_that_it_may(bed: Bed, operator: Gateway) -> None:
    """All that its role is for happens here: this needs none of the tests above."""
    machineset_sync_scenario.report(bed)
    audit_log.evaluate(bed, *rbac.MACHINESET_SYNC)
