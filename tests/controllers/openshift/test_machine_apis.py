"""Machine API and Cluster API of OpenShift: accelerator labels, authority over a pair of MachineSets, feature gates."""

from typing import Any

import pytest

from tests.controllers.openshift import real_objects
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority, MachineSetPair

LABELS = {machine_apis.ACCELERATOR_LABEL: "nvidia-t4"}

MISSING = "GPU accelerator label not found on MachineSet set."


def gpu_machine_set(on_machine: dict[str, str], on_node: dict[str, str], gpus: str = "1") -> dict[str, Any]:
    template = {"metadata": {"labels": on_machine}, "spec": {"metadata": {"labels": on_node}}}
    return {
        "metadata": {"name": "set", "annotations": {machine_apis.GPU_ANNOTATION: gpus}},
        "spec": {"template": template},
    }


def test_machine_api_has_labels_of_nodes_in_the_machines_spec() -> None:
    assert machine_apis.accelerator_label_warning(gpu_machine_set({}, LABELS), machine_apis.MACHINE_API) == ""
    assert machine_apis.accelerator_label_warning(gpu_machine_set(LABELS, {}), machine_apis.MACHINE_API).startswith(
        MISSING
    )


def test_cluster_api_has_them_on_the_machine() -> None:
    assert machine_apis.accelerator_label_warning(gpu_machine_set(LABELS, {}), machine_apis.CLUSTER_API) == ""
    assert machine_apis.accelerator_label_warning(gpu_machine_set({}, LABELS), machine_apis.CLUSTER_API).startswith(
        MISSING
    )


@pytest.mark.parametrize("api", machine_apis.MACHINE_APIS, ids=lambda api: api.authority)
@pytest.mark.parametrize("gpus", ["0", "many", "-1"])
def test_without_gpus_nobody_asks_for_a_label(api: machine_apis.MachineApi, gpus: str) -> None:
    assert machine_apis.accelerator_label_warning(gpu_machine_set({}, {}, gpus), api) == ""


@pytest.mark.parametrize("value", ["", "nvidia.com/gpu", "x" * 64])
def test_a_value_that_no_label_may_have_is_told(value: str) -> None:
    labels = {machine_apis.ACCELERATOR_LABEL: value}
    assert "GPU accelerator label" in machine_apis.accelerator_label_warning(
        gpu_machine_set({}, labels), machine_apis.MACHINE_API
    )


def machine_set_with_authority(status: str = "", wanted: str = "MachineAPI") -> machine_apis.Json:
    return {"spec": {"authoritativeAPI": wanted}, "status": {"authoritativeAPI": status}}


@pytest.mark.parametrize(
    ("status", "holder"),
    [
        ("MachineAPI", machine_apis.MACHINE_API),
        ("ClusterAPI", machine_apis.CLUSTER_API),
        ("Migrating", None),
        ("", machine_apis.MACHINE_API),
    ],
)
def test_the_status_of_the_machine_api_set_says_which_of_the_two_holds(
    status: str, holder: machine_apis.MachineApi | None
) -> None:
    assert MachineSetPair("a", machine_set_with_authority(status), {}).holder is holder


def test_what_nobody_has_decided_and_cluster_api_shall_hold_is_held_by_nobody_yet() -> None:
    assert MachineSetPair("a", machine_set_with_authority("", "ClusterAPI"), {}).holder is None


def test_what_is_wanted_does_not_hold_until_it_is_the_case() -> None:
    machine_set_pair = MachineSetPair("a", machine_set_with_authority("MachineAPI", "ClusterAPI"), {})
    assert machine_set_pair.holder is machine_apis.MACHINE_API
    assert (
        machine_apis.parse_desired_authority(machine_set_with_authority("MachineAPI", "ClusterAPI"))
        is MachineAuthority.CLUSTER_API
    )


def test_what_is_in_cluster_api_alone_is_cluster_apis() -> None:
    assert MachineSetPair("a", None, {}).holder is machine_apis.CLUSTER_API


def test_a_server_that_knows_nothing_of_authority_has_machine_api_alone() -> None:
    assert MachineSetPair("a", {"spec": {"replicas": 1}}, {}).holder is machine_apis.MACHINE_API


def test_nothing_is_held_by_nobody() -> None:
    assert MachineSetPair("a").holder is None


def test_a_word_that_is_not_known_is_as_good_as_none() -> None:
    assert machine_apis.parse_authority(machine_set_with_authority("Whatever")) is MachineAuthority.UNSET


@pytest.mark.parametrize(
    ("api_version", "api"),
    [
        ("machine.openshift.io/v1beta1", machine_apis.MACHINE_API),
        ("cluster.x-k8s.io/v1beta1", machine_apis.CLUSTER_API),
        ("cluster.x-k8s.io/v1beta2", machine_apis.CLUSTER_API),
        ("cluster.x-k8s.io/v1alpha4", None),
        ("machine.openshift.io", None),
        ("apps/v1", None),
        ("", None),
    ],
)
def test_an_api_is_found_by_group_and_version(api_version: str, api: machine_apis.MachineApi | None) -> None:
    assert machine_apis.find_machine_api(api_version) is api


