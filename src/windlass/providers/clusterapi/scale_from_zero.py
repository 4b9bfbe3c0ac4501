"""Node templates for scale from zero: capacity, labels, taints and devices of a new node.

Annotations overrule the infrastructure template. An annotation that cannot be read is an error; a value of the template
that cannot be read is skipped, because others wrote it. Labels, each overruling those before: those of every node, the
template's nodeInfo, labels that Cluster API copies, the labels annotation, a node of the same kind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass import quantity, selectors
from windlass.engine.model import dynamic_resources, facts
from windlass.kube import fields
from windlass.kube.models import clusterapi, core
from windlass.providers.clusterapi import group_annotations

DEFAULT_PODS = 110

Capacity = dict[str, quantity.Quantity]

_AMOUNTS = (
    (facts.CPU, group_annotations.CPU),
    (facts.MEMORY, group_annotations.MEMORY),
    (facts.EPHEMERAL_STORAGE, group_annotations.EPHEMERAL_DISK),
)

_RESOURCES = {key: name for name, key in _AMOUNTS}


def find_capacity(annotations: Mapping[str, str], template: clusterapi.InfrastructureTemplate | None) -> Capacity:
    """Capacity of a new node. InvalidField if an annotation is invalid."""
    quantities = {facts.PODS: quantity.Quantity(DEFAULT_PODS * quantity.NANO)}
    return quantities | read_template_capacity(template) | read_capacity_annotations(annotations)


def is_sufficient(quantities: Capacity) -> bool:
    """True if the capacity suffices for a template: cpu and memory are known."""
    return facts.CPU in quantities and facts.MEMORY in quantities


def read_capacity_annotations(annotations: Mapping[str, str]) -> Capacity:
    quantities = {name: read_quantity_annotation(annotations, key) for name, key in _AMOUNTS}
    quantities[facts.PODS] = read_count_annotation(annotations, group_annotations.MAX_PODS)
    count = read_count_annotation(annotations, group_annotations.GPU_COUNT)
    if gpu_type := annotations.get(group_annotations.GPU_TYPE):
        quantities[gpu_type] = count
    return {name: amount for name, amount in quantities.items() if amount.nano}


def read_template_capacity(template: clusterapi.InfrastructureTemplate | None) -> Capacity:
    status = template.status if template else None
    quantities = {}
    for name, value in ((status.capacity if status else None) or {}).items():
        try:
            amount = quantity.saturate_int64(quantity.read_quantity(value))
            fields.check_capacity(name, amount, value, name)
        except ValueError:
            continue
        if amount.nano >= 0:
            quantities[name] = amount
    return quantities


def read_quantity_annotation(annotations: Mapping[str, str], key: str) -> quantity.Quantity:
    """The quantity of an annotation; 0 if it is missing."""
    text = annotations.get(key, "")
    if not text:
        return quantity.ZERO
    try:
        amount = quantity.saturate_int64(quantity.parse_quantity(text))
    except ValueError:
        raise fields.InvalidField(group_annotations.annotation_path(key), text, quantity.ACCEPTED_QUANTITY) from None
    if amount.nano < 0:
        raise fields.InvalidField(group_annotations.annotation_path(key), text, "a quantity of zero or more")
    fields.check_capacity(_RESOURCES.get(key, key), amount, text, group_annotations.annotation_path(key))
    return amount


def read_count_annotation(annotations: Mapping[str, str], key: str) -> quantity.Quantity:
    """The integer of an annotation; 0 if it is missing."""
    text = annotations.get(key, "")
    if not text:
        return quantity.ZERO
    count = selectors.parse_int64(text)
    if count is None or count < 0:
        raise fields.InvalidField(group_annotations.annotation_path(key), text, "a whole number, zero or more")
    amount = quantity.Quantity(count * quantity.NANO)
    fields.check_capacity(key, amount, text, group_annotations.annotation_path(key))
    return amount


def count_resources(quantities: Capacity) -> facts.Resources:
    """Amounts in engine units: millicores, bytes, pieces."""
    return tuple(sorted((name, fields.to_engine_amount(name, amount)) for name, amount in quantities.items()))


_INT32_MAX = 2**31 - 1

GPU = "gpu"

MAX_DEVICES = 1024
"""Maximum devices of a node. Each becomes an object: an absurd count must not exhaust memory."""


@dataclass(frozen=True, slots=True)
class DraDevices:
    """Devices that the DRA driver of a node would publish."""

    driver: str
    type: str
    count: int


def read_dra_devices(annotations: Mapping[str, str]) -> DraDevices | None:
    """GPUs of a DRA driver from annotations. InvalidField if their count is invalid."""
    driver = annotations.get(group_annotations.DRA_DRIVER, "")
    count = read_count_annotation(annotations, group_annotations.GPU_COUNT).value() if driver else 0
    if count > MAX_DEVICES:
        raise fields.InvalidField(
            group_annotations.annotation_path(group_annotations.GPU_COUNT),
            annotations[group_annotations.GPU_COUNT],
            f"at most {MAX_DEVICES}",
        )
    return DraDevices(driver, GPU, count) if count else None


def make_resource_slices(dra_devices: DraDevices | None, node_name: str) -> dynamic_resources.ResourceSlices:
    """The ResourceSlices that the driver would publish for a node: one pool with the node's name."""
    if dra_devices is None:
        return ()
    traits = dynamic_resources.DeviceTraits(attributes=(("type", dra_devices.type),))
    made = tuple(
        dynamic_resources.Device(f"{dra_devices.type}-{number}", traits) for number in range(dra_devices.count)
    )
    reach = dynamic_resources.NodeReach(node_name=node_name)
    return (
        dynamic_resources.ResourceSlice(
            f"{node_name}-{dra_devices.driver}", dra_devices.driver, node_name, reach=reach, devices=made
        ),
    )


