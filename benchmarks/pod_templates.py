"""Pods as the API server sends them, 4 kB of JSON each, rendered from templates."""

import re
from typing import Any

import msgspec

_TOKEN = re.compile(rb"@([A-Z]+)@")
CREATED = "2026-11-15T08:00:00Z"


class Template:
    """JSON with places in it that differ from object to object."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._parts = _TOKEN.split(msgspec.json.encode(tree))
        self._names = [name.decode() for name in self._parts[1::2]]

    def render(self, **values: bytes) -> bytes:
        parts = self._parts.copy()
        parts[1::2] = [values[name] for name in self._names]
        return b"".join(parts)


def pod_tree(number: int, state: str) -> dict[str, Any]:
    """A pod as the API server sends them, written by a Deployment, the scheduler and a kubelet."""
    app = f"app-{number}"
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/part-of": f"suite-{number % 40}",
        "pod-template-hash": f"{number:010x}",
        "pod-name": "@NAME@",
    }
    token = {"name": "kube-api-access-@RANDOM@", "readOnly": True}
    spec = {
        "volumes": [
            {"name": token["name"], "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ], "defaultMode": 420}},
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
        ],
        "containers": [_container("main", number, token), _container("proxy", number, token)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        **({} if state == "pending" else {"nodeName": "@NODE@"}),
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for what in ("not-ready", "unreachable")
        ],
        "priority": number % 3,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "generateName": f"{app}-{number:010x}-",
            "namespace": f"team-{number % 20}",
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": CREATED,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{number:010x}",
                "uid": f"00000000-0000-4000-9000-{number:012d}", "controller": True, "blockOwnerDeletion": True,
            }],
            "managedFields": _managed_fields(labels),
        },
        "spec": spec,
        "status": _status(state),
    }  # fmt: skip


def _container(name: str, number: int, token: dict[str, Any]) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    return {
        "name": name,
        "image": f"registry.example/{name}/app-{number}:1.27.{number % 9}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}-of-app-{number}"} for i in range(6)],
        "resources": {
            "limits": {"memory": "256Mi"},
            "requests": {"cpu": f"{10 + number}m", "memory": f"{64 + number % 64}Mi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {**token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _managed_fields(labels: dict[str, str]) -> list[dict[str, Any]]:
    fields = {
        "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, **{f"f:{key}": {} for key in labels}}},
        "f:spec": {"f:containers": {'k:{"name":"main"}': {
            ".": {}, "f:env": {f'k:{{"name":"SETTING_{i}"}}': {".": {}, "f:name": {}, "f:value": {}} for i in range(6)},
            "f:image": {}, "f:name": {}, "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}},
        }}},
    }  # fmt: skip
    return [
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": CREATED,
         "fieldsType": "FieldsV1", "fieldsV1": fields},
    ]  # fmt: skip


def _status(state: str) -> dict[str, Any]:
    if state == "pending":
        return {"phase": "Pending", "qosClass": "Burstable"}
    conditions = [
        {"type": what, "status": "True" if state == "running" else "False", "lastProbeTime": None,
         "lastTransitionTime": CREATED}
        for what in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]  # fmt: skip
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED})
    if state == "bound":
        return {"phase": "Pending", "conditions": conditions, "qosClass": "Burstable"}
    started = [
        {"name": name, "state": {"running": {"startedAt": CREATED}}, "lastState": {}, "ready": True, "restartCount": 0,
         "image": f"registry.example/{name}", "imageID": "sha256:" + "0" * 64, "containerID": "cri://@UID@"}
        for name in ("main", "proxy")
    ]  # fmt: skip
    return {"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": "10.1.2.3",
            "startTime": CREATED, "containerStatuses": started, "qosClass": "Burstable"}  # fmt: skip
