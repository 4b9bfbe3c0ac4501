"""One well-formed object of every kind that the autoscaler follows, with most of the fields that it reads."""

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

TENANT = "tenant"
"""The namespace of malformed objects. A Machine that cannot be read holds up the groups of its own."""
CAPI = "cluster.x-k8s.io/v1beta2"
SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
OPTIONS = "cluster.x-k8s.io/autoscaling-options-"
SINCE = "2026-01-01T00:00:00Z"

CONTAINER: Json = {
    "name": "c",
    "image": "x",
    "restartPolicy": None,
    "ports": [{"hostPort": 80, "containerPort": 80, "protocol": "TCP", "hostIP": "1.2.3.4"}],
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}, "claims": [{"name": "g"}]},
}
AFFINITY: Json = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z"]}],
                }
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
        ],
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                },
                "namespaces": [TENANT],
                "topologyKey": "kubernetes.io/hostname",
                "namespaceSelector": {},
            }
        ]
    },
}
POD_SPEC: Json = {
    "nodeName": "",
    "priority": 0,
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "nodeSelector": {"pool": TENANT},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "minDomains": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
            "matchLabelKeys": ["a"],
            "nodeAffinityPolicy": "Honor",
        }
    ],
    "containers": [CONTAINER],
    "initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
    "overhead": {"cpu": "1"},
    "volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "e", "emptyDir": {}},
        {"name": "w", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "s"}}}},
    ],
    "resourceClaims": [{"name": "g", "resourceClaimName": "q"}],
    "schedulingGates": [],
}
UNSCHEDULABLE: Json = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": SINCE}],
    "nominatedNodeName": "",
}
RUNNING: Json = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}],
    "startTime": SINCE,
}
GROUP_ANNOTATIONS: Json = {
    f"{SIZE}min-size": "0",
    f"{SIZE}max-size": "5",
    f"{CAPACITY}cpu": "4",
    f"{CAPACITY}memory": "16Gi",
    f"{CAPACITY}labels": "a=b",
    f"{CAPACITY}taints": "k=v:NoSchedule",
    f"{CAPACITY}gpu-count": "1",
    f"{CAPACITY}gpu-type": "nvidia.com/gpu",
    f"{CAPACITY}maxPods": "10",
    f"{CAPACITY}ephemeral-disk": "1Gi",
    f"{CAPACITY}csi-driver": "a=volumes=1",
    f"{CAPACITY}dra-driver": "gpu.example.com",
    f"{OPTIONS}scaledownutilizationthreshold": "0.5",
    f"{OPTIONS}scaledownunneededtime": "10m",
    f"{OPTIONS}maxnodeprovisiontime": "20m",
}
SCALABLE_SPEC: Json = {
    "clusterName": "work",
    "replicas": 1,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "clusterName": "work",
            "failureDomain": "z",
            "infrastructureRef": {
                "kind": "SimulatedMachineTemplate",
                "name": "bent",
                "apiGroup": "infrastructure.cluster.x-k8s.io",
            },
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        },
    },
    "providerIDList": ["try:///bent"],
}
CONDITIONS: list[Json] = [
    {"type": "Ready", "status": "False", "reason": "r", "message": "line\nE1118 forged", "lastTransitionTime": SINCE}
]
_TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
_SELECTOR: Json = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that is followed."""

    api_version: str
    kind: str
    plural: str
    namespace: str
    """Empty: it is of the cluster."""
    body: Json
    metadata: Json
    watched_in: str = ""
    """The namespace that the autoscaler watches; empty: all."""

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    @property
    def watch_path(self) -> str:
        within = f"/namespaces/{self.watched_in}" if self.watched_in else ""
        return f"{self.root}{within}/{self.plural}"

    @property
    def collection(self) -> str:
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.root}{within}/{self.plural}"

    def make(self, name: str, version: str) -> Json:
        """A well-formed one, freely changeable."""
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "creationTimestamp": SINCE}
        if self.namespace:
            metadata["namespace"] = self.namespace
        made = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {**metadata, **self.metadata}}
        return copy.deepcopy({**made, **self.body})


def _owned_by(api_version: str, kind: str, name: str) -> Json:
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}
    return {"ownerReferences": [owner]}


_LABELS: Json = {"labels": {"a": "b"}}
_POD_META: Json = {
    **_LABELS,
    **_owned_by("apps/v1", "ReplicaSet", "r"),
    "annotations": {
        "x": "y",
        "cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "1s",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
    },
    "deletionTimestamp": None,
}
_WORKLOAD: Json = {"spec": {"replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE}}
_SIMPLE_SPEC: Json = {
    name: POD_SPEC[name] for name in ("containers", "nodeSelector", "tolerations", "terminationGracePeriodSeconds")
}
_DEVICES: Json = {
    "requests": [
        {
            "name": "r",
            "exactly": {
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": "true"}}],
                "adminAccess": False,
                "capacity": {"requests": {"m": "1"}},
                "tolerations": [{"key": "a", "operator": "Exists"}],
            },
        },
        {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "gpu", "count": 1}]},
    ],
    "constraints": [{"requests": ["r"], "matchAttribute": "a/b"}],
    "config": [{"requests": ["r"], "opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}],
}

PENDING_POD = Kind("v1", "Pod", "pods", TENANT, {"spec": POD_SPEC, "status": UNSCHEDULABLE}, _POD_META)
SIMPLE_POD = Kind("v1", "Pod", "pods", TENANT, {"spec": _SIMPLE_SPEC, "status": UNSCHEDULABLE}, _POD_META)
BOUND_POD = Kind("v1", "Pod", "pods", TENANT, {"spec": _SIMPLE_SPEC, "status": RUNNING}, _POD_META)
"""`nodeName` is set when it is placed."""
NODE = Kind(
    "v1", "Node", "nodes", "",
    {
        "spec": {
            "providerID": "try:///bent",
            "unschedulable": False,
            "taints": [{"key": "a", "value": "123", "effect": "NoSchedule", "timeAdded": SINCE}],
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "1"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE, "reason": "r"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
            "images": [{"names": ["x"], "sizeBytes": 1}],
            "volumesAttached": [{"name": "a", "devicePath": "b"}],
            "features": {"supplementalGroupsPolicy": True},
            "declaredFeatures": ["a"],
        },
    },
    {
        "labels": {"kubernetes.io/hostname": "bent", "topology.kubernetes.io/zone": "z"},
        "annotations": {"cluster.x-k8s.io/machine": "bent"},
    },
)  # fmt: skip
LEAVING_NODE = dataclasses.replace(
    NODE,
    body={**NODE.body, "spec": {**NODE.body["spec"], "taints": [
        {"key": "ToBeDeletedByClusterAutoscaler", "value": "1790000000", "effect": "NoSchedule"},
        {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1790000000", "effect": "PreferNoSchedule"},
    ]}},
)  # fmt: skip
MACHINE = Kind(
    CAPI, "Machine", "machines", TENANT,
    {
        "spec": {"clusterName": "work", "providerID": "try:///bent"},
        "status": {
            "phase": "Running",
            "nodeRef": {"name": "bent"},
            "failureReason": "x",
            "failureMessage": "line1\nE1118 00:00:00.000000       1 forged.go:1] FORGED",
            "conditions": CONDITIONS,
        },
    },
    {"annotations": {"cluster.x-k8s.io/delete-machine": "x"}, **_owned_by(CAPI, "MachineSet", "tenant-1")},
)  # fmt: skip
_SCALABLE: Json = {"spec": SCALABLE_SPEC, "status": {"replicas": 1, "conditions": CONDITIONS}}
_SCALABLE_META: Json = {**_LABELS, "annotations": GROUP_ANNOTATIONS}

KINDS: tuple[Kind, ...] = (
    PENDING_POD,
    SIMPLE_POD,
    BOUND_POD,
    NODE, NODE, NODE, LEAVING_NODE,
    Kind("coordination.k8s.io/v1", "Lease", "leases", "kube-system",
         {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1, "renewTime": SINCE}}, {}),
    Kind("v1", "Namespace", "namespaces", "", {"spec": {"finalizers": []}, "status": {"phase": "Active"}}, _LABELS),
    Kind("v1", "PersistentVolume", "persistentvolumes", "",
         {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s",
                   "claimRef": {"name": "c", "namespace": TENANT, "uid": "u"}, "volumeMode": "Filesystem",
                   "csi": {"driver": "d", "volumeHandle": "h"}, "persistentVolumeReclaimPolicy": "Delete",
                   "nodeAffinity": {"required": AFFINITY["nodeAffinity"]
                                    ["requiredDuringSchedulingIgnoredDuringExecution"]}},
          "status": {"phase": "Bound"}}, _LABELS),
    Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", TENANT,
         {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                   "storageClassName": "s", "volumeName": "v", "volumeMode": "Filesystem"},
          "status": {"phase": "Bound"}}, {"annotations": {"volume.kubernetes.io/selected-node": "n"}}),
    Kind("v1", "PodTemplate", "podtemplates", TENANT, {"template": _TEMPLATE}, {}),
    Kind("v1", "ReplicationController", "replicationcontrollers", TENANT,
         {"spec": {"replicas": 1, "selector": {"a": "b"}, "template": _TEMPLATE}}, {}),
    Kind("v1", "ConfigMap", "configmaps", "kube-system", {"data": {"priorities": "10:\n- .*\n50:\n- tenant.*\n"}}, {},
         watched_in="kube-system"),
    Kind("apps/v1", "DaemonSet", "daemonsets", TENANT,
         {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}, "status": {"desiredNumberScheduled": 1}}, {}),
    Kind("apps/v1", "ReplicaSet", "replicasets", TENANT, {**_WORKLOAD, "status": {"replicas": 1}}, {}),
    Kind("apps/v1", "StatefulSet", "statefulsets", TENANT, {**_WORKLOAD, "status": {"replicas": 1}}, {}),
    Kind("batch/v1", "Job", "jobs", TENANT,
         {"spec": {"parallelism": 1, "completions": 1, "template": _TEMPLATE}, "status": {"active": 1}}, {}),
    Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", TENANT,
         {"spec": {"minAvailable": 1, "selector": _SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
          "status": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                     "disruptedPods": {"x": SINCE}, "observedGeneration": 1}}, {}),
    Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", "",
         {"provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete",
          "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}]}, {}),
    Kind("storage.k8s.io/v1", "CSINode", "csinodes", "",
         {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["z"], "allocatable": {"count": 3}}]}},
         {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}}),
    Kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", "",
         {"spec": {"attachRequired": True, "storageCapacity": True, "preventPodSchedulingIfMissing": True}}, {}),
    Kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", TENANT,
         {"storageClassName": "s", "capacity": "1Gi", "maximumVolumeSize": "1Gi", "nodeTopology": _SELECTOR}, {}),
    Kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", "",
         {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
          "status": {"attached": True}}, {}),
    Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", "",
         {"spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
                   "config": [{"opaque": {"driver": "d", "parameters": {"a": 1}}}],
                   "extendedResourceName": "example.com/gpu"}}, {}),
    Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", TENANT,
         {"spec": {"devices": _DEVICES},
          "status": {"allocation": {"devices": {"results": [
              {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "g0"}]},
              "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}},
              "reservedFor": [{"resource": "pods", "name": "f", "uid": "u"}]}}, {}),
    Kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", "",
         {"spec": {"driver": "gpu.example.com", "nodeName": "idle-0",
                   "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                   "devices": [{"name": "g0",
                                "attributes": {"model": {"string": "a"}, "v": {"version": "1.2.3"}, "i": {"int": 1},
                                               "b": {"bool": True}},
                                "capacity": {"m": {"value": "1Gi",
                                                   "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}},
                                "taints": [{"key": "a", "effect": "NoSchedule"}],
                                "consumesCounters": [{"counterSet": "x", "counters": {"c": {"value": "1"}}}]}],
                   "sharedCounters": [{"name": "x", "counters": {"c": {"value": "1"}}}]}}, {}),
    Kind("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "provisioningrequests", TENANT,
         {"spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
                   "podSets": [{"podTemplateRef": {"name": "t"}, "count": 1}], "parameters": {"a": "b"}},
          "status": {"conditions": CONDITIONS}}, {}),
    Kind("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "capacitybuffers", TENANT,
         {"spec": {"provisioningStrategy": "buffer.x-k8s.io/active-capacity", "podTemplateRef": {"name": "t"},
                   "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "d"}, "replicas": 1,
                   "percentage": 1, "limits": {"cpu": "1"}},
          "status": {"podTemplateRef": {"name": "t"}, "replicas": 1, "podTemplateGeneration": 1,
                     "conditions": CONDITIONS}}, {"generation": 1}),
    Kind("autoscaling.x-k8s.io/v1beta1", "CapacityQuota", "capacityquotas", "",
         {"spec": {"selector": {"matchLabels": {"pool": "nowhere"}}, "limits": {"resources": {"nodes": "1000000"}}},
          "status": {"used": {"resources": {"nodes": "1"}}, "conditions": CONDITIONS}}, {}),
    Kind(CAPI, "MachineDeployment", "machinedeployments", TENANT, _SCALABLE, _SCALABLE_META),
    Kind(CAPI, "MachineSet", "machinesets", TENANT, _SCALABLE,
         {**_SCALABLE_META, **_owned_by(CAPI, "MachineDeployment", TENANT)}),
    Kind(CAPI, "MachinePool", "machinepools", TENANT, _SCALABLE, _SCALABLE_META),
    MACHINE,
    Kind(CAPI, "MachineDrainRule", "machinedrainrules", TENANT,
         {"spec": {"drain": {"behavior": "Drain", "order": 1},
                   "machines": [{"selector": _SELECTOR, "clusterSelector": _SELECTOR}],
                   "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                             "namespaceSelector": _SELECTOR}]}}, _LABELS),
    Kind(CAPI, "Cluster", "clusters", TENANT, {"spec": {"paused": False}, "status": {"phase": "Provisioned"}}, _LABELS),
    Kind("infrastructure.cluster.x-k8s.io/v1beta1", "SimulatedMachineTemplate", "simulatedmachinetemplates", TENANT,
         {"spec": {"template": {"spec": {}}},
          "status": {"capacity": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
                     "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"}}},
         {"annotations": {f"{CAPACITY}cpu": "4"}}),
)  # fmt: skip
"""Those that are drawn from, each as often as another."""

WEIGHTS: Mapping[str, int] = {"Pod": 3, "MachineDeployment": 3, "Machine": 2, "ResourceClaim": 3}
"""How much more often a kind is drawn."""
