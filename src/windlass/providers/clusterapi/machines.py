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
    """What an id made of a Machine's name begins with."""

    FAILED = "failed-machine-"
    DELETING = "deleting-machine-"
    PENDING = "pending-machine-"


def normalize_provider_id(provider_id: str) -> str:
    """What two spellings of one id have in common."""
    if provider_id.startswith("azure://") and "virtualMachineScaleSets" in provider_id:
        return provider_id
    return provider_id.rpartition("/")[2]


def make_provider_id(kind: ProviderIdKind, namespace: str, name: str) -> str:
    """The id of a Machine without a node. No namespace has an underscore, so the name can be had back."""
    return f"{kind}{namespace}_{name}"


def is_synthetic_provider_id(provider_id: str) -> bool:
    """Is it made of a Machine's name?"""
    return provider_id.startswith(tuple(ProviderIdKind))


def machine_key_of(provider_id: str) -> str:
    """`namespace/name` of the Machine that an id was made of."""
    for kind in ProviderIdKind:
        provider_id = provider_id.removeprefix(kind)
    return provider_id.replace("_", "/", 1)


PROVISIONING_FAILED = "ProvisioningFailed"


def find_failure(status: clusterapi.MachineStatus, spec: clusterapi.MachineSpec) -> node_groups.InstanceError | None:
    """Why the Machine will never become a node; None as long as it may."""
    old = (status.deprecated.v1beta1 if status.deprecated else None) or clusterapi.Failure()
    reason = status.failure_reason or old.failure_reason
    message = status.failure_message or old.failure_message
    if not (reason or message) and not spec.provider_id:
        broken = _find_broken((*(status.conditions or ()), *(old.conditions or ())))
        reason, message = (broken.reason, broken.message) if broken else (None, None)
    if not (reason or message) and status.phase != "Failed":
        return None
    told = ": ".join(part for part in (reason, message) if part)
    return node_groups.InstanceError("Other", PROVISIONING_FAILED, told or "Machine provisioning failed")


def _find_broken(conditions: tuple[clusterapi.Condition, ...]) -> clusterapi.Condition | None:
    for condition in conditions:
        if condition.type == "InfrastructureReady" and condition.status == "False" and condition.severity == "Error":
            return condition
    return None


_NO_SPEC = clusterapi.MachineSpec()

_NO_STATUS = clusterapi.MachineStatus()


class Machine(msgspec.Struct, frozen=True, gc=False):
    """A Machine, as far as anyone asks. Two that are equal are the same to everyone."""

    namespace: str
    name: str
    uid: str
    owners: tuple[str, ...] = ()
    """All of its owners, as `kind/namespace/name`."""
    provider_id: str = ""
    node_name: str = ""
    """The node that it became, as it says."""
    is_deleting: bool = False
    is_marked: bool = False
    """Does it carry the mark that makes it the first to go?"""
    pause: str = ""
    """Why Cluster API leaves it alone; empty if it does not."""
    failure: node_groups.InstanceError | None = None
    """Why it will never become a node; None as long as it may."""
    cluster: str = ""
    """The name of its Cluster; this and its labels are kept where MachineDrainRules are followed."""
    labels: tuple[str, ...] = ()
    """Flat, by key: key, value, key, value … Machines of one MachineSet share them, unless someone labels each."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def narrow_machine(mark: str, *, keeps_labels: bool = False) -> Callable[[clusterapi.Machine], Machine]:
    """What makes of a Machine what is kept of it; `mark` is the annotation of those that go first.

    `keeps_labels`: MachineDrainRules may select by its labels, and by its Cluster's.
    """
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    """Owners and labels."""

    def keep(found: clusterapi.Machine) -> Machine:
        metadata, spec, status = found.meta, found.spec or _NO_SPEC, found.status or _NO_STATUS
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
            pause=group_annotations.find_pause_reason(found),
            failure=find_failure(status, spec),
            cluster=sys.intern(spec.cluster_name or "") if keeps_labels else "",
            labels=known.setdefault(labels, labels),
        )

    return keep


def _flatten(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sys.intern(text) for pair in sorted(labels.items()) for text in pair)


_MOST_OWNERS = 10_000
"""Owners and labels of which Machines share what they say; MachineSets come with every rollout and go again."""


class NodeIndex:
    """The nodes that exist, by provider id, by name and by the Machine that they say is theirs."""

    def __init__(self, named: group_annotations.AnnotationKeys) -> None:
        self._keys = named
        self._all: list[facts.Node] = []
        self._by_id: dict[str, facts.Node] = {}
        self._by_name: dict[str, facts.Node] = {}
        self._by_machine: dict[str, facts.Node] = {}
        self._is_ambiguous = False
        """Do several nodes have one id, or one that is empty but for slashes? Then any may stand for the others."""

    def update(self, nodes: Sequence[facts.Node]) -> list[facts.Node]:
        """Take these instead of those before. The nodes that differ, as they were and as they are; all nodes, where one
        may be found in place of another.
        """
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
        """By provider id; then by the node's own word; by name only where one of both has no provider id to compare."""
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
        """The key of the Machine that a node says is its own; empty if it says nothing."""
        named = node.annotations.get(self._keys.machine)
        return "" if named is None else f"{node.annotations.get(self._keys.cluster_namespace, '')}/{named}"

    def _identify(self, node: facts.Node) -> tuple[str, str, str]:
        """All that a node is found by."""
        return node.name, node.provider_id, self.machine_name_of(node)

    def _index(self) -> None:
        """Of several nodes with one id, the last is found."""
        nodes = self._all
        self._by_id = {normalize_provider_id(node.provider_id): node for node in nodes if node.provider_id}
        self._is_ambiguous = "" in self._by_id or len(self._by_id) < sum(1 for node in nodes if node.provider_id)
        self._by_name = {node.name: node for node in nodes}
        self._by_machine = {key: node for node in nodes if (key := self.machine_name_of(node))}

    def _replace(self, old: facts.Node, new: facts.Node) -> None:
        name, provider_id, machine = self._identify(new)
        ids = ((self._by_id, normalize_provider_id(provider_id)), (self._by_name, name), (self._by_machine, machine))
        for found, key in ids:
            if found.get(key) is old:
                found[key] = new
