"""gRPC messages: BestOptionsRequest and BestOptionsResponse, with pods and nodes in protobuf.

Objects carry only the fields that decisions see. Field numbers are those of Kubernetes' generated.proto.
"""

from collections.abc import Mapping
from typing import Any

from windlass.autoscaler.grpc_expander import protobuf
from windlass.autoscaler.grpc_expander.protobuf import ProtoField, ProtoMessage, encode_delimited, encode_message
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.quantity import MILLI, NANO, Quantity
from windlass.selectors import LabelSelector, NodeSelectorTerm, Requirement

METHOD = "/grpcplugin.Expander/BestOptions"

_OPTIONS, _NODES = 1, 3

_GROUP, _COUNT, _DEBUG, _POD = 1, 2, 3, 5

_TEXTS = frozenset({_GROUP, _DEBUG})

MAX_OPTIONS = 10_000
"""Maximum number of options in a response; no cluster has as many groups."""

MAX_FIELDS = 1_000_000
"""Maximum number of fields in a response, which may repeat all pods of the request. Decoding them takes about a
second."""


def encode_request(question: BestOptionsRequest) -> bytes:
    """Encode a BestOptionsRequest."""
    writer = ObjectEncoder()
    written = bytearray()
    for option, pods in zip(question.options, question.pods, strict=True):
        written += protobuf.encode_delimited(
            _OPTIONS,
            _encode_option(option) + b"".join(protobuf.encode_delimited(_POD, writer.pod(pod)) for pod in pods),
        )
    for group, node in question.templates.items():
        entry = protobuf.encode_delimited(1, group.encode()) + protobuf.encode_delimited(2, writer.node(node))
        written += protobuf.encode_delimited(_NODES, entry)
    return bytes(written)


def _encode_option(option: ExpansionOption) -> bytes:
    count = protobuf.encode_varint(_COUNT << 3 | protobuf.VARINT) + protobuf.encode_varint(option.node_count)
    return (
        protobuf.encode_delimited(_GROUP, option.group.encode())
        + count
        + protobuf.encode_delimited(_DEBUG, option.debug.encode())
    )


def decode_response(content: bytes) -> tuple[str, ...]:
    """Return the group ids of a BestOptionsResponse, in order. NotProtobuf for other bytes."""
    groups: list[str] = []
    fields = 0
    for number, kind, value in protobuf.read_fields(content):
        fields += 1
        if number == _OPTIONS and kind == protobuf.BYTES and isinstance(value, bytes):
            group, more = _decode_option(value, MAX_FIELDS - fields)
            fields += more
            groups.append(group)
        if len(groups) > MAX_OPTIONS or fields > MAX_FIELDS:
            raise protobuf.NotProtobuf(f"found more than {MAX_OPTIONS} options or {MAX_FIELDS} fields")
    return tuple(groups)


def _decode_option(content: bytes, most: int) -> tuple[str, int]:
    """Decode an option: its group, and the number of fields read, not much above `most`."""
    group, fields = "", 0
    for number, kind, value in protobuf.read_fields(content):
        fields += 1
        if number in _TEXTS and kind == protobuf.BYTES and isinstance(value, bytes):
            text = _decode_text(value)
            group = text if number == _GROUP else group
        if fields > most:
            break
    return group, fields


def _decode_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise protobuf.NotProtobuf(f"found a text that is not UTF-8: {error.reason}") from None


FieldValues = dict[str, Any]

CONTAINER_NAME = "all"

_QUANTITY: ProtoMessage = {"string": ProtoField(1)}

_TIME: ProtoMessage = {"seconds": ProtoField(1), "nanos": ProtoField(2)}

_OWNER: ProtoMessage = {
    "kind": ProtoField(1), "name": ProtoField(3), "uid": ProtoField(4), "apiVersion": ProtoField(5),
    "controller": ProtoField(6),
}  # fmt: skip

_META: ProtoMessage = {
    "name": ProtoField(1), "namespace": ProtoField(3), "uid": ProtoField(5), "creationTimestamp": ProtoField(8, _TIME),
    "deletionTimestamp": ProtoField(9, _TIME), "labels": ProtoField(11, is_map=True),
    "annotations": ProtoField(12, is_map=True), "ownerReferences": ProtoField(13, _OWNER),
}  # fmt: skip