def test_annotations_begin_with_the_group_of_their_api() -> None:
    assert machine_apis.CLUSTER_API.min_size == "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
    assert machine_apis.MACHINE_API.delete_machine == "machine.openshift.io/delete-machine"
    assert [api.mirror for api in machine_apis.MACHINE_APIS] == [machine_apis.CLUSTER_API, machine_apis.MACHINE_API]


ON = "ClusterAPIMachineManagementAWS"


def infrastructure(platform: str) -> machine_apis.Json:
    return {"status": {"platformStatus": {"type": platform}}}


def gate(**versions: str) -> machine_apis.Json:
    listed = [
        {"version": version.replace("v", "").replace("_", "."), "enabled": [{"name": name}]}
        for version, name in versions.items()
    ]
    return {"status": {"featureGates": listed}}


@pytest.mark.parametrize("platform", ["AWS", "Azure", "BareMetal", "GCP", "OpenStack", "PowerVS", "VSphere"])
def test_each_platform_has_a_gate_of_its_own(platform: str) -> None:
    own = gate(v4_21=f"ClusterAPIMachineManagement{platform}")
    assert machine_apis.parse_feature_gates(own, infrastructure(platform)).has_cluster_api
    assert not machine_apis.parse_feature_gates(own, infrastructure("Nutanix")).has_cluster_api


def test_a_platform_without_a_gate_has_no_cluster_api() -> None:
    named = gate(v4_21="ClusterAPIMachineManagementIBMCloud")
    assert not machine_apis.parse_feature_gates(named, infrastructure("IBMCloud")).has_cluster_api


def test_gates_of_the_version_that_is_run_count() -> None:
    both = gate(v4_20="Other", v4_21=ON)
    assert machine_apis.parse_feature_gates(both, infrastructure("AWS"), "4.21").has_cluster_api
    assert not machine_apis.parse_feature_gates(both, infrastructure("AWS"), "4.20").has_cluster_api
    assert not machine_apis.parse_feature_gates(both, infrastructure("AWS"), "4.22").has_cluster_api, (
        "nothing is known of it"
    )


def test_without_a_version_only_what_is_on_in_all_of_them_is_on() -> None:
    assert machine_apis.parse_feature_gates(gate(v4_20=ON, v4_21=ON), infrastructure("AWS")).has_cluster_api
    assert not machine_apis.parse_feature_gates(gate(v4_20="Other", v4_21=ON), infrastructure("AWS")).has_cluster_api


def test_nothing_is_on_where_nothing_is_said() -> None:
    assert machine_apis.parse_feature_gates(None, None) == machine_apis.FeatureGates()
    assert not machine_apis.parse_feature_gates(gate(v4_21=ON), None).has_cluster_api


CLUSTER_API_PLATFORMS = {"AWS", "Azure", "BareMetal", "GCP", "OpenStack", "PowerVS", "VSphere"}
REAL_GATES = {
    "SelfManagedHA-Default": (set(), set()),
    "SelfManagedHA-OKD": (set(), set()),
    "SelfManagedHA-TechPreviewNoUpgrade": (CLUSTER_API_PLATFORMS, {"AWS", "OpenStack"}),
    "SelfManagedHA-DevPreviewNoUpgrade": (CLUSTER_API_PLATFORMS, {"AWS", "OpenStack", "VSphere"}),
}
"""By feature set: platforms with Cluster API, and those whose MachineSets are mirrored."""


@real_objects.needed
@pytest.mark.parametrize("feature_set", REAL_GATES)
def test_the_gates_of_a_real_payload_say_which_api_is_scaled(feature_set: str) -> None:
    body = real_objects.read(f"featuregates/{feature_set}.json")
    has_cluster_api, scaled = REAL_GATES[feature_set]
    for platform in (*CLUSTER_API_PLATFORMS, "Nutanix", "IBMCloud", "None"):
        for version in ("", body["status"]["featureGates"][0].get("version", "")):
            gates = machine_apis.parse_feature_gates(body, infrastructure(platform), version)
            assert gates.has_cluster_api == (platform in has_cluster_api), platform
            assert gates.scales_cluster_api == (platform in scaled), platform


@pytest.mark.parametrize(
    ("platform", "enabled", "disabled", "is_scaled"),
    [
        ("AWS", {"MachineAPIMigration"}, (), True),
        ("Azure", {"MachineAPIMigration"}, (), False),
        ("Azure", {"MachineAPIMigrationAzure"}, (), True),
        ("AWS", (), {"MachineAPIMigration"}, False),
        ("AWS", {"MachineAPIMigration"}, {"MachineAPIMigrationAWS"}, False),
        ("AWS", {"MachineAPIMigrationAWS"}, {"MachineAPIMigration"}, False),
        ("AWS", {"MachineAPIMigrationAWS"}, {"ClusterAPIMachineManagement"}, False),
        ("Azure", (), (), True),
    ],
)
def test_cluster_api_is_scaled_where_its_sets_are_mirrors(
    platform: str, enabled: set[str], disabled: set[str], is_scaled: bool
) -> None:
    names = ["ClusterAPIMachineManagement" + platform, *enabled]
    entry = {"version": "4.22", "enabled": [{"name": name} for name in names]}
    entry["disabled"] = [{"name": name} for name in disabled]
    found = machine_apis.parse_feature_gates({"status": {"featureGates": [entry]}}, infrastructure(platform), "4.22")
    assert found.scales_cluster_api == is_scaled
