"""Pods and Nodes in protobuf, as narrow as decisions see them. Field numbers are those of Kubernetes' generated.proto.

Containers are one: what NodeResourcesFit counts of all of them together stands as the requests of the first, so that
whoever adds up containers comes to the right sum. Images, environments and all else that no decision looks at is not
there. Pods of one template share the bytes of their spec, and all but their own names of the rest.
"""

from collections.abc import Mapping
from typing import Any

from windlass.autoscaler.expander_server.wire import Field, Message, delimit, encode
from windlass.engine import facts
from windlass.quantity import MILLI, NANO, Quantity
from windlass.selectors import LabelSelector, NodeSelectorTerm, Requirement

Plain = dict[str, Any]

CONTAINER = "all"

_QUANTITY: Message = {"string": Field(1)}
_TIME: Message = {"seconds": Field(1), "nanos": Field(2)}
_OWNER: Message = {
    "kind": Field(1), "name": Field(3), "uid": Field(4), "apiVersion": Field(5), "controller": Field(6),
}  # fmt: skip
_META: Message = {
    "name": Field(1), "namespace": Field(3), "uid": Field(5), "creationTimestamp": Field(8, _TIME),
    "deletionTimestamp": Field(9, _TIME), "labels": Field(11, is_map=True), "annotations": Field(12, is_map=True),
    "ownerReferences": Field(13, _OWNER),
}  # fmt: skip
_REQUIREMENT: Message = {"key": Field(1), "operator": Field(2), "values": Field(3)}
_LABEL_SELECTOR: Message = {"matchExpressions": Field(2, _REQUIREMENT)}
_TERM: Message = {"matchExpressions": Field(1, _REQUIREMENT), "matchFields": Field(2, _REQUIREMENT)}
_NODE_SELECTOR: Message = {"nodeSelectorTerms": Field(1, _TERM)}
_POD_TERM: Message = {
    "labelSelector": Field(1, _LABEL_SELECTOR), "namespaces": Field(2), "topologyKey": Field(3),
    "namespaceSelector": Field(4, _LABEL_SELECTOR),
}  # fmt: skip
_AFFINITY: Message = {
    "nodeAffinity": Field(1, {"required": Field(1, _NODE_SELECTOR)}),
    "podAffinity": Field(2, {"required": Field(1, _POD_TERM)}),
    "podAntiAffinity": Field(3, {"required": Field(1, _POD_TERM)}),
}
_SPREAD: Message = {
    "maxSkew": Field(1), "topologyKey": Field(2), "whenUnsatisfiable": Field(3),
    "labelSelector": Field(4, _LABEL_SELECTOR), "minDomains": Field(5), "nodeAffinityPolicy": Field(6),
    "nodeTaintsPolicy": Field(7),
}  # fmt: skip
_CONTAINER: Message = {
    "name": Field(1),
    "ports": Field(6, {"hostPort": Field(2), "containerPort": Field(3), "protocol": Field(4), "hostIP": Field(5)}),
    "resources": Field(8, {"requests": Field(2, _QUANTITY, is_map=True)}),
}
_VOLUME_SOURCE: Message = {
    "emptyDir": Field(2, {"medium": Field(1)}),
    "persistentVolumeClaim": Field(10, {"claimName": Field(1), "readOnly": Field(2)}),
    "ephemeral": Field(29, {}),
}
_POD_SPEC: Message = {
    "volumes": Field(1, {"name": Field(1), "volumeSource": Field(2, _VOLUME_SOURCE)}),
    "containers": Field(2, _CONTAINER), "restartPolicy": Field(3), "terminationGracePeriodSeconds": Field(4),
    "nodeSelector": Field(7, is_map=True), "nodeName": Field(10), "affinity": Field(18, _AFFINITY),
    "schedulerName": Field(19),
    "tolerations": Field(22, {"key": Field(1), "operator": Field(2), "value": Field(3), "effect": Field(4)}),
    "priority": Field(25), "topologySpreadConstraints": Field(33, _SPREAD),
    "resourceClaims": Field(39, {"name": Field(1), "resourceClaimName": Field(3)}),
}  # fmt: skip
_POD_STATUS: Message = {
    "phase": Field(1),
    "conditions": Field(
        2, {"type": Field(1), "status": Field(2), "lastTransitionTime": Field(4, _TIME), "reason": Field(5)}
    ),
    "nominatedNodeName": Field(11),
}
_NODE_SPEC: Message = {
    "providerID": Field(3),
    "unschedulable": Field(4),
    "taints": Field(5, {"key": Field(1), "value": Field(2), "effect": Field(3)}),
}
_NODE_STATUS: Message = {
    "capacity": Field(1, _QUANTITY, is_map=True),
    "allocatable": Field(2, _QUANTITY, is_map=True),
    "conditions": Field(
        4, {"type": Field(1), "status": Field(2), "lastTransitionTime": Field(4, _TIME), "reason": Field(5)}
    ),
    "declaredFeatures": Field(14),
}
_METADATA, _SPEC, _STATUS = 1, 2, 3
"""Of a Pod."""
_NAME, _UID = _META["name"].number, _META["uid"].number
_NODE: Message = {"metadata": Field(1, _META), "spec": Field(2, _NODE_SPEC), "status": Field(3, _NODE_STATUS)}