_REQUIREMENT: ProtoMessage = {"key": ProtoField(1), "operator": ProtoField(2), "values": ProtoField(3)}

_LABEL_SELECTOR: ProtoMessage = {"matchExpressions": ProtoField(2, _REQUIREMENT)}

_TERM: ProtoMessage = {"matchExpressions": ProtoField(1, _REQUIREMENT), "matchFields": ProtoField(2, _REQUIREMENT)}

_NODE_SELECTOR: ProtoMessage = {"nodeSelectorTerms": ProtoField(1, _TERM)}

_POD_TERM: ProtoMessage = {
    "labelSelector": ProtoField(1, _LABEL_SELECTOR), "namespaces": ProtoField(2), "topologyKey": ProtoField(3),
    "namespaceSelector": ProtoField(4, _LABEL_SELECTOR),
}  # fmt: skip

_AFFINITY: ProtoMessage = {
    "nodeAffinity": ProtoField(1, {"required": ProtoField(1, _NODE_SELECTOR)}),
    "podAffinity": ProtoField(2, {"required": ProtoField(1, _POD_TERM)}),
    "podAntiAffinity": ProtoField(3, {"required": ProtoField(1, _POD_TERM)}),
}

_SPREAD: ProtoMessage = {
    "maxSkew": ProtoField(1), "topologyKey": ProtoField(2), "whenUnsatisfiable": ProtoField(3),
    "labelSelector": ProtoField(4, _LABEL_SELECTOR), "minDomains": ProtoField(5), "nodeAffinityPolicy": ProtoField(6),
    "nodeTaintsPolicy": ProtoField(7),
}  # fmt: skip

_CONTAINER: ProtoMessage = {
    "name": ProtoField(1),
    "ports": ProtoField(
        6,
        {"hostPort": ProtoField(2), "containerPort": ProtoField(3), "protocol": ProtoField(4), "hostIP": ProtoField(5)},
    ),
    "resources": ProtoField(8, {"requests": ProtoField(2, _QUANTITY, is_map=True)}),
}

_VOLUME_SOURCE: ProtoMessage = {
    "emptyDir": ProtoField(2, {"medium": ProtoField(1)}),
    "persistentVolumeClaim": ProtoField(10, {"claimName": ProtoField(1), "readOnly": ProtoField(2)}),
    "ephemeral": ProtoField(29, {}),
}

_POD_SPEC: ProtoMessage = {
    "volumes": ProtoField(1, {"name": ProtoField(1), "volumeSource": ProtoField(2, _VOLUME_SOURCE)}),
    "containers": ProtoField(2, _CONTAINER), "restartPolicy": ProtoField(3),
    "terminationGracePeriodSeconds": ProtoField(4),
    "nodeSelector": ProtoField(7, is_map=True), "nodeName": ProtoField(10), "affinity": ProtoField(18, _AFFINITY),
    "schedulerName": ProtoField(19),
    "tolerations": ProtoField(
        22, {"key": ProtoField(1), "operator": ProtoField(2), "value": ProtoField(3), "effect": ProtoField(4)}
    ),
    "priority": ProtoField(25), "topologySpreadConstraints": ProtoField(33, _SPREAD),
    "resourceClaims": ProtoField(39, {"name": ProtoField(1), "resourceClaimName": ProtoField(3)}),
}  # fmt: skip

_POD_STATUS: ProtoMessage = {
    "phase": ProtoField(1),
    "conditions": ProtoField(
        2,
        {
            "type": ProtoField(1),
            "status": ProtoField(2),
            "lastTransitionTime": ProtoField(4, _TIME),
            "reason": ProtoField(5),
        },
    ),
    "nominatedNodeName": ProtoField(11),
}

_NODE_SPEC: ProtoMessage = {
    "providerID": ProtoField(3),
    "unschedulable": ProtoField(4),
    "taints": ProtoField(5, {"key": ProtoField(1), "value": ProtoField(2), "effect": ProtoField(3)}),
}

_NODE_STATUS: ProtoMessage = {
    "capacity": ProtoField(1, _QUANTITY, is_map=True),
    "allocatable": ProtoField(2, _QUANTITY, is_map=True),
    "conditions": ProtoField(
        4,
        {
            "type": ProtoField(1),
            "status": ProtoField(2),
            "lastTransitionTime": ProtoField(4, _TIME),
            "reason": ProtoField(5),
        },
    ),
    "declaredFeatures": ProtoField(14),
}

