"""gRPC client: one unary call at a time, with a deadline, and the messages that it sends and reads.

BestOptionsRequest and BestOptionsResponse hold pods and nodes as serialized Kubernetes objects, with the fields alone
that decisions see. `make reference` generates the `_pb2` modules from the .proto files beside this one.
"""

import logging
import ssl
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc
from google.protobuf.message import DecodeError

from windlass import klog
from windlass.autoscaler.grpc_expander import expander_pb2, expander_query, kubernetes_pb2
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.errors import InvalidInput
from windlass.quantity import MILLI, NANO, Quantity
from windlass.selectors import LabelSelector, NodeSelectorTerm, Requirement

METHOD = "/grpcplugin.Expander/BestOptions"

CONTAINER_NAME = "all"


def encode_request(question: BestOptionsRequest) -> bytes:
    """Encode a BestOptionsRequest."""
    encoder = _PodEncoder()
    request = expander_pb2.BestOptionsRequest()
    for option, pods in zip(question.options, question.pods, strict=True):
        request.options.add(
            nodeGroupId=option.group,
            nodeCount=option.node_count,
            debug=option.debug,
            podBytes=[encoder.encode(pod) for pod in pods],
        )
    for group, node in question.templates.items():
        request.nodeBytesMap[group] = _make_node(node).SerializeToString()
    return request.SerializeToString()


def decode_response(content: bytes) -> tuple[str, ...]:
    """Return the group ids of a BestOptionsResponse, in order. DecodeError for other bytes."""
    return tuple(option.nodeGroupId for option in expander_pb2.BestOptionsResponse.FromString(content).options)


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _PodEncoder:
    """Encodes the pods of one request. Options share pods, and equivalent pods share all but name and uid."""

    def __init__(self) -> None:
        self._pods: dict[int, bytes] = {}
        self._shared: dict[tuple[object, ...], bytes] = {}

    def encode(self, pod: facts.Pod) -> bytes:
        found = self._pods.get(id(pod))
        if found is None:
            own = kubernetes_pb2.Pod(metadata=kubernetes_pb2.ObjectMeta(name=pod.name, uid=pod.uid))
            # A message that occurs twice in a row is one with the fields of both, by the rules of protobuf.
            found = self._pods[id(pod)] = own.SerializeToString() + self._share(pod)
        return found

    def _share(self, pod: facts.Pod) -> bytes:
        """The metadata that equivalent pods share, spec and status."""
        labels, annotations = tuple(pod.labels.items()), tuple(pod.annotations.items())
        times = pod.created_s, pod.deleted_s, pod.unschedulable_since_s, pod.grace_s
        words = pod.namespace, pod.node_name, pod.scheduler, pod.restart_policy, pod.phase, pod.nominated_node
        key = words, labels, annotations, pod.owner, times, pod.spec
        if key not in self._shared:
            shared = kubernetes_pb2.Pod(metadata=_make_pod_meta(pod), spec=_make_spec(pod), status=_make_status(pod))
            self._shared[key] = shared.SerializeToString()
        return self._shared[key]


def _make_pod_meta(pod: facts.Pod) -> kubernetes_pb2.ObjectMeta:
    owner = pod.owner
    return kubernetes_pb2.ObjectMeta(
        namespace=pod.namespace,
        creationTimestamp=_make_time(pod.created_s),
        deletionTimestamp=None if pod.deleted_s is None else _make_time(pod.deleted_s),
        labels=pod.labels,
        annotations=pod.annotations,
        ownerReferences=[] if owner is None else [_make_owner(owner)],
    )


def _make_owner(owner: facts.Owner) -> kubernetes_pb2.OwnerReference:
    return kubernetes_pb2.OwnerReference(
        apiVersion=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid, controller=True
    )


def _make_spec(pod: facts.Pod) -> kubernetes_pb2.PodSpec:
    spec = pod.spec
    ports = [
        kubernetes_pb2.ContainerPort(
            hostPort=host.port, containerPort=host.port, protocol=host.protocol, hostIP=host.ip
        )
        for host in spec.host_ports
    ]
    resources = kubernetes_pb2.ResourceRequirements(requests=_make_quantities(spec.requests))
    return kubernetes_pb2.PodSpec(
        volumes=[kubernetes_pb2.Volume(name=item.name, volumeSource=_make_source(item)) for item in spec.volumes],
        containers=[kubernetes_pb2.Container(name=CONTAINER_NAME, ports=ports, resources=resources)],
        restartPolicy=pod.restart_policy,
        terminationGracePeriodSeconds=None if pod.grace_s is None else int(pod.grace_s),
        nodeSelector=dict(spec.node_selector),
        nodeName=pod.node_name or spec.node_name,
        affinity=_make_affinity(spec),
        schedulerName=pod.scheduler,
        tolerations=[
            kubernetes_pb2.Toleration(key=item.key, operator=item.operator, value=item.value, effect=item.effect)
            for item in spec.tolerations
        ],
        priority=spec.priority,
        topologySpreadConstraints=[_make_spread(constraint) for constraint in spec.spread],
        resourceClaims=[
            kubernetes_pb2.PodResourceClaim(
                name=claim.name, resourceClaimName=None if claim.is_made_for_pod else claim.claim or None
            )
            for claim in spec.claims
        ],
    )


