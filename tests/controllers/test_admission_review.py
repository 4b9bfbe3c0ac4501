"""An AdmissionReview in, an AdmissionReview out."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import errors
from windlass.apiserver import patch_handlers
from windlass.controllers import admission, operator_process

Json = dict[str, Any]
SETTINGS = operator_process.OperatorSettings()
HOOKS = operator_process.select_webhooks("machine_pool,cluster_autoscaler,machine_autoscaler", SETTINGS)


def ask(path: str, found: Json, before: Json | None = None) -> Json:
    request = {"uid": "u", "operation": "UPDATE" if before else "CREATE", "object": found, "oldObject": before}
    body = msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    answer = msgspec.json.decode(admission.handle_review(body, HOOKS[path]))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u"
    response: Json = answer["response"]
    return response


def test_a_good_one_may_be_stored() -> None:
    assert ask("/validate-clusterautoscalers", {"metadata": {"name": "default"}}) == {"uid": "u", "allowed": True}
    spec = {"minReplicas": 1, "maxReplicas": 2}
    assert ask("/validate-machineautoscalers", {"metadata": {"name": "a"}, "spec": spec})["allowed"]


def test_a_bad_one_is_refused_and_told_all_that_is_wrong() -> None:
    response = ask("/validate-machineautoscalers", {"spec": {"minReplicas": 2, "maxReplicas": -1}})
    assert not response["allowed"]
    told = "[min and max replicas must be greater than 0, max replicas must be greater than or equal to min]"
    found = "found minReplicas 2, maxReplicas -1"
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": f"{told}: {found}"}


def test_a_warning_keeps_nobody_from_anything() -> None:
    limits = {"gpus": [{"type": "nvidia.com/gpu", "min": 0, "max": 1}]}
    response = ask(
        "/validate-clusterautoscalers", {"metadata": {"name": "default"}, "spec": {"resourceLimits": limits}}
    )
    assert response["allowed"]
    assert response["warnings"][0].startswith("GPU accelerator label contains a poorly formed value: nvidia.com/gpu")


def test_a_machine_pool_is_completed_and_judged_at_cluster_apis_paths() -> None:
    machine = {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "version": "1.36.3"}
    found: Json = {"apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {"name": "p"}}
    found["spec"] = {"clusterName": "c", "template": {"spec": machine}}
    response = ask("/mutate-cluster-x-k8s-io-v1beta2-machinepool", found)
    patch = msgspec.json.decode(base64.b64decode(response["patch"]))
    made = patch_handlers.json_patch(found, patch)
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["template"]["spec"]["version"] == "v1.36.3"
    assert ask("/validate-cluster-x-k8s-io-v1beta2-machinepool", made)["allowed"]
    other = {**made, "spec": {**made["spec"], "clusterName": "d"}}
    assert "immutable" in ask("/validate-cluster-x-k8s-io-v1beta2-machinepool", other, made)["status"]["message"]


def test_what_is_no_review_is_refused_as_such() -> None:
    for body in (b"", b"[]", b"{}", b'{"request": {}}', b'{"request": 1}'):
        with pytest.raises(errors.InvalidInput, match="AdmissionReview"):
            admission.handle_review(body, HOOKS["/validate-machineautoscalers"])


keys = st.text("ab~/", min_size=1, max_size=3)
values = st.recursive(
    st.integers() | st.none(), lambda each: st.lists(each, max_size=2) | st.dictionaries(keys, each), max_leaves=6
)
objects = st.dictionaries(keys, values, max_size=4)


@given(objects, objects)
def test_a_patch_makes_one_object_of_the_other(before: Json, after: Json) -> None:
    assert patch_handlers.json_patch(before, list(admission.json_patch(before, after))) == after
