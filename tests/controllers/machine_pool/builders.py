"""Facts about pools, as small as they can be."""

from typing import Any

from windlass.controllers.machine_pool import facts, names

Json = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
NOW_S = 1_800_000_000.0
CONFIG = facts.Reference(GROUP, "NewBoot", "config")
INFRA = facts.Reference(GROUP, "NewPool", "infra")
CLUSTER = facts.Cluster("cluster-1", "uid-cluster")


def external(reference: facts.Reference, spec: Json | None = None, status: Json | None = None) -> facts.External:
    return facts.External(
        reference, f"{GROUP}/v1beta1", "things", "v1beta2", "uid", spec=spec or {}, status=status or {}
    )


def pool(**changes: Any) -> facts.Pool:
    status = facts.Status(**changes.pop("status", {}))
    given = {
        "uid": "uid-pool",
        "generation": 1,
        "finalizers": (names.FINALIZER,),
        "cluster_name": "cluster-1",
        "replicas": 1,
        "data_secret_name": "data",
        "infrastructure_ref": INFRA,
        "status": status,
    }
    return facts.Pool(**{"namespace": "default", "name": "pool", **given, **changes})


def refs(found: list[str]) -> tuple[facts.NodeRef, ...]:
    return tuple(facts.NodeRef(name, "") for name in found)