def _make_source(volume: facts.Volume) -> kubernetes_pb2.VolumeSource:
    """The source of a volume that the pods of a template share, or that is on the node; others by name only."""
    match volume.source:
        case "emptyDir":
            return kubernetes_pb2.VolumeSource(emptyDir={"medium": volume.medium})
        case "persistentVolumeClaim":
            claim = {"claimName": volume.claim, "readOnly": volume.read_only}
            return kubernetes_pb2.VolumeSource(persistentVolumeClaim=claim)
        case "ephemeral":
            return kubernetes_pb2.VolumeSource(ephemeral={})
    return kubernetes_pb2.VolumeSource()


def _make_affinity(spec: facts.PodSpec) -> kubernetes_pb2.Affinity | None:
    affinity = kubernetes_pb2.Affinity()
    if spec.node_affinity is not None:
        terms = [_make_node_term(term) for term in spec.node_affinity.terms]
        affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.CopyFrom(
            kubernetes_pb2.NodeSelector(nodeSelectorTerms=terms)
        )
    if spec.affinity:
        pod_terms = [_make_pod_term(term) for term in spec.affinity]
        affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.extend(pod_terms)
    if spec.anti_affinity:
        pod_terms = [_make_pod_term(term) for term in spec.anti_affinity]
        affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.extend(pod_terms)
    return affinity if affinity.ListFields() else None


def _make_node_term(term: NodeSelectorTerm) -> kubernetes_pb2.NodeSelectorTerm:
    if term.is_invalid:
        return kubernetes_pb2.NodeSelectorTerm()
    return kubernetes_pb2.NodeSelectorTerm(
        matchExpressions=_make_requirements(term.expressions), matchFields=_make_requirements(term.fields)
    )


def _make_pod_term(term: facts.PodAffinityTerm) -> kubernetes_pb2.PodAffinityTerm:
    return kubernetes_pb2.PodAffinityTerm(
        labelSelector=_make_selector(term.selector),
        namespaces=term.namespaces,
        topologyKey=term.topology_key,
        namespaceSelector=_make_selector(term.namespace_selector),
    )


def _make_spread(constraint: facts.SpreadConstraint) -> kubernetes_pb2.TopologySpreadConstraint:
    return kubernetes_pb2.TopologySpreadConstraint(
        maxSkew=constraint.max_skew,
        topologyKey=constraint.topology_key,
        whenUnsatisfiable="DoNotSchedule",
        labelSelector=_make_selector(constraint.selector),
        minDomains=constraint.min_domains if constraint.min_domains > 1 else None,
        nodeAffinityPolicy=None if constraint.honor_affinity else "Ignore",
        nodeTaintsPolicy="Honor" if constraint.honor_taints else None,
    )


def _make_selector(selector: LabelSelector | None) -> kubernetes_pb2.LabelSelector | None:
    if selector is None:
        return None
    return kubernetes_pb2.LabelSelector(matchExpressions=_make_requirements(selector.requirements))


def _make_requirements(requirements: Iterable[Requirement]) -> list[kubernetes_pb2.Requirement]:
    return [
        kubernetes_pb2.Requirement(key=item.key, operator=str(item.operator), values=item.values)
        for item in requirements
    ]


def _make_status(pod: facts.Pod) -> kubernetes_pb2.PodStatus:
    since_s = pod.unschedulable_since_s
    conditions = [] if since_s is None else [facts.Condition("PodScheduled", "False", since_s, "Unschedulable")]
    return kubernetes_pb2.PodStatus(
        phase=pod.phase,
        conditions=_make_conditions(conditions),
        nominatedNodeName=pod.nominated_node,
    )


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _make_node(node: facts.Node) -> kubernetes_pb2.Node:
    return kubernetes_pb2.Node(
        metadata=kubernetes_pb2.ObjectMeta(
            name=node.name,
            uid=node.uid,
            creationTimestamp=_make_time(node.created_s),
            labels=node.labels,
            annotations=node.annotations,
        ),
        spec=kubernetes_pb2.NodeSpec(
            providerID=node.provider_id,
            unschedulable=node.unschedulable,
            taints=[kubernetes_pb2.Taint(key=item.key, value=item.value, effect=item.effect) for item in node.taints],
        ),
        status=kubernetes_pb2.NodeStatus(
            capacity=_make_quantities(node.capacity),
            allocatable=_make_quantities(node.allocatable),
            conditions=_make_conditions(node.conditions),
            declaredFeatures=sorted(node.declared_features),
        ),
    )


# ── Both ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _make_conditions(conditions: Iterable[facts.Condition]) -> list[kubernetes_pb2.Condition]:
    return [
        kubernetes_pb2.Condition(
            type=item.type, status=item.status, reason=item.reason, lastTransitionTime=_make_time(item.since_s)
        )
        for item in conditions
    ]


