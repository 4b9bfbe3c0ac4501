"""Installing on OpenShift, on a real API server: what the documents say to apply never locks Machine API.

Cluster API's kinds are absent at first, come in an old version, in the one that the policies refer to, and go again.
Meanwhile administrators and controllers write to MachineSets all the time.
"""

import itertools
from collections.abc import Iterator

import pytest

from testbed import fixtures, modules, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import openshift_cluster
from tests.e2e.machine_set_writers import (
    ADMIN,
    AUTOSCALER,
    CLUSTER_API,
    MIRRORS,
    NOWHERE,
    NUMBERS,
    SETS,
    USERS,
    add_set,
    add_twin,
    cluster_api_definitions,
    machine_set,
    put_definition,
    put_definitions,
    refusal,
    remove_definitions,
    resume,
    scale,
    write,
    writing,
)
from tests.e2e.polling import wait_for
from tests.install import rendered_manifests


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """OpenShift as it is by default: Machine API without authority, and no kind of Cluster API."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("openshift-install"), Choice()) as found:
        try:
            openshift.install(found.api, "Default")
        except modules.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        openshift_cluster.define_monitoring(found)
        found.kubectl("apply", "--server-side", "-f-", stdin=rendered_manifests.overlay("overlays/openshift"))
        _wait_policies(found)
        yield found


def _wait_policies(bed: Bed) -> None:
    """Until one that depends on nothing counts. All are compiled together, about a second after they were made."""
    add_set(bed, "probe")
    path = f"{SETS}/probe/scale?fieldManager=probe"
    scaled = bed.api.acting_as(AUTOSCALER)
    wait_for("policies count", lambda: refusal(scaled, "PATCH", path, {"spec": {"replicas": 1}}), lambda text: text)


@pytest.mark.parametrize("user", USERS)
def test_on_machine_api_alone_everybody_creates_updates_scales_and_deletes_machine_sets(bed: Bed, user: str) -> None:
    assert list(write(bed, user)) == []
    assert scale(bed, AUTOSCALER, "probe", next(NUMBERS) + 100) == ""


def test_while_cluster_api_comes_in_any_version_and_goes_nothing_is_locked(bed: Bed) -> None:
    """But for the mirror of a MachineSet that Cluster API holds, for as long as that is there."""
    add_set(bed, "scaled")
    old, both, new = (
        cluster_api_definitions(*versions)
        for versions in (("v1beta1",), ("v1beta1", "v1beta2"), ("v1beta2", "v1beta1"))
    )
    sizes = itertools.count(10)

    def resize() -> str:
        return refusal(bed.api.acting_as(ADMIN), "PATCH", f"{SETS}/held", {"spec": {"replicas": next(sizes)}})

    with writing(bed) as refusals:
        put_definitions(bed, old)
        put_definitions(bed, openshift.definitions())  # the gate is on: MachineSets have an authority from now on
        resume(bed)
        put_definitions(bed, both)
        resume(bed)
        put_definitions(bed, new)
        add_set(bed, "held", authoritativeAPI="ClusterAPI")
        add_twin(bed, "held")
        wait_for("the mirror is locked", resize, lambda text: "You may only modify spec.authoritativeAPI" in text)
        taken = bed.api.acting_as(ADMIN)
        wait_for(
            "its name is taken",
            lambda: refusal(taken, "POST", SETS, machine_set("held")),
            lambda text: "a Cluster API MachineSet with the same name already exists" in text,
        )
        remove_definitions(bed, new)
        wait_for("the mirror is free again", resize, lambda text: text == "")
        bed.api.delete(f"{SETS}/held")
        resume(bed)
        assert refusal(bed.api.acting_as(ADMIN), "POST", SETS, machine_set("held")) == ""
        resume(bed)
    assert refusals == []


def test_a_restarted_server_locks_nothing_while_cluster_api_does_not_answer(bed: Bed) -> None:
    """Objects of a kind whose conversion webhook is down cannot be listed: what depends on them must not count."""
    put_definitions(bed, cluster_api_definitions("v1beta1"))
    template: Object = {"clusterName": "work", "bootstrap": {}}
    template["infrastructureRef"] = {"kind": "AWSMachineTemplate", "name": "workers"}
    spec = {"clusterName": "work", "selector": {}, "template": {"spec": template}}
    metadata = {"name": "old", "namespace": CLUSTER_API}
    bed.api.add({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": spec})
    for body in cluster_api_definitions("v1beta1", "v1beta2", url=NOWHERE):
        put_definition(bed, body)
    wait_for("conversion fails", lambda: refusal(bed.api, "GET", MIRRORS), lambda text: "conversion webhook" in text)
    bed.kill("kube-apiserver")
    bed.start("kube-apiserver")
    for user in USERS:
        assert list(write(bed, user)) == []
