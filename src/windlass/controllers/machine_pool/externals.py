"""Providers' objects: kinds that pools refer to, followed from the moment that one does."""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from windlass.controllers import controller, following
from windlass.controllers.machine_pool import contract, facts, models, names, observe
from windlass.kube import client, prepare, store
from windlass.kube.resources import Resource, Unstructured


class PoolsBy(Protocol):
    """Which pools something concerns."""

    def referring(self, group: str, kind: str, namespace: str, name: str) -> Iterable[str]: ...

    def labelled(self, label: str) -> Iterable[str]: ...

    def wake_all(self) -> None: ...


class Externals:
    """Bootstrap configs, infrastructure pools and their machines."""

    def __init__(
        self,
        api: client.Client,
        followed: following.Following,
        definitions: store.Store[models.Definition],
        selection: prepare.Selection,
        pools: PoolsBy,
    ) -> None:
        self._api = api
        self._following = followed
        self._definitions = definitions
        self._selection = selection
        self._pools = pools
        self._objects: dict[Resource[Any], following.Followed[Unstructured]] = {}
        self._machines: dict[Resource[Any], following.Followed[models.InfraMachine]] = {}

    def find(self, reference: facts.Reference | None, namespace: str) -> facts.External | facts.Missing | None:
        """What a pool refers to. NotYet if its kind has only just begun to be followed."""
        if reference is None:
            return None
        definition = find_definition(self._definitions, reference.group, reference.kind)
        if definition is None:
            return facts.Missing(reference, contract.definition_name(reference.group, reference.kind))
        chosen = contract.choose_version(definition.meta.labels or {})
        if chosen is None:
            return facts.Missing(reference, definition.meta.name or "", unlabelled=True)
        kept, version = chosen
        plural = definition.spec.names.plural
        resource = Resource(f"{reference.group}/{version}", plural, reference.kind, True, Unstructured)
        body = self._follow(resource).store.get(f"{namespace}/{reference.name}")
        return facts.Missing(reference) if body is None else observe.read_external(body, reference, plural, kept)

    def find_machines(self, pool: facts.Pool, infrastructure: facts.External) -> tuple[facts.InfraMachine, ...]:
        """The machines of an infrastructure pool, by the labels that they carry, in the order of their names."""
        kind = contract.machine_kind(infrastructure.status)
        if not kind:
            return ()
        definition = find_definition(self._definitions, infrastructure.reference.group, kind)
        if definition is None:
            name = contract.definition_name(infrastructure.reference.group, kind)
            raise controller.NotYet(f"infrastructureMachineKind {kind}: there is no CustomResourceDefinition {name}")
        version = infrastructure.api_version
        resource = Resource(version, definition.spec.names.plural, kind, True, models.InfraMachine)
        found = self._follow_machines(resource).store.find("pool", label_key(pool))
        read = [observe.read_infra_machine(each, version, kind) for each in found]
        return tuple(sorted(read, key=lambda each: each.reference.name))

    def _follow(self, resource: Resource[Unstructured]) -> following.Followed[Unstructured]:
        if resource not in self._objects:
            group = resource.api_version.partition("/")[0]

            def concerned(found: Unstructured) -> Iterable[str]:
                metadata = found["metadata"]
                return self._pools.referring(group, resource.kind, metadata["namespace"], metadata["name"])

            self._objects[resource] = self._following.follow(
                self._api, resource, concerned, self._selection, required=False
            )
            self._following.spawn(self._wake_when_known(self._objects[resource]))
        return _ready(self._objects[resource])

    def _follow_machines(self, resource: Resource[models.InfraMachine]) -> following.Followed[models.InfraMachine]:
        if resource not in self._machines:
            self._machines[resource] = self._following.follow(
                self._api,
                resource,
                lambda found: [key for label in _labels(found) for key in self._pools.labelled(label)],
                prepare.Selection(self._selection.namespace, labels=names.POOL_NAME_LABEL),
                {"pool": _labels},
                required=False,
            )
            self._following.spawn(self._wake_when_known(self._machines[resource]))
        return _ready(self._machines[resource])

    async def _wake_when_known(self, followed: following.Followed[Any]) -> None:
        await followed.informer.wait_synced()
        await asyncio.sleep(0)
        self._pools.wake_all()


def find_definition(definitions: store.Store[models.Definition], group: str, kind: str) -> models.Definition | None:
    """The definition of a kind: by the name that it has to have, or whatever its name is."""
    found = definitions.get(contract.definition_name(group, kind))
    if found is not None and found.spec.names.kind == kind:
        return found
    return next(iter(definitions.find("kind", f"{group}/{kind}")), None)


def label_key(pool: facts.Pool) -> str:
    return f"{pool.namespace} {pool.cluster_name} {names.label_value(pool.name)}"


def _labels(found: models.InfraMachine) -> list[str]:
    return label_keys(found.meta.namespace or "", found.meta.labels or {})


def label_keys(namespace: str, labels: dict[str, str]) -> list[str]:
    """Under which a machine is found by its pool; none if it carries no pool's labels."""
    cluster, pool = labels.get(names.CLUSTER_NAME_LABEL), labels.get(names.POOL_NAME_LABEL)
    return [f"{namespace} {cluster} {pool}"] if cluster and pool else []


def _ready(followed: following.Followed[Any]) -> following.Followed[Any]:
    if not followed.informer.synced:
        raise Waiting(followed.complaint, is_troubled=followed.informer.trouble is not None)
    return followed


class Waiting(controller.NotYet):
    """A kind is not known yet: its pools are woken once it is."""

    def __init__(self, why: str, *, is_troubled: bool) -> None:
        super().__init__(why)
        self.is_troubled = is_troubled
