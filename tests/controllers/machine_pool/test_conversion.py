"""Pools in both versions of the API: what is written is what is read."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import errors
from windlass.controllers.machine_pool import conversion, model

TEXT = st.text("abcXYZ-.", max_size=5)
COUNT = st.integers(0, 5)
CONDITIONS = st.lists(
    st.builds(
        model.Condition,
        type=st.sampled_from(["Ready", "Paused", "Other"]),
        status=st.sampled_from(["True", "False", "Unknown"]),
        reason=TEXT,
        message=TEXT,
        last_transition_time=st.just("2026-01-01T00:00:00Z"),
    ),
    max_size=2,
    unique_by=lambda condition: condition.type,
).map(tuple)
STATUS = st.builds(
    model.MachinePoolStatus,
    bootstrap_created=st.none() | st.booleans(),
    infrastructure_provisioned=st.none() | st.booleans(),
    replicas=st.none() | COUNT,
    ready_replicas=st.none() | COUNT,
    available_replicas=st.none() | COUNT,
    up_to_date_replicas=st.none() | COUNT,
    versions=st.lists(st.tuples(st.sampled_from(["v1", "v2"]), COUNT), max_size=2).map(tuple),
    node_refs=st.lists(st.builds(model.NodeRef, name=TEXT, uid=TEXT), max_size=2).map(tuple),
    nodes=st.builds(model.NodeCounts, ready=COUNT, available=COUNT, unavailable=st.integers(-2, 2)),
    failure_reason=TEXT,
    failure_message=TEXT,
    phase=TEXT,
    observed_generation=st.none() | COUNT,
    conditions=CONDITIONS,
    old_conditions=CONDITIONS,
)


def whole(status: dict[str, Any], version: str) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "MachinePool",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"clusterName": "c"},
        "status": status,
    }


@given(STATUS)
def test_a_status_that_is_written_is_read_back_in_v1beta2(status: model.MachinePoolStatus) -> None:
    spelled = conversion.encode_v1beta2_status(status)
    assert conversion.parse_machine_pool(whole(spelled, model.V1BETA2)).status == status


@given(STATUS)
def test_a_status_that_is_written_is_read_back_in_v1beta1(status: model.MachinePoolStatus) -> None:
    spelled = conversion.encode_v1beta1_status(status)
    assert conversion.parse_machine_pool(whole(spelled, model.V1BETA1)).status == status


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


@given(STATUS, STATUS, st.sampled_from([model.V1BETA1, model.V1BETA2]))
def test_the_patch_makes_of_one_pool_the_other_and_is_empty_between_equals(
    before: model.MachinePoolStatus, after: model.MachinePoolStatus, version: str
) -> None:
    old = model.MachinePool("n", "p", api_version=version, cluster_name="c", status=before)
    new = dataclasses.replace(old, status=after)
    spell = conversion.encode_v1beta1_status if version == model.V1BETA1 else conversion.encode_v1beta2_status
    _, patch = conversion.merge_patches(old, new)
    merged = merge({"status": spell(before)}, patch)
    assert conversion.parse_machine_pool(whole(merged["status"], version)).status == after
    assert conversion.merge_patches(new, new) == ({}, {})


def test_an_empty_list_of_instances_is_written_as_none() -> None:
    before = model.MachinePool("n", "p", provider_ids=("a",), cluster_name="c")
    main, _ = conversion.merge_patches(before, dataclasses.replace(before, provider_ids=()))
    assert main == {"spec": {"providerIDList": None}}


def test_what_v1beta1_spells_otherwise_is_read_as_well() -> None:
    reference = {"apiVersion": "infra.example/v1beta1", "kind": "Pool", "name": "x", "namespace": "n"}
    machine = {"infrastructureRef": reference, "nodeDeletionTimeout": "1m30s", "bootstrap": {"configRef": reference}}
    body = whole({}, model.V1BETA1)
    body["spec"] |= {"minReadySeconds": 7, "template": {"spec": machine}}
    pool = conversion.parse_machine_pool(body)
    assert pool.infrastructure_ref == pool.bootstrap_ref == model.ObjectReference("infra.example", "Pool", "x")
    assert (pool.min_ready_s, pool.node_deletion_timeout_s) == (7, 90.0)


@pytest.mark.parametrize(
    ("manager", "operation", "finalizes", "copied"),
    [
        ("windlass", "Update", False, True),
        ("manager", "Update", True, True),
        ("capi-manager", "Update", True, True),
        ("manager", "Update", False, False),  # any operator made with kubebuilder
        ("manager", "Apply", True, False),
        ("kubectl", "Update", True, False),
    ],
)
def test_managed_fields_say_who_set_the_name_of_the_secret(
    manager: str, operation: str, finalizes: bool, copied: bool
) -> None:
    fields: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {"f:bootstrap": {"f:dataSecretName": {}}}}}}
    if finalizes:
        fields["f:metadata"] = {"f:finalizers": {f'v:"{model.FINALIZER}"': {}}}
    body = whole({}, model.V1BETA2)
    body["metadata"]["managedFields"] = [{"manager": manager, "operation": operation, "fieldsV1": fields}]
    assert conversion.parse_machine_pool(body).is_secret_copied is copied


def test_a_pool_without_a_cluster_name_cannot_be_read() -> None:
    body = whole({}, model.V1BETA2)
    del body["spec"]["clusterName"]
    with pytest.raises(errors.InvalidObject, match=r"spec\.clusterName"):
        conversion.parse_machine_pool(body)
