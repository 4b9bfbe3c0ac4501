"""Machines as they are kept: what groups are made of, a sixth of what the objects themselves would take.

A cluster of 15,000 nodes has as many Machines, each with nine conditions and references of which nothing here
asks. What is kept is read once, when a Machine comes; every question about it is then a field.
"""

import sys
from collections.abc import Callable, Mapping

import msgspec

from windlass.engine import facts
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import failures, pauses

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
    failure: facts.InstanceError | None = None
    """Why it will never become a node; None as long as it may."""
    cluster: str = ""
    """The name of its Cluster; this and its labels are kept where MachineDrainRules are followed."""
    labels: tuple[str, ...] = ()
    """Flat, by key: key, value, key, value … Machines of one MachineSet share them, unless someone labels each."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def narrow(mark: str, *, keeps_labels: bool = False) -> Callable[[clusterapi.Machine], Machine]:
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
            pause=pauses.find(found),
            failure=failures.find(status, spec),
            cluster=sys.intern(spec.cluster_name or "") if keeps_labels else "",
            labels=known.setdefault(labels, labels),
        )

    return keep


def _flatten(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sys.intern(text) for pair in sorted(labels.items()) for text in pair)


_MOST_OWNERS = 10_000
"""Owners and labels of which Machines share what they say; MachineSets come with every rollout and go again."""
