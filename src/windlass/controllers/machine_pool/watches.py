"""MachinePool watches: informers and indexes, and which pools a change concerns.

Provider kinds (bootstrap configs, infrastructure pools and their machines) are watched from the first pool that refers
to one; until such an informer has synced, `NotSynced` is raised, and the pool is enqueued afterwards.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.machine_pool import api_types, cluster_cache, conversion, model
from windlass.controllers.machine_pool.model import MachinePoolSettings
from windlass.kube import client, request_builders, store
from windlass.kube.resources import Resource, Unstructured


class MachinePoolWatches:
    """Informers and indexes of the MachinePool controller."""

    def __init__(
        self,
        context: controller_runtime.ControllerContext,
        settings: MachinePoolSettings,
        desk: controller_runtime.ReconcileLoop,
        version: str,
        reach: cluster_cache.Dialer,
    ) -> None:
        self._queue = desk.queue
        selection = request_builders.ListOptions(context.namespace)
        follow = desk.informers.watch
        self.pools: store.Store[Unstructured] = follow(
            context.api, api_types.machine_pool_resource(version), self._affected_keys, selection, _POOL_INDEXES
        ).store
        self._clusters = follow(
            context.api, api_types.cluster_resource(version), self._keys_by_cluster, selection
        ).store
        self._machines = follow(
            context.api,
            api_types.machine_resource(version),
            lambda found: [key for label in _machine_index_keys(found) for key in self.keys_by_label(label)],
            request_builders.ListOptions(context.namespace, labels=model.POOL_NAME_LABEL),
            {"pool": _machine_index_keys},
        ).store
        self._definitions = follow(
            context.api,
            api_types.CUSTOM_RESOURCE_DEFINITIONS,
            self._keys_by_kind,
            indexes={"kind": _kinds_of_definition},
        ).store
        secrets = request_builders.ListOptions(context.namespace, labels=model.CLUSTER_NAME_LABEL)
        follow(context.api, api_types.SECRETS_METADATA, self._refresh_cluster, secrets, required=False)
        self._provider_objects = ProviderObjects(context.api, desk.informers, self._definitions, selection, self)
        self._cluster_cache = cluster_cache.ClusterCache(
            context.api, cluster_cache.fence_dialer(reach, context.fence), self, desk.informers.spawn, settings
        )

    # Facts of a pool

    def observe(self, pool: model.MachinePool) -> model.ObservedMachinePool | None:
        """Facts for one reconcile; None or NotSynced while a watch or connection is not in sync.

        The key is enqueued once it is.
        """
        cluster = self._clusters.get(cluster_key(pool))
        bootstrap = self._provider_objects.find(pool.bootstrap_ref, pool.namespace)
        infrastructure = self._provider_objects.find(pool.infrastructure_ref, pool.namespace)
        infra_machines: tuple[model.InfraMachine, ...] = ()
        if isinstance(infrastructure, model.ProviderObject) and not pool.is_deleting:
            infra_machines = self._provider_objects.find_machines(pool, infrastructure)
        nodes = self._observe_nodes(pool, infrastructure, infra_machines) if cluster is not None else ()
        if nodes is None:
            return None
        rivals, claimed = self._find_pools_with_same_ids(pool, infrastructure)
        return model.ObservedMachinePool(
            pool,
            None if cluster is None else conversion.parse_cluster(cluster),
            bootstrap,
            infrastructure,
            nodes,
            infra_machines,
            tuple(conversion.parse_machine(item) for item in self._machines.find("pool", machine_index_key(pool))),
            rivals,
            claimed,
        )

    def cluster(self, key: str) -> model.Cluster | None:
        """A Cluster by namespace and name."""
        body = self._clusters.get(key)
        return None if body is None else conversion.parse_cluster(body)

    def cluster_pools(self, key: str) -> list[model.ClusterPool]:
        """The pools of a Cluster, by name."""
        found = [conversion.parse_cluster_pool(body) for body in self.pools.find("cluster", key)]
        return sorted(found, key=lambda pool: pool.name)

    def workload_client(self, pool: model.MachinePool) -> client.Client | None:
        """The client of a pool's workload cluster; None if it is unreachable."""
        found = self._cluster_cache.connection_state(cluster_key(pool))
        return found.client if isinstance(found, cluster_cache.ConnectedCluster) else None

    def _observe_nodes(
        self,
        pool: model.MachinePool,
        infrastructure: model.ProviderObject | model.MissingObject | None,
        infra_machines: tuple[model.InfraMachine, ...],
    ) -> tuple[model.Node, ...] | model.UnreachableCluster | None:
        found = self._cluster_cache.connection_state(cluster_key(pool))
        if not isinstance(found, cluster_cache.ConnectedCluster):
            return found
        ids = dict.fromkeys((*pool.provider_ids, *_listed_provider_ids(infrastructure)))
        ids |= dict.fromkeys(infra_machine.provider_id for infra_machine in infra_machines)
        nodes = {node.meta.name: node for item in ids for node in found.nodes.find("provider_id", item)}
        for ref in pool.status.node_refs:
            if ref.name not in nodes and (node := found.nodes.get(ref.name)) is not None:
                nodes[ref.name] = node
        return tuple(conversion.parse_node(node) for node in nodes.values())

    def _find_pools_with_same_ids(
        self, pool: model.MachinePool, infrastructure: model.ProviderObject | model.MissingObject | None
    ) -> tuple[dict[str, str], dict[str, str]]:
        rivals: dict[str, str] = {}
        claimed: dict[str, str] = {}
        for item in dict.fromkeys((*pool.provider_ids, *_listed_provider_ids(infrastructure))):
            for other in self.pools.find("provider_id", f"{cluster_key(pool)} {item}"):
                metadata = other["metadata"]
                if metadata.get("uid") != pool.uid:
                    older = _creation_key(other) < (pool.created_s, pool.key)
                    (rivals if older else claimed)[item] = f"{metadata['namespace']}/{metadata['name']}"
        return rivals, {entry: key for entry, key in claimed.items() if entry not in rivals}

    def drop_unused_clusters(self) -> None:
        """Disconnect from workload clusters without pools."""
        self._cluster_cache.retain(key for body in self.pools for key in _clusters_of_pool(body))

    # Event handlers

    def _affected_keys(self, body: Unstructured) -> Iterable[str]:
        """Keys of the pool, of its Cluster, and of the pools that list the same provider IDs."""
        metadata = body["metadata"]
        keys = [f"{metadata['namespace']}/{metadata['name']}"]
        keys += [CLUSTER_KEY + cluster for cluster in _clusters_of_pool(body)]
        for item in _provider_ids_of_pool(body):
            keys += self._keys("provider_id", item)
        return dict.fromkeys(keys)

    def _keys_by_cluster(self, body: Unstructured) -> Iterable[str]:
        metadata = body["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        pools = self._keys("cluster", key)
        is_held = model.CLUSTER_FINALIZER in (metadata.get("finalizers") or ())
        return [*pools, CLUSTER_KEY + key] if pools or is_held else []

    def _keys_by_kind(self, custom_resource_definition: api_types.CustomResourceDefinition) -> Iterable[str]:
        return [key for kind in _kinds_of_definition(custom_resource_definition) for key in self._keys("kind", kind)]

    def _refresh_cluster(self, partial_object_metadata: api_types.PartialObjectMetadata) -> Iterable[str]:
        key = partial_object_metadata.meta.key.removesuffix("-kubeconfig")
        if key != partial_object_metadata.meta.key:
            self._cluster_cache.refresh(key)
        return ()

    def keys_by_reference(self, group: str, kind: str, namespace: str, name: str) -> Iterable[str]:
        return self._keys("reference", f"{group}/{kind} {namespace}/{name}")

    def keys_by_label(self, label: str) -> Iterable[str]:
        return self._keys("label", label)

    def enqueue_all(self) -> None:
        for body in self.pools:
            self._queue.add(f"{body['metadata']['namespace']}/{body['metadata']['name']}")

    def enqueue_cluster(self, key: str) -> None:
        for item in self._keys("cluster", key):
            self._queue.add(item)

    def enqueue_node(self, key: str, node: api_types.Node) -> None:
        for item in self._keys("node", f"{key} {node.meta.name}"):
            self._queue.add(item)
        if node.spec and node.spec.provider_id:
            for item in self._keys("provider_id", f"{key} {node.spec.provider_id}"):
                self._queue.add(item)

    def _keys(self, index: str, value: str) -> list[str]:
        return [f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in self.pools.find(index, value)]


CLUSTER_KEY = "Cluster "
"""What keys of Clusters begin with; keys of pools have no space."""


def cluster_key(pool: model.MachinePool) -> str:
    return f"{pool.namespace}/{pool.cluster_name}"


def _listed_provider_ids(infrastructure: model.ProviderObject | model.MissingObject | None) -> tuple[str, ...]:
    return api_types.read_provider_ids(infrastructure.spec) if isinstance(infrastructure, model.ProviderObject) else ()


def _creation_key(body: Unstructured) -> tuple[float, str]:
    metadata = body["metadata"]
    return conversion.parse_time_or_zero(
        metadata.get("creationTimestamp")
    ), f"{metadata['namespace']}/{metadata['name']}"


# Index functions


def _clusters_of_pool(body: Unstructured) -> list[str]:
    return [f"{body['metadata']['namespace']}/{(body.get('spec') or {}).get('clusterName')}"]


def _provider_ids_of_pool(body: Unstructured) -> list[str]:
    listed = dict.fromkeys((body.get("spec") or {}).get("providerIDList") or ())
    return [f"{cluster} {item}" for cluster in _clusters_of_pool(body) for item in listed]


def _nodes_of_pool(body: Unstructured) -> list[str]:
    refs = (body.get("status") or {}).get("nodeRefs") or ()
    return [f"{cluster} {ref.get('name')}" for cluster in _clusters_of_pool(body) for ref in refs]


def _references_of_pool(body: Unstructured) -> list[str]:
    object_references = conversion.parse_references(body)
    namespace = body["metadata"]["namespace"]
    return [
        f"{object_reference.group}/{object_reference.kind} {namespace}/{object_reference.name}"
        for object_reference in object_references
    ]


def _kinds_of_pool(body: Unstructured) -> list[str]:
    return list(
        dict.fromkeys(
            f"{object_reference.group}/{object_reference.kind}"
            for object_reference in conversion.parse_references(body)
        )
    )


def _labels_of_pool(body: Unstructured) -> list[str]:
    metadata = body["metadata"]
    cluster = (body.get("spec") or {}).get("clusterName")
    return [f"{metadata['namespace']} {cluster} {model.label_value(metadata['name'])}"]


def _kinds_of_definition(custom_resource_definition: api_types.CustomResourceDefinition) -> list[str]:
    return [f"{custom_resource_definition.spec.group}/{custom_resource_definition.spec.names.kind}"]


def _machine_index_keys(found: Unstructured) -> list[str]:
    metadata = found["metadata"]
    return machine_index_keys(metadata["namespace"], metadata.get("labels") or {})


_POOL_INDEXES = {
    "cluster": _clusters_of_pool,
    "provider_id": _provider_ids_of_pool,
    "node": _nodes_of_pool,
    "reference": _references_of_pool,
    "kind": _kinds_of_pool,
    "label": _labels_of_pool,
}


class PoolIndex(Protocol):
    """Maps changes of related objects to keys of pools."""

    def keys_by_reference(self, group: str, kind: str, namespace: str, name: str) -> Iterable[str]: ...

    def keys_by_label(self, label: str) -> Iterable[str]: ...

    def enqueue_all(self) -> None: ...


class ProviderObjects:
    """Informers of provider kinds: bootstrap configs, infrastructure pools and their machines."""

    def __init__(
        self,
        api: client.Client,
        followed: controller_runtime.InformerSet,
        definitions: store.Store[api_types.CustomResourceDefinition],
        selection: request_builders.ListOptions,
        pools: PoolIndex,
    ) -> None:
        self._api = api
        self._informers = followed
        self._definitions = definitions
        self._selection = selection
        self._pools = pools
        self._objects: dict[Resource[Any], controller_runtime.WatchedResource[Unstructured]] = {}
        self._machines: dict[Resource[Any], controller_runtime.WatchedResource[api_types.InfraMachine]] = {}

    def find(
        self, reference: model.ObjectReference | None, namespace: str
    ) -> model.ProviderObject | model.MissingObject | None:
        """A referenced provider object. NotSynced if its kind was not watched before."""
        if reference is None:
            return None
        definition = find_crd(self._definitions, reference.group, reference.kind)
        if definition is None:
            return model.MissingObject(reference, api_types.crd_name(reference.group, reference.kind))
        chosen = api_types.choose_contract_version(definition.meta.labels or {})
        if chosen is None:
            return model.MissingObject(reference, definition.meta.name or "", unlabelled=True)
        kept, version = chosen
        plural = definition.spec.names.plural
        resource = Resource(f"{reference.group}/{version}", plural, reference.kind, True, Unstructured)
        body = self._watch(resource).store.get(f"{namespace}/{reference.name}")
        return (
            model.MissingObject(reference)
            if body is None
            else conversion.parse_provider_object(body, reference, plural, kept)
        )

    def find_machines(
        self, pool: model.MachinePool, infrastructure: model.ProviderObject
    ) -> tuple[model.InfraMachine, ...]:
        """The machines of an infrastructure pool by label, sorted by name."""
        kind = api_types.read_machine_kind(infrastructure.status)
        if not kind:
            return ()
        definition = find_crd(self._definitions, infrastructure.reference.group, kind)
        if definition is None:
            name = api_types.crd_name(infrastructure.reference.group, kind)
            raise controller_interface.RequeueError(
                f"infrastructureMachineKind {kind}: there is no CustomResourceDefinition {name}"
            )
        version = infrastructure.api_version
        resource = Resource(version, definition.spec.names.plural, kind, True, api_types.InfraMachine)
        infra_machines = self._watch_machines(resource).store.find("pool", machine_index_key(pool))
        read = [conversion.parse_infra_machine(infra_machine, version, kind) for infra_machine in infra_machines]
        return tuple(sorted(read, key=lambda each: each.reference.name))

    def _watch(self, resource: Resource[Unstructured]) -> controller_runtime.WatchedResource[Unstructured]:
        if resource not in self._objects:
            group = resource.api_version.partition("/")[0]

            def concerned(found: Unstructured) -> Iterable[str]:
                metadata = found["metadata"]
                return self._pools.keys_by_reference(group, resource.kind, metadata["namespace"], metadata["name"])

            self._objects[resource] = self._informers.watch(
                self._api, resource, concerned, self._selection, required=False
            )
            self._informers.spawn(self._enqueue_when_synced(self._objects[resource]))
        return _require_synced(self._objects[resource])

    def _watch_machines(
        self, resource: Resource[api_types.InfraMachine]
    ) -> controller_runtime.WatchedResource[api_types.InfraMachine]:
        if resource not in self._machines:
            self._machines[resource] = self._informers.watch(
                self._api,
                resource,
                lambda infra_machine: [
                    key
                    for label in _infra_machine_index_keys(infra_machine)
                    for key in self._pools.keys_by_label(label)
                ],
                request_builders.ListOptions(self._selection.namespace, labels=model.POOL_NAME_LABEL),
                {"pool": _infra_machine_index_keys},
                required=False,
            )
            self._informers.spawn(self._enqueue_when_synced(self._machines[resource]))
        return _require_synced(self._machines[resource])

    async def _enqueue_when_synced(self, followed: controller_runtime.WatchedResource[Any]) -> None:
        await followed.informer.wait_synced()
        await asyncio.sleep(0)
        self._pools.enqueue_all()


def find_crd(
    definitions: store.Store[api_types.CustomResourceDefinition], group: str, kind: str
) -> api_types.CustomResourceDefinition | None:
    """The CustomResourceDefinition of a kind, by its expected name, or else by kind."""
    custom_resource_definition = definitions.get(api_types.crd_name(group, kind))
    if custom_resource_definition is not None and custom_resource_definition.spec.names.kind == kind:
        return custom_resource_definition
    return next(iter(definitions.find("kind", f"{group}/{kind}")), None)


def machine_index_key(pool: model.MachinePool) -> str:
    return f"{pool.namespace} {pool.cluster_name} {model.label_value(pool.name)}"


def _infra_machine_index_keys(infra_machine: api_types.InfraMachine) -> list[str]:
    return machine_index_keys(infra_machine.meta.namespace or "", infra_machine.meta.labels or {})


def machine_index_keys(namespace: str, labels: dict[str, str]) -> list[str]:
    """Index keys of an infrastructure machine; empty if it lacks the pool's labels."""
    cluster, pool = labels.get(model.CLUSTER_NAME_LABEL), labels.get(model.POOL_NAME_LABEL)
    return [f"{namespace} {cluster} {pool}"] if cluster and pool else []


def _require_synced(followed: controller_runtime.WatchedResource[Any]) -> controller_runtime.WatchedResource[Any]:
    if not followed.informer.synced:
        raise NotSynced(followed.sync_error, has_error=followed.informer.last_error is not None)
    return followed


class NotSynced(controller_interface.RequeueError):
    """An informer of a kind has not synced; the keys of its pools are enqueued when it has."""

    def __init__(self, reason: str, *, has_error: bool) -> None:
        super().__init__(reason)
        self.has_error = has_error
