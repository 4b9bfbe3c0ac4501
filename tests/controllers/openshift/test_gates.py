"""Which features are on."""

import pytest

from windlass.controllers.openshift import machine_apis

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
