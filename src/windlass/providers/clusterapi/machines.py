"""Machines and their nodes: the fields kept of a Machine, failure reasons, provider IDs, and the node index.

A Machine is narrowed once, when it arrives, to about a sixth of the object. A Machine has failed if it or its
infrastructure says so while it has no node. Provider IDs are compared by what follows the last slash, except for
instances of Azure scale sets; a Machine without a node gets a synthetic ID.
"""

import enum
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from windlass.engine.model import facts, node_groups
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import group_annotations


class ProviderIdKind(enum.StrEnum):
    """Prefix of a synthetic provider id."""

    FAILED = "failed-machine-"
    DELETING = "deleting-machine-"
    PENDING = "pending-machine-"


def normalize_provider_id(provider_id: str) -> str:
    """The comparable part of a provider id."""
    if provider_id.startswith("azure://") and "virtualMachineScaleSets" in provider_id:
        return provider_id
    return provider_id.rpartition("/")[2]


def make_provider_id(kind: ProviderIdKind, namespace: str, name: str) -> str:
    """The synthetic id of a Machine without a node. Namespaces contain no underscore, so the name can be recovered."""
    return f"{kind}{namespace}_{name}"


def is_synthetic_provider_id(provider_id: str) -> bool:
    """True for a synthetic id."""
    return provider_id.startswith(tuple(ProviderIdKind))


def machine_key_of(provider_id: str) -> str:
    """`namespace/name` of the Machine of a synthetic id."""
    for kind in ProviderIdKind:
        provider_id = provider_id.removeprefix(kind)
    return provider_id.replace("_", "/", 1)


PROVISIONING_FAILED = "ProvisioningFailed"


def find_failure(status: clusterapi.MachineStatus, spec: clusterapi.MachineSpec) -> node_groups.InstanceError | None:
    """Why the Machine will never have a node; None while it may."""
    old = (status.deprecated.v1beta1 if status.deprecated else None) or clusterapi.Failure()
    reason = status.failure_reason or old.failure_reason
    message = status.failure_message or old.failure_message
    if not (reason or message) and not spec.provider_id:
        broken = _find_broken((*(status.conditions or ()), *(old.conditions or ())))
        reason, message = (broken.reason, broken.message) if broken else (None, None)
    if not (reason or message) and status.phase != "Failed":
        return None
    text = ": ".join(part for part in (reason, message) if part)
    return node_groups.InstanceError("Other", PROVISIONING_FAILED, text or "Machine provisioning failed")


def _find_broken(conditions: tuple[clusterapi.Condition, ...]) -> clusterapi.Condition | None:
    for condition in conditions:
        if condition.type == "InfrastructureReady" and condition.status == "False" and condition.severity == "Error":
            return condition
    return None


_NO_SPEC = clusterapi.MachineSpec()

_NO_STATUS = clusterapi.MachineStatus()


class Machine(msgspec.Struct, frozen=True, gc=False):
    """The fields kept of a Machine. Equal values are interchangeable."""

    namespace: str
    name: str
    uid: str
    owners: tuple[str, ...] = ()
    """Its owners as `kind/namespace/name`."""
    provider_id: str = ""
    node_name: str = ""
    """`status.nodeRef.name`."""
    is_deleting: bool = False
    is_marked: bool = False
    """True with the delete-machine annotation."""
    pause: str = ""
    """Why Cluster API skips the Machine; empty if it does not."""
    failure: node_groups.InstanceError | None = None
    """Why it will never have a node; None while it may."""
    cluster: str = ""
    """The name of its Cluster; kept, as its labels are, only for MachineDrainRules."""
    labels: tuple[str, ...] = ()
    """Labels as a flat tuple: key, value, key, value … Machines of one MachineSet share the tuple."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def narrow_machine(mark: str, *, keeps_labels: bool = False) -> Callable[[clusterapi.Machine], Machine]:
    """A function that narrows a Machine; `mark` is the delete-machine annotation.

    `keeps_labels`: keep labels and cluster name, for MachineDrainRules.
    """
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    """# interned owners and labels"""

    def keep(machine: clusterapi.Machine) -> Machine:
        metadata, spec, status = machine.meta, machine.spec or _NO_SPEC, machine.status or _NO_STATUS
        name = metadata.name or ""
        node_name = (status.node_ref.name if status.node_ref else None) or ""
        owners = tuple(f"{owner.kind}/{metadata.namespace}/{owner.name}" for owner in metadata.owner_references or ())
        labels = _flatten(metadata.labels or {}) if keeps_labels else ()
        if len(known) > _MOST_OWNERS:
            known.clear()
        return Machine(
            namespace=sys.intern(metadata.namespace or ""),
            name=name,
            uid=metadata.uid or "",
            owners=known.setdefault(owners, owners),
            provider_id=spec.provider_id or "",
            node_name=name if node_name == name else node_name,
            is_deleting=metadata.deletion_timestamp is not None,
            is_marked=mark in (metadata.annotations or {}),
            pause=group_annotations.find_pause_reason(machine),
            failure=find_failure(status, spec),
            cluster=sys.intern(spec.cluster_name or "") if keeps_labels else "",
            labels=known.setdefault(labels, labels),
        )

    return keep


