"""Templates: what a new node of a group would look like, for groups of which no node tells.

Labels, each overruling those before: what every node has; the infrastructure template's nodeInfo, as far as it says
anything; labels that Cluster API copies to nodes; the labels annotation; and a node of the group that exists already.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.engine import facts
from windlass.kube import fields
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import capacity, devices, keys, taint_text

ARCHITECTURE = "kubernetes.io/arch"
OS = "kubernetes.io/os"
DEFAULT_OS = "linux"
_ROLE = "node-role.kubernetes.io"
_COPIED = ("node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
_TELLING = (
    ARCHITECTURE,
    OS,
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    facts.REGION_BETA,
    facts.REGION,
    facts.ZONE_BETA,
    facts.ZONE,
)
"""Labels in which all nodes of a group are alike."""


@dataclass(frozen=True, slots=True)
class Template:
    """A node to be, what is attached to it, and what of its description could not be read."""

    node: facts.Node
    gpus: devices.Devices | None = None
    complaints: tuple[fields.InvalidField, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a template is made from."""

    name: str
    annotations: Mapping[str, str]
    machine: clusterapi.MachineTemplate | None = None
    infrastructure: clusterapi.InfrastructureTemplate | None = None
    example: facts.Node | None = None
    """A node of the group."""


def make(source: Source, default_architecture: str) -> Template | None:
    """The template; None if nothing says how much cpu or memory there would be. InvalidField for garbage."""
    found = capacity.find(source.annotations, source.infrastructure)
    if not capacity.is_enough(found):
        return None
    amounts = capacity.count(found)
    declared = source.machine.spec.taints if source.machine and source.machine.spec else None
    taints, complaints = taint_text.read(source.annotations, declared)
    name = f"{source.name}-template"
    gpus = devices.read_devices(source.annotations)
    csi_drivers = devices.read_csi_drivers(source.annotations)
    node = facts.Node(
        name=name,
        labels=_label(source, name, default_architecture),
        taints=taints,
        allocatable=amounts,
        capacity=amounts,
        conditions=(facts.Condition("Ready", "True"),),
        slices=devices.offer(gpus, name),
        csi_node=facts.CSINode(name, csi_drivers) if csi_drivers else None,
    )
    return Template(node, gpus, complaints)


def make_kube_proxy(name: str) -> facts.Pod:
    """The pod that a node is taken to start with, where no node tells what really does."""
    return facts.Pod(
        "kube-system",
        f"kube-proxy-{name}",
        labels={"component": "kube-proxy", "tier": "node"},
        annotations={"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "1234567890abcdef"},
        spec=facts.PodSpec(requests=((facts.CPU, 100),)),
    )


def read_system(infrastructure: clusterapi.InfrastructureTemplate | None) -> tuple[str, str]:
    """(architecture, operating system), each empty where the template does not say."""
    status = infrastructure.status if infrastructure else None
    told = (status.node_info if status else None) or clusterapi.NodeInfo()
    return told.architecture or "", told.operating_system or ""


def read_labels(annotations: Mapping[str, str]) -> dict[str, str]:
    """`key=value,…`: taken as they are; an entry without `=` is left out."""
    entries = (entry.partition("=") for entry in annotations.get(keys.LABELS, "").split(","))
    return {key: value for key, equals, value in entries if equals}


def _label(source: Source, name: str, default_architecture: str) -> dict[str, str]:
    architecture, system = read_system(source.infrastructure)
    metadata = source.machine.metadata if source.machine else None
    declared = (metadata.labels if metadata else None) or {}
    example = source.example.labels if source.example else {}
    return {
        ARCHITECTURE: architecture or default_architecture,
        OS: system or DEFAULT_OS,
        facts.HOSTNAME: name,
        **{key: value for key, value in declared.items() if _is_copied(key)},
        **read_labels(source.annotations),
        **{key: example[key] for key in _TELLING if example.get(key)},
    }


def _is_copied(key: str) -> bool:
    """Does Cluster API copy this label from a Machine to its node?"""
    domain = key.partition("/")[0]
    return domain == _ROLE or domain in _COPIED or domain.endswith(tuple(f".{one}" for one in _COPIED))
