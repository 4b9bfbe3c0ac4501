"""Watches: everything that is looked at. Pools by whatever may concern them, and what concerns them."""

from collections.abc import Iterable

from windlass.controllers import controller
from windlass.controllers import desk as desks
from windlass.controllers.machine_pool import contract, externals, facts, models, names, observe, workloads
from windlass.controllers.machine_pool.settings import Settings
from windlass.kube import client, prepare, store
from windlass.kube.resources import Unstructured


class Watches:
    """What a controller of MachinePools knows."""

    def __init__(
        self,
        site: controller.Site,
        settings: Settings,
        desk: desks.Desk,
        version: str,
        reach: workloads.Dial,
    ) -> None:
        self._queue = desk.queue
        selection = prepare.Selection(site.namespace)
        follow = desk.following.follow
        self.pools: store.Store[Unstructured] = follow(
            site.api, models.machine_pools(version), self._concerned, selection, _POOL_INDEXES
        ).store
        self._clusters = follow(site.api, models.clusters(version), self._of_cluster, selection).store
        self._machines = follow(
            site.api,
            models.machines(version),
            lambda found: [key for label in _machine_labels(found) for key in self.labelled(label)],
            prepare.Selection(site.namespace, labels=names.POOL_NAME_LABEL),
            {"pool": _machine_labels},
        ).store
        self._definitions = follow(
            site.api, models.DEFINITIONS, self._of_kind, indexes={"kind": _kinds_of_definition}
        ).store
        secrets = prepare.Selection(site.namespace, labels=names.CLUSTER_NAME_LABEL)
        follow(site.api, models.SECRET_HEADERS, self._poke, secrets, required=False)
        self._externals = externals.Externals(site.api, desk.following, self._definitions, selection, self)
        self._workloads = workloads.Workloads(
            site.api, workloads.fenced(reach, site.fence), self, desk.following.spawn, settings
        )

    # What is the case with a pool

    def observe(self, pool: facts.Pool) -> facts.Seen | None:
        """All that concerns a pool. None, or Waiting, if it is not known yet: the pool is woken once it is."""
        cluster = self._clusters.get(cluster_key(pool))
        bootstrap = self._externals.find(pool.bootstrap_ref, pool.namespace)
        infrastructure = self._externals.find(pool.infrastructure_ref, pool.namespace)
        infra_machines: tuple[facts.InfraMachine, ...] = ()
        if isinstance(infrastructure, facts.External) and not pool.is_deleting:
            infra_machines = self._externals.find_machines(pool, infrastructure)
        nodes = self._look_at_nodes(pool, infrastructure, infra_machines) if cluster is not None else ()
        if nodes is None:
            return None
        rivals, claimed = self._find_rivals(pool, infrastructure)
        return facts.Seen(
            pool,
            None if cluster is None else observe.read_cluster(cluster),
            bootstrap,
            infrastructure,
            nodes,
            infra_machines,
            tuple(observe.read_machine(each) for each in self._machines.find("pool", externals.label_key(pool))),
            rivals,
            claimed,
        )

    def client_of(self, pool: facts.Pool) -> client.Client | None:
        """The client of a pool's workload cluster, if it can be reached."""
        found = self._workloads.look(cluster_key(pool))
        return found.client if isinstance(found, workloads.Connected) else None

    def _look_at_nodes(
        self,
        pool: facts.Pool,
        infrastructure: facts.External | facts.Missing | None,
        infra_machines: tuple[facts.InfraMachine, ...],
    ) -> tuple[facts.Node, ...] | facts.Unreachable | None:
        found = self._workloads.look(cluster_key(pool))
        if not isinstance(found, workloads.Connected):
            return found
        ids = dict.fromkeys((*pool.provider_ids, *_listed(infrastructure)))
        ids |= dict.fromkeys(each.provider_id for each in infra_machines)
        nodes = {node.meta.name: node for each in ids for node in found.nodes.find("provider_id", each)}
        for ref in pool.status.node_refs:
            if ref.name not in nodes and (node := found.nodes.get(ref.name)) is not None:
                nodes[ref.name] = node
        return tuple(observe.read_node(node) for node in nodes.values())

    def _find_rivals(
        self, pool: facts.Pool, infrastructure: facts.External | facts.Missing | None
    ) -> tuple[dict[str, str], dict[str, str]]:
        rivals: dict[str, str] = {}
        claimed: dict[str, str] = {}
        for each in dict.fromkeys((*pool.provider_ids, *_listed(infrastructure))):
            for other in self.pools.find("provider_id", f"{cluster_key(pool)} {each}"):
                metadata = other["metadata"]
                if metadata.get("uid") != pool.uid:
                    older = _age(other) < (pool.created_s, pool.key)
                    (rivals if older else claimed)[each] = f"{metadata['namespace']}/{metadata['name']}"
        return rivals, {each: key for each, key in claimed.items() if each not in rivals}

    def tidy(self) -> None:
        """Let go of clusters that no pool belongs to any more."""
        self._workloads.keep_only(key for body in self.pools for key in _clusters_of_pool(body))

    # Which pools something concerns

    def _concerned(self, body: Unstructured) -> Iterable[str]:
        """The pool itself, and those that name the same instances."""
        metadata = body["metadata"]
        keys = [f"{metadata['namespace']}/{metadata['name']}"]
        for each in _provider_ids_of_pool(body):
            keys += self._keys("provider_id", each)
        return dict.fromkeys(keys)

    def _of_cluster(self, body: Unstructured) -> Iterable[str]:
        metadata = body["metadata"]
        return self._keys("cluster", f"{metadata['namespace']}/{metadata['name']}")

    def _of_kind(self, found: models.Definition) -> Iterable[str]:
        return [key for kind in _kinds_of_definition(found) for key in self._keys("kind", kind)]

    def _poke(self, found: models.Header) -> Iterable[str]:
        key = found.meta.key.removesuffix("-kubeconfig")
        if key != found.meta.key:
            self._workloads.poke(key)
        return ()

    def referring(self, group: str, kind: str, namespace: str, name: str) -> Iterable[str]:
        return self._keys("reference", f"{group}/{kind} {namespace}/{name}")

    def labelled(self, label: str) -> Iterable[str]:
        return self._keys("label", label)

    def wake_all(self) -> None:
        for body in self.pools:
            self._queue.add(f"{body['metadata']['namespace']}/{body['metadata']['name']}")

    def wake_cluster(self, key: str) -> None:
        for each in self._keys("cluster", key):
            self._queue.add(each)

    def wake_node(self, key: str, node: models.Node) -> None:
        for each in self._keys("node", f"{key} {node.meta.name}"):
            self._queue.add(each)
        if node.spec and node.spec.provider_id:
            for each in self._keys("provider_id", f"{key} {node.spec.provider_id}"):
                self._queue.add(each)

    def _keys(self, index: str, value: str) -> list[str]:
        return [f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in self.pools.find(index, value)]