def read_csi_drivers(annotations: Mapping[str, str]) -> tuple[tuple[str, int | None], ...]:
    """(driver, attach limit) of each CSI driver; None: no limit. Malformed entries are skipped.

    `ebs.csi.aws.com=25,efs.csi.aws.com=0`; 0 is no limit.
    """
    drivers: list[tuple[str, int | None]] = []
    for entry in annotations.get(group_annotations.CSI_DRIVER, "").split(","):
        name, equals, text = (part.strip() for part in entry.partition("="))
        limit = selectors.parse_int64(text)
        if name and equals and limit is not None and 0 <= limit <= _INT32_MAX:
            drivers.append((name, limit or None))
    return tuple(drivers)


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_ACCEPTED = "key=value:Effect, with an effect of NoSchedule, PreferNoSchedule or NoExecute"


def read_taints(
    annotations: Mapping[str, str], declared: Iterable[core.Taint] | None
) -> tuple[tuple[facts.Taint, ...], tuple[fields.InvalidField, ...]]:
    """Taints of a new node, from the template and overridden by the annotation; with errors."""
    taint_by_key: dict[tuple[str, str], facts.Taint] = {}
    complaints: list[fields.InvalidField] = []
    for taint in declared or ():
        if taint.key and taint.effect in _EFFECTS:
            taint_by_key[taint.key, taint.effect] = facts.Taint(taint.key, taint.value or "", taint.effect)
    for entry in filter(None, annotations.get(group_annotations.TAINTS, "").split(",")):
        parsed = parse_taint(entry)
        if parsed is None:
            complaints.append(
                fields.InvalidField(group_annotations.annotation_path(group_annotations.TAINTS), entry, _ACCEPTED)
            )
        else:
            taint_by_key[parsed.key, parsed.effect] = parsed
    return tuple(taint_by_key.values()), tuple(complaints)


