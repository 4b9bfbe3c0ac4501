"""The story of the autoscaler's options: requests for capacity, spare room, quotas and priorities, all at once."""

from pathlib import Path

import yaml

from testbed import api, objects, openshift
from testbed.api import Object
from testbed.bed import Bed
from tests.testbed.rbac import scaling_scenario, service_accounts
from tools import source_analysis
from windlass.autoscaler import rbac

LISTS = (
    rbac.PRIORITY_EXPANDER,
    rbac.PROVISIONING_REQUESTS,
    rbac.CAPACITY_BUFFERS,
    rbac.CAPACITY_QUOTAS,
)
_FLAGS = (
    "--expander=priority",
    "--enable-provisioning-requests=true",
    "--capacity-buffer-controller-enabled=true",
    "--capacity-buffer-pod-injection-enabled=true",
    "--capacity-quotas-enabled=true",
)
_V1, _BETA = "autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1"
_CONTAINER = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
_POD: Object = {"metadata": {"labels": {"app": "spare"}}, "spec": {"containers": [_CONTAINER]}}
_CHOSEN = {"matchLabels": {"app": "spare"}}
_WORKLOADS = {
    "Deployment": ("apps/v1", {"replicas": 0, "selector": _CHOSEN, "template": _POD}),
    "ReplicaSet": ("apps/v1", {"replicas": 0, "selector": _CHOSEN, "template": _POD}),
    "StatefulSet": ("apps/v1", {"replicas": 0, "selector": _CHOSEN, "template": _POD, "serviceName": "none"}),
    "ReplicationController": ("v1", {"replicas": 0, "selector": _CHOSEN["matchLabels"], "template": _POD}),
    "Job": ("batch/v1", {"suspend": True, "template": {"spec": {**_POD["spec"], "restartPolicy": "Never"}}}),
}
"""Without a single pod, so that their own templates are read."""


def report(bed: Bed, directory: Path) -> None:
    for kind in ("provisioningrequests", "capacitybuffers", "capacityquotas"):
        path = source_analysis.ROOT / "deploy" / "crds" / f"autoscaling.x-k8s.io_{kind}.yaml"
        openshift.define(bed.api, yaml.safe_load(path.read_text()))
    service_accounts.give(bed, *LISTS)
    _prepare(bed)
    with scaling_scenario.leading(bed, directory, *_FLAGS):
        _wait(bed)


def _prepare(bed: Bed) -> None:
    metadata = {"name": "spare", "namespace": "default"}
    bed.api.add({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": _POD})
    _add_buffer(bed, "template", {"podTemplateRef": {"name": "spare"}})
    for kind, (version, spec) in _WORKLOADS.items():
        bed.api.add(objects.made(version, kind, "spare", "default", spec))
        group = version.rpartition("/")[0] or "core"
        _add_buffer(bed, kind.lower(), {"scalableRef": {"apiGroup": group, "kind": kind, "name": "spare"}})
    bed.api.add(objects.made(_BETA, "CapacityQuota", "all", "", {"limits": {"resources": {"nodes": 50}}}))
    for name in ("new", "old"):
        pods = [{"podTemplateRef": {"name": "spare"}, "count": 1}]
        asked = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "podSets": pods}
        bed.api.add(objects.made(_V1, "ProvisioningRequest", name, "default", asked))
    answer = {
        "type": "Failed",
        "status": "True",
        "reason": "Long",
        "message": "",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    bed.api.merge(f"{_place(_V1, 'provisioningrequests', 'old')}/status", {"status": {"conditions": [answer]}})


def _add_buffer(bed: Bed, name: str, of: Object) -> None:
    bed.api.add(objects.made(_BETA, "CapacityBuffer", name, "default", {**of, "replicas": 1}))


def _wait(bed: Bed) -> None:
    for name in ("template", *(kind.lower() for kind in _WORKLOADS)):
        path = _place(_BETA, "capacitybuffers", name)
        api.wait_for(f"{name} is kept", lambda path=path: bed.api.get(path).get("status", {}).get("podTemplateRef"))  # type: ignore[misc]
    request = _place(_V1, "provisioningrequests", "new")
    api.wait_for("it is answered", lambda: bed.api.get(request).get("status"))
    api.wait_for("the old one is gone", lambda: bed.api.find(_place(_V1, "provisioningrequests", "old")) is None)
    api.wait_for("the quota is counted", lambda: bed.api.get(f"/apis/{_BETA}/capacityquotas/all").get("status"))
    made = bed.api.get(_place(_BETA, "capacitybuffers", "template"))["status"]["podTemplateRef"]["name"]
    source_of, path = (f"/api/v1/namespaces/default/podtemplates/{name}" for name in ("spare", made))
    bed.api.merge(source_of, {"template": {"metadata": {"labels": {"changed": "yes"}}}})
    api.wait_for("it is made anew", lambda: "changed" in bed.api.get(path)["template"]["metadata"]["labels"])


def _place(version: str, plural: str, name: str) -> str:
    return f"/apis/{version}/namespaces/default/{plural}/{name}"