def _make_quantities(resources: facts.Resources) -> dict[str, kubernetes_pb2.Quantity]:
    return {name: kubernetes_pb2.Quantity(string=_format_quantity(name, amount)) for name, amount in resources}


def _format_quantity(name: str, amount: int) -> str:
    """Format a quantity: cores in millicores, memory in Mi or Gi."""
    family = "binary" if name in (facts.MEMORY, facts.EPHEMERAL_STORAGE) else "decimal"
    return str(Quantity(amount * (MILLI if name == facts.CPU else NANO), family))


def _make_time(at_s: float) -> kubernetes_pb2.Time | None:
    """Encode a timestamp; empty for the epoch: templates of upcoming nodes have no creation time."""
    return kubernetes_pb2.Time(seconds=int(at_s)) if at_s else None


CALL_TIMEOUT_S = 5.0
"""Deadline of a call, as in Cluster Autoscaler."""

MAX_MESSAGE_BYTES = 128 * 2**20
"""Maximum size of a response in bytes, as in Cluster Autoscaler."""

MAX_ADDED_BYTES = 2**20
"""Maximum size of a response beyond that of its request, which it may repeat. Decoded, it can take forty times its
size.
"""

_MAX_GROUPS_LOGGED = 10

_NEARLY = 0.9

_Code = grpc.StatusCode

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GrpcExpanderClient:
    """gRPC client of an external expander: address and trusted certificate."""

    at: expander_query.ExpanderAddress
    certificate: str = ""
    """Path to the server's certificate, or to that of its CA. Read for each call, because it may be renewed."""
    within_s: float = CALL_TIMEOUT_S
    """Deadline of one call, from connecting to the last byte."""

    def __post_init__(self) -> None:
        """InvalidInput if the certificate cannot be used."""
        if not self.at.is_encrypted:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(self.certificate)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"--grpc-expander-cert: found {self.certificate!r}, expected a file of PEM certificates: {error}"
            ) from error

    def best_options(self, question: BestOptionsRequest) -> BestOptionsResponse:
        """Call BestOptions. Return the response, or the failure. Takes `within_s` at most, plus encoding and
        decoding.
        """
        name, began_s = self.at.authority, time.monotonic()
        _log.log(klog.verbosity_level(2), "calling gRPC expander: address=%s options=%d", name, len(question.options))
        try:
            content = self._call(encode_request(question))
            opinion = BestOptionsResponse(question.about, decode_response(content))
        except grpc.RpcError as error:
            return self._fail(question, self._describe(cast(grpc.Call, error), time.monotonic() - began_s))
        except DecodeError as error:
            return self._fail(question, f"expected a BestOptionsResponse: {error}")
        except OSError as error:
            return self._fail(question, f"--grpc-expander-cert: {error}")
        except Exception as error:  # any error: scale-up continues without the expander
            _log.exception("gRPC expander call failed unexpectedly: address=%s", name)
            return BestOptionsResponse(question.about, failure=f"{type(error).__name__}: {error}")
        _log.log(
            klog.verbosity_level(2),
            "gRPC expander answered: address=%s groups=%s",
            name,
            ",".join(opinion.groups[:_MAX_GROUPS_LOGGED]),
        )
        return opinion

    def _call(self, message: bytes) -> bytes:
        options = (
            ("grpc.max_receive_message_length", min(len(message) + MAX_ADDED_BYTES, MAX_MESSAGE_BYTES)),
            ("grpc.use_local_subchannel_pool", 1),  # a failed connection does not delay the next call
            ("grpc.default_authority", self.at.authority),
            ("grpc.primary_user_agent", "windlass"),
        )
        with self._open_channel(options) as channel:
            best_options: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            return best_options(message, timeout=self.within_s)

    def _open_channel(self, options: Sequence[tuple[str, int | str]]) -> grpc.Channel:
        """Open a channel for one call: like Go, trust only certificates in the file, a CA's or the server's own."""
        if not self.at.is_encrypted:
            return grpc.insecure_channel(self.at.target, options)
        credentials = grpc.ssl_channel_credentials(Path(self.certificate).read_bytes())
        return grpc.secure_channel(self.at.target, credentials, options)

    def _fail(self, question: BestOptionsRequest, failure: str) -> BestOptionsResponse:
        _log.warning("gRPC expander call failed: address=%s error=%s", self.at.authority, failure)
        return BestOptionsResponse(question.about, failure=failure)

    def _describe(self, error: grpc.Call, took_s: float) -> str:
        """`Unavailable: no such host`: the status code as Go spells it, and the message."""
        code = error.code()
        # A server that notices the deadline first resets the stream, and gRPC calls that cancelled.
        if code is _Code.CANCELLED and took_s > _NEARLY * self.within_s:
            code = _Code.DEADLINE_EXCEEDED
        if code is _Code.DEADLINE_EXCEEDED:
            return f"DeadlineExceeded: no answer within {self.within_s:g} s"
        return f"{code.name.title().replace('_', '')}: {error.details()}"