_METADATA, _SPEC, _STATUS = 1, 2, 3
"""Field tables of a Pod."""

_NAME, _UID = _META["name"].number, _META["uid"].number

_NODE: ProtoMessage = {
    "metadata": ProtoField(1, _META),
    "spec": ProtoField(2, _NODE_SPEC),
    "status": ProtoField(3, _NODE_STATUS),
}


class ObjectEncoder:
    """Encodes the objects of one request; an encoded pod is cached."""

    def __init__(self) -> None:
        self._specs: dict[tuple[object, ...], bytes] = {}
        self._shared: dict[tuple[object, ...], tuple[bytes, bytes]] = {}
        self._pods: dict[int, bytes] = {}

    def pod(self, pod: facts.Pod) -> bytes:
        found = self._pods.get(id(pod))
        if found is None:
            meta, rest = self._share(pod)
            own = encode_delimited(_NAME, pod.name.encode()) + encode_delimited(_UID, pod.uid.encode())
            found = self._pods[id(pod)] = encode_delimited(_METADATA, own + meta) + rest
        return found

    def node(self, node: facts.Node) -> bytes:
        return encode_message(_NODE, _node_fields(node))

    def _share(self, pod: facts.Pod) -> tuple[bytes, bytes]:
        """Return fields that equivalent pods share: shared metadata, spec and status."""
        labels, annotations = tuple(pod.labels.items()), tuple(pod.annotations.items())
        times = pod.created_s, pod.deleted_s, pod.unschedulable_since_s
        key = pod.namespace, labels, annotations, pod.owner, times, pod.phase, pod.nominated_node, self._spec(pod)
        if key not in self._shared:
            rest = encode_delimited(_SPEC, self._spec(pod)) + encode_delimited(
                _STATUS, encode_message(_POD_STATUS, _status_fields(pod))
            )
            self._shared[key] = encode_message(_META, _shared_meta_fields(pod)), rest
        return self._shared[key]

    def _spec(self, pod: facts.Pod) -> bytes:
        key = pod.spec, pod.node_name, pod.scheduler, pod.restart_policy, pod.grace_s
        if key not in self._specs:
            self._specs[key] = encode_message(_POD_SPEC, _spec_fields(pod))
        return self._specs[key]


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shared_meta_fields(pod: facts.Pod) -> FieldValues:
    owner = pod.owner
    return {
        "namespace": pod.namespace,
        "creationTimestamp": _time_fields(pod.created_s),
        "deletionTimestamp": None if pod.deleted_s is None else _time_fields(pod.deleted_s),
        "labels": pod.labels,
        "annotations": pod.annotations,
        "ownerReferences": owner
        and [
            {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            | {"controller": True}
        ],
    }


def _spec_fields(pod: facts.Pod) -> FieldValues:
    spec = pod.spec
    ports = [
        {
            "hostPort": host_port.port,
            "containerPort": host_port.port,
            "protocol": host_port.protocol,
            "hostIP": host_port.ip,
        }
        for host_port in spec.host_ports
    ]
    claims = [
        {"name": pod_claim.name, "resourceClaimName": None if pod_claim.is_made_for_pod else pod_claim.claim}
        for pod_claim in spec.claims
    ]
    return {
        "volumes": [_volume_fields(volume) for volume in spec.volumes],
        "containers": [
            {"name": CONTAINER_NAME, "ports": ports, "resources": {"requests": _amounts_fields(spec.requests)}}
        ],
        "restartPolicy": pod.restart_policy,
        "terminationGracePeriodSeconds": None if pod.grace_s is None else int(pod.grace_s),
        "nodeSelector": dict(spec.node_selector),
        "nodeName": pod.node_name or spec.node_name,
        "affinity": _affinity_fields(spec),
        "schedulerName": pod.scheduler,
        "tolerations": [
            {
                "key": toleration.key,
                "operator": toleration.operator,
                "value": toleration.value,
                "effect": toleration.effect,
            }
            for toleration in spec.tolerations
        ],
        "priority": spec.priority,
        "topologySpreadConstraints": [_spread_fields(spread_constraint) for spread_constraint in spec.spread],
        "resourceClaims": claims,
    }


def _volume_fields(volume: facts.Volume) -> FieldValues:
    """Return volumes that the pods of a template share, and those on the node; others by name only."""
    sources: Mapping[str, FieldValues] = {
        "emptyDir": {"medium": volume.medium},
        "persistentVolumeClaim": {"claimName": volume.claim, "readOnly": volume.read_only},
        "ephemeral": {},
    }
    source = sources.get(volume.source)
    return {"name": volume.name, "volumeSource": {} if source is None else {volume.source: source}}


def _affinity_fields(spec: facts.PodSpec) -> FieldValues | None:
    field_values: FieldValues = {}
    if spec.node_affinity is not None:
        terms = [_node_term_fields(term) for term in spec.node_affinity.terms]
        field_values["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if spec.affinity:
        field_values["podAffinity"] = {"required": [_pod_term_fields(term) for term in spec.affinity]}
    if spec.anti_affinity:
        field_values["podAntiAffinity"] = {"required": [_pod_term_fields(term) for term in spec.anti_affinity]}
    return field_values or None


def _node_term_fields(term: NodeSelectorTerm) -> FieldValues:
    if term.is_invalid:
        return {}
    return {
        "matchExpressions": [_requirement_fields(requirement) for requirement in term.expressions],
        "matchFields": [_requirement_fields(field) for field in term.fields],
    }


def _pod_term_fields(term: facts.PodAffinityTerm) -> FieldValues:
    return {
        "labelSelector": _selector_fields(term.selector),
        "namespaces": term.namespaces,
        "topologyKey": term.topology_key,
        "namespaceSelector": _selector_fields(term.namespace_selector),
    }


def _spread_fields(spread_constraint: facts.SpreadConstraint) -> FieldValues:
    return {
        "maxSkew": spread_constraint.max_skew,
        "topologyKey": spread_constraint.topology_key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector_fields(spread_constraint.selector),
        "minDomains": spread_constraint.min_domains if spread_constraint.min_domains > 1 else None,
        "nodeAffinityPolicy": "" if spread_constraint.honor_affinity else "Ignore",
        "nodeTaintsPolicy": "Honor" if spread_constraint.honor_taints else "",
    }


def _selector_fields(selector: LabelSelector | None) -> FieldValues | None:
    return None if selector is None else {"matchExpressions": [_requirement_fields(r) for r in selector.requirements]}


def _requirement_fields(requirement: Requirement) -> FieldValues:
    return {"key": requirement.key, "operator": str(requirement.operator), "values": requirement.values}


def _status_fields(pod: facts.Pod) -> FieldValues:
    since_s = pod.unschedulable_since_s
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "phase": pod.phase,
        "conditions": [] if since_s is None else [unschedulable | {"lastTransitionTime": _time_fields(since_s)}],
        "nominatedNodeName": pod.nominated_node,
    }


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _node_fields(node: facts.Node) -> FieldValues:
    return {
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "creationTimestamp": _time_fields(node.created_s),
            "labels": node.labels,
            "annotations": node.annotations,
        },
        "spec": {
            "providerID": node.provider_id,
            "unschedulable": node.unschedulable or None,
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
        },
        "status": {
            "capacity": _amounts_fields(node.capacity),
            "allocatable": _amounts_fields(node.allocatable),
            "conditions": [
                {"type": condition.type, "status": condition.status, "reason": condition.reason}
                | {"lastTransitionTime": _time_fields(condition.since_s)}
                for condition in node.conditions
            ],
            "declaredFeatures": sorted(node.declared_features),
        },
    }


# ── Both ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _amounts_fields(resources: facts.Resources) -> dict[str, FieldValues]:
    return {name: {"string": _format_quantity(name, amount)} for name, amount in resources}


def _format_quantity(name: str, amount: int) -> str:
    """Format a quantity: cores in millicores, memory in Mi or Gi."""
    family = "binary" if name in (facts.MEMORY, facts.EPHEMERAL_STORAGE) else "decimal"
    return str(Quantity(amount * (MILLI if name == facts.CPU else NANO), family))


def _time_fields(at_s: float) -> FieldValues | None:
    """Encode a timestamp; empty for the epoch: templates of upcoming nodes have no creation time."""
    return {"seconds": int(at_s)} if at_s else None