class Writer:
    """Writes the objects of one request; a pod that is met again is written already."""

    def __init__(self) -> None:
        self._specs: dict[tuple[object, ...], bytes] = {}
        self._shared: dict[tuple[object, ...], tuple[bytes, bytes]] = {}
        self._pods: dict[int, bytes] = {}

    def pod(self, pod: facts.Pod) -> bytes:
        found = self._pods.get(id(pod))
        if found is None:
            meta, rest = self._share(pod)
            own = delimit(_NAME, pod.name.encode()) + delimit(_UID, pod.uid.encode())
            found = self._pods[id(pod)] = delimit(_METADATA, own + meta) + rest
        return found

    def node(self, node: facts.Node) -> bytes:
        return encode(_NODE, _spell_node(node))

    def _share(self, pod: facts.Pod) -> tuple[bytes, bytes]:
        """What others like it have, too: of its metadata, and all else."""
        labels, annotations = tuple(pod.labels.items()), tuple(pod.annotations.items())
        times = pod.created_s, pod.deleted_s, pod.unschedulable_since_s
        key = pod.namespace, labels, annotations, pod.owner, times, pod.phase, pod.nominated_node, self._spec(pod)
        if key not in self._shared:
            rest = delimit(_SPEC, self._spec(pod)) + delimit(_STATUS, encode(_POD_STATUS, _spell_status(pod)))
            self._shared[key] = encode(_META, _spell_shared_meta(pod)), rest
        return self._shared[key]

    def _spec(self, pod: facts.Pod) -> bytes:
        key = pod.spec, pod.node_name, pod.scheduler, pod.restart_policy, pod.grace_s
        if key not in self._specs:
            self._specs[key] = encode(_POD_SPEC, _spell_spec(pod))
        return self._specs[key]


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spell_shared_meta(pod: facts.Pod) -> Plain:
    owner = pod.owner
    return {
        "namespace": pod.namespace,
        "creationTimestamp": _spell_time(pod.created_s),
        "deletionTimestamp": None if pod.deleted_s is None else _spell_time(pod.deleted_s),
        "labels": pod.labels,
        "annotations": pod.annotations,
        "ownerReferences": owner
        and [
            {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            | {"controller": True}
        ],
    }


def _spell_spec(pod: facts.Pod) -> Plain:
    spec = pod.spec
    ports = [
        {"hostPort": one.port, "containerPort": one.port, "protocol": one.protocol, "hostIP": one.ip}
        for one in spec.host_ports
    ]
    claims = [
        {"name": one.name, "resourceClaimName": None if one.is_made_for_pod else one.claim} for one in spec.claims
    ]
    return {
        "volumes": [_spell_volume(one) for one in spec.volumes],
        "containers": [{"name": CONTAINER, "ports": ports, "resources": {"requests": _spell_amounts(spec.requests)}}],
        "restartPolicy": pod.restart_policy,
        "terminationGracePeriodSeconds": None if pod.grace_s is None else int(pod.grace_s),
        "nodeSelector": dict(spec.node_selector),
        "nodeName": pod.node_name or spec.node_name,
        "affinity": _spell_affinity(spec),
        "schedulerName": pod.scheduler,
        "tolerations": [
            {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
            for one in spec.tolerations
        ],
        "priority": spec.priority,
        "topologySpreadConstraints": [_spell_spread(one) for one in spec.spread],
        "resourceClaims": claims,
    }


def _spell_volume(volume: facts.Volume) -> Plain:
    """Those that pods share, and those on the node; of the others, the name."""
    sources: Mapping[str, Plain] = {
        "emptyDir": {"medium": volume.medium},
        "persistentVolumeClaim": {"claimName": volume.claim, "readOnly": volume.read_only},
        "ephemeral": {},
    }
    found = sources.get(volume.source)
    return {"name": volume.name, "volumeSource": {} if found is None else {volume.source: found}}


def _spell_affinity(spec: facts.PodSpec) -> Plain | None:
    found: Plain = {}
    if spec.node_affinity is not None:
        terms = [_spell_node_term(term) for term in spec.node_affinity.terms]
        found["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if spec.affinity:
        found["podAffinity"] = {"required": [_spell_pod_term(term) for term in spec.affinity]}
    if spec.anti_affinity:
        found["podAntiAffinity"] = {"required": [_spell_pod_term(term) for term in spec.anti_affinity]}
    return found or None


def _spell_node_term(term: NodeSelectorTerm) -> Plain:
    if term.is_invalid:
        return {}
    return {
        "matchExpressions": [_spell_requirement(one) for one in term.expressions],
        "matchFields": [_spell_requirement(one) for one in term.fields],
    }


def _spell_pod_term(term: facts.PodAffinityTerm) -> Plain:
    return {
        "labelSelector": _spell_selector(term.selector),
        "namespaces": term.namespaces,
        "topologyKey": term.topology_key,
        "namespaceSelector": _spell_selector(term.namespace_selector),
    }


def _spell_spread(one: facts.SpreadConstraint) -> Plain:
    return {
        "maxSkew": one.max_skew,
        "topologyKey": one.topology_key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _spell_selector(one.selector),
        "minDomains": one.min_domains if one.min_domains > 1 else None,
        "nodeAffinityPolicy": "" if one.honor_affinity else "Ignore",
        "nodeTaintsPolicy": "Honor" if one.honor_taints else "",
    }


def _spell_selector(selector: LabelSelector | None) -> Plain | None:
    return None if selector is None else {"matchExpressions": [_spell_requirement(r) for r in selector.requirements]}


def _spell_requirement(requirement: Requirement) -> Plain:
    return {"key": requirement.key, "operator": str(requirement.operator), "values": requirement.values}


def _spell_status(pod: facts.Pod) -> Plain:
    since_s = pod.unschedulable_since_s
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "phase": pod.phase,
        "conditions": [] if since_s is None else [unschedulable | {"lastTransitionTime": _spell_time(since_s)}],
        "nominatedNodeName": pod.nominated_node,
    }


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spell_node(node: facts.Node) -> Plain:
    return {
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "creationTimestamp": _spell_time(node.created_s),
            "labels": node.labels,
            "annotations": node.annotations,
        },
        "spec": {
            "providerID": node.provider_id,
            "unschedulable": node.unschedulable or None,
            "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        },
        "status": {
            "capacity": _spell_amounts(node.capacity),
            "allocatable": _spell_amounts(node.allocatable),
            "conditions": [
                {"type": one.type, "status": one.status, "reason": one.reason}
                | {"lastTransitionTime": _spell_time(one.since_s)}
                for one in node.conditions
            ],
            "declaredFeatures": sorted(node.declared_features),
        },
    }


# ── Both ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spell_amounts(resources: facts.Resources) -> dict[str, Plain]:
    return {name: {"string": _spell_quantity(name, amount)} for name, amount in resources}


def _spell_quantity(name: str, amount: int) -> str:
    """As people write it: cores in thousandths, memory in Mi or Gi."""
    family = "binary" if name in (facts.MEMORY, facts.EPHEMERAL_STORAGE) else "decimal"
    return str(Quantity(amount * (MILLI if name == facts.CPU else NANO), family))


def _spell_time(at_s: float) -> Plain | None:
    """Nothing for the beginning of time: templates of nodes that do not exist were never created."""
    return {"seconds": int(at_s)} if at_s else None