def parse_taint(entry: str) -> facts.Taint | None:
    """Parse one taint; None if it is malformed or its effect is unknown."""
    rest, colon, effect = entry.partition(":")
    key, _, value = rest.partition("=")
    if not colon or effect not in _EFFECTS:
        return None
    try:
        selectors.parse_label_selector(selectors.UnparsedLabelSelector({key: value}))
    except selectors.InvalidLabelSelector:
        return None
    return facts.Taint(key, value, effect)


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
"""Labels that are equal on all nodes of a group."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A template node, its attachments, and errors of its description."""

    node: facts.Node
    gpus: DraDevices | None = None
    complaints: tuple[fields.InvalidField, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """Inputs of a node template."""

    name: str
    annotations: Mapping[str, str]
    machine: clusterapi.MachineTemplate | None = None
    infrastructure: clusterapi.InfrastructureTemplate | None = None
    example: facts.Node | None = None
    """An existing node of the group."""


def make_node_template(source: TemplateSource, default_architecture: str) -> NodeTemplate | None:
    """Build the template; None if cpu or memory is unknown. InvalidField if an annotation is invalid."""
    quantities = find_capacity(source.annotations, source.infrastructure)
    if not is_sufficient(quantities):
        return None
    amounts = count_resources(quantities)
    declared = source.machine.spec.taints if source.machine and source.machine.spec else None
    taints, complaints = read_taints(source.annotations, declared)
    name = f"{source.name}-template"
    gpus = read_dra_devices(source.annotations)
    csi_drivers = read_csi_drivers(source.annotations)
    node = facts.Node(
        name=name,
        labels=_template_labels(source, name, default_architecture),
        taints=taints,
        allocatable=amounts,
        capacity=amounts,
        conditions=(facts.Condition("Ready", "True"),),
        slices=make_resource_slices(gpus, name),
        csi_node=facts.CSINode(name, csi_drivers) if csi_drivers else None,
    )
    return NodeTemplate(node, gpus, complaints)


def make_kube_proxy(name: str) -> facts.Pod:
    """A kube-proxy pod, assumed on new nodes if no existing node shows the real one."""
    return facts.Pod(
        "kube-system",
        f"kube-proxy-{name}",
        labels={"component": "kube-proxy", "tier": "node"},
        annotations={"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "1234567890abcdef"},
        spec=facts.PodSpec(requests=((facts.CPU, 100),)),
    )


def read_system(infrastructure: clusterapi.InfrastructureTemplate | None) -> tuple[str, str]:
    """(architecture, operating system); each empty if unknown."""
    status = infrastructure.status if infrastructure else None
    info = (status.node_info if status else None) or clusterapi.NodeInfo()
    return info.architecture or "", info.operating_system or ""


def read_label_annotation(annotations: Mapping[str, str]) -> dict[str, str]:
    """Labels of the form `key=value,…`, unvalidated; entries without `=` are skipped."""
    entries = (entry.partition("=") for entry in annotations.get(group_annotations.LABELS, "").split(","))
    return {key: value for key, equals, value in entries if equals}


def _template_labels(source: TemplateSource, name: str, default_architecture: str) -> dict[str, str]:
    architecture, system = read_system(source.infrastructure)
    metadata = source.machine.metadata if source.machine else None
    declared = (metadata.labels if metadata else None) or {}
    example = source.example.labels if source.example else {}
    return {
        ARCHITECTURE: architecture or default_architecture,
        OS: system or DEFAULT_OS,
        facts.HOSTNAME: name,
        **{key: value for key, value in declared.items() if _is_copied(key)},
        **read_label_annotation(source.annotations),
        **{key: example[key] for key in _TELLING if example.get(key)},
    }


def _is_copied(key: str) -> bool:
    """True if Cluster API copies the label from a Machine to its node."""
    domain = key.partition("/")[0]
    return domain == _ROLE or domain in _COPIED or domain.endswith(tuple(f".{item}" for item in _COPIED))