def cluster_key(pool: facts.Pool) -> str:
    return f"{pool.namespace}/{pool.cluster_name}"


def _listed(infrastructure: facts.External | facts.Missing | None) -> tuple[str, ...]:
    return contract.provider_ids(infrastructure.spec) if isinstance(infrastructure, facts.External) else ()


def _age(body: Unstructured) -> tuple[float, str]:
    metadata = body["metadata"]
    return observe.read_time(metadata.get("creationTimestamp")), f"{metadata['namespace']}/{metadata['name']}"


# Under which a pool is found


def _clusters_of_pool(body: Unstructured) -> list[str]:
    return [f"{body['metadata']['namespace']}/{(body.get('spec') or {}).get('clusterName')}"]


def _provider_ids_of_pool(body: Unstructured) -> list[str]:
    listed = dict.fromkeys((body.get("spec") or {}).get("providerIDList") or ())
    return [f"{cluster} {each}" for cluster in _clusters_of_pool(body) for each in listed]


def _nodes_of_pool(body: Unstructured) -> list[str]:
    refs = (body.get("status") or {}).get("nodeRefs") or ()
    return [f"{cluster} {ref.get('name')}" for cluster in _clusters_of_pool(body) for ref in refs]


def _references_of_pool(body: Unstructured) -> list[str]:
    found = observe.read_references(body)
    namespace = body["metadata"]["namespace"]
    return [f"{each.group}/{each.kind} {namespace}/{each.name}" for each in found]


def _kinds_of_pool(body: Unstructured) -> list[str]:
    return list(dict.fromkeys(f"{each.group}/{each.kind}" for each in observe.read_references(body)))


def _labels_of_pool(body: Unstructured) -> list[str]:
    metadata = body["metadata"]
    cluster = (body.get("spec") or {}).get("clusterName")
    return [f"{metadata['namespace']} {cluster} {names.label_value(metadata['name'])}"]


def _kinds_of_definition(found: models.Definition) -> list[str]:
    return [f"{found.spec.group}/{found.spec.names.kind}"]


def _machine_labels(found: Unstructured) -> list[str]:
    metadata = found["metadata"]
    return externals.label_keys(metadata["namespace"], metadata.get("labels") or {})


_POOL_INDEXES = {
    "cluster": _clusters_of_pool,
    "provider_id": _provider_ids_of_pool,
    "node": _nodes_of_pool,
    "reference": _references_of_pool,
    "kind": _kinds_of_pool,
    "label": _labels_of_pool,
}