def _flatten(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sys.intern(text) for pair in sorted(labels.items()) for text in pair)


_MOST_OWNERS = 10_000
"""Maximum number of interned owners and labels; each rollout adds a MachineSet."""


class NodeIndex:
    """Existing nodes by provider id, name and Machine."""

    def __init__(self, named: group_annotations.AnnotationKeys) -> None:
        self._keys = named
        self._all: list[facts.Node] = []
        self._by_id: dict[str, facts.Node] = {}
        self._by_name: dict[str, facts.Node] = {}
        self._by_machine: dict[str, facts.Node] = {}
        self._is_ambiguous = False
        """True if several nodes share an id or have an empty one: any of them may be found in place of the others."""

    def update(self, nodes: Sequence[facts.Node]) -> list[facts.Node]:
        """Replace all nodes. Returns the changed ones, before and after; all nodes if ids are ambiguous."""
        before, self._all = self._all, list(nodes)
        was_ambiguous = self._is_ambiguous
        if len(before) == len(nodes):
            pairs = [(old, new) for old, new in zip(before, nodes, strict=True) if old is not new]
            if all(self._identify(old) == self._identify(new) for old, new in pairs):
                for old, new in pairs:
                    self._replace(old, new)
                return before + self._all if pairs and was_ambiguous else [node for pair in pairs for node in pair]
        self._index()
        if was_ambiguous or self._is_ambiguous:
            return before + self._all
        was, now = {id(node) for node in before}, {id(node) for node in nodes}
        gone = [node for node in before if id(node) not in now]
        return gone + [node for node in nodes if id(node) not in was]

    def find(self, provider_id: str) -> facts.Node | None:
        return self._by_id.get(normalize_provider_id(provider_id))

    def find_by_machine(self, machine: Machine) -> facts.Node | None:
        """The node of a Machine: by provider id, by annotations, or by name if either lacks a provider id."""
        provider_id = machine.provider_id
        if provider_id and (node := self.find(provider_id)):
            return node
        if node := self._by_machine.get(machine.key):
            return node
        named = self._by_name.get(machine.node_name) if machine.node_name else None
        if named is not None and provider_id and named.provider_id:
            return None
        return named

    def machine_name_of(self, node: facts.Node) -> str:
        """The Machine key of a node's annotations; empty if it has none."""
        named = node.annotations.get(self._keys.machine)
        return "" if named is None else f"{node.annotations.get(self._keys.cluster_namespace, '')}/{named}"

    def _identify(self, node: facts.Node) -> tuple[str, str, str]:
        """All keys under which a node is indexed."""
        return node.name, node.provider_id, self.machine_name_of(node)

    def _index(self) -> None:
        """Add nodes to the index; of several with one id the last wins."""
        nodes = self._all
        self._by_id = {normalize_provider_id(node.provider_id): node for node in nodes if node.provider_id}
        self._is_ambiguous = "" in self._by_id or len(self._by_id) < sum(1 for node in nodes if node.provider_id)
        self._by_name = {node.name: node for node in nodes}
        self._by_machine = {key: node for node in nodes if (key := self.machine_name_of(node))}

    def _replace(self, old: facts.Node, new: facts.Node) -> None:
        name, provider_id, machine = self._identify(new)
        ids = ((self._by_id, normalize_provider_id(provider_id)), (self._by_name, name), (self._by_machine, machine))
        for nodes, key in ids:
            if nodes.get(key) is old:
                nodes[key] = new
