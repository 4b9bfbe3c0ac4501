"""Scalables: the objects that are node groups, MachineDeployments, MachineSets without one, and MachinePools."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass import errors
from windlass.kube import fields
from windlass.kube.models import clusterapi, meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import discovery_spec, keys, pauses, rollout
from windlass.providers.clusterapi.config import Config
from windlass.providers.clusterapi.following import Following
from windlass.providers.clusterapi.kinds import MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, Kinds
from windlass.providers.clusterapi.machines import Machine

Found: TypeAlias = clusterapi.MachineDeployment | clusterapi.MachineSet | clusterapi.MachinePool

_NO_SPEC = clusterapi.MachineGroupSpec()


@dataclass(frozen=True, slots=True)
class Scalable:
    """An object with replicas, as it was seen last."""

    resource: Resource[Any]
    found: Found

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def meta(self) -> meta.ObjectMeta:
        return self.found.meta

    @property
    def namespace(self) -> str:
        return self.meta.namespace or ""

    @property
    def name(self) -> str:
        return self.meta.name or ""

    @property
    def id(self) -> str:
        """The group's id, as people know it."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def spec(self) -> clusterapi.MachineGroupSpec:
        return self.found.spec or _NO_SPEC

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.meta.annotations or {}

    @property
    def is_pool(self) -> bool:
        return self.kind == MACHINE_POOL

    @property
    def provider_ids(self) -> list[str]:
        """Of a MachinePool: its instances."""
        spec = self.found.spec
        return (spec.provider_id_list if isinstance(spec, clusterapi.MachinePoolSpec) else None) or []

    def complain(self, error: fields.InvalidField) -> errors.InvalidObject:
        return error.of(self.kind, self.meta.key)


def select(kinds: Kinds, config: Config) -> Iterator[Scalable]:
    """All that are ours: selected, and not on their way out."""
    for followed in kinds.scalable:
        yield from select_of(followed, config)


def select_of(followed: Following[Any], config: Config) -> Iterator[Scalable]:
    """Those of one kind that are ours."""
    for found in followed:
        one = Scalable(followed.resource, found)
        if is_selected(one, config):
            yield one


def find(kinds: Kinds, config: Config, id: str) -> Scalable | None:
    """The one of this id, if it is still ours."""
    kind, _, key = id.partition("/")
    namespace, _, name = key.partition("/")
    for followed in kinds.scalable:
        found = followed.get(namespace, name) if followed.resource.kind == kind else None
        if found is not None:
            one = Scalable(followed.resource, found)
            return one if is_selected(one, config) else None
    return None


def is_selected(one: Scalable, config: Config) -> bool:
    """Is it ours, and no part of another group?"""
    if one.meta.deletion_timestamp is not None or _has_deployment(one):
        return False
    if not config.specs:
        return True
    labels = one.meta.labels or {}
    cluster = discovery_spec.name_cluster(one.found.spec, labels, keys.Keys(config.group).cluster_name)
    return any(spec.matches(one.namespace, cluster, labels) for spec in config.specs)


def _has_deployment(one: Scalable) -> bool:
    owners = one.meta.owner_references or ()
    return one.kind == MACHINE_SET and any(owner.kind == "MachineDeployment" and owner.name for owner in owners)


def find_machine_pause(one: Scalable, machine: Machine, kinds: Kinds) -> str:
    """Why one of its Machines is left alone; empty if it is not. Machines of a mirror are paused as the mirror is."""
    return "" if is_mirror(one, kinds) else machine.pause


def is_mirror(one: Scalable, kinds: Kinds) -> bool:
    """Is it a MachineSet whose twin in another API holds the authority?"""
    return one.kind == MACHINE_SET and kinds.is_mirror(one.name)


def find_pause(one: Scalable, kinds: Kinds) -> str:
    """Why its controller leaves it alone; empty if it does not. OpenShift's own does, where another API holds, or is
    about to. A MachineDeployment is also held up by a MachineSet of its own that is paused.
    """
    status = one.found.status
    if status is not None and status.authoritative_api not in (None, "", "MachineAPI"):
        return f"status.authoritativeAPI is {status.authoritative_api}"
    if is_mirror(one, kinds):
        return ""
    if why := pauses.find(one.found):
        return why
    if one.kind == MACHINE_DEPLOYMENT:
        for machine_set in rollout.find_active(kinds.machine_sets_of(one.namespace, one.name)):
            if why := pauses.find(machine_set):
                return f"MachineSet {machine_set.meta.key}: {why}"
    return ""
