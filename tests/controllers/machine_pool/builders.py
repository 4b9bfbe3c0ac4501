"""Facts about pools, as small as they can be."""

from typing import Any

from windlass.controllers.machine_pool import model

Json = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
NOW_S = 1_800_000_000.0
CONFIG = model.ObjectReference(GROUP, "NewBoot", "config")
INFRA = model.ObjectReference(GROUP, "NewPool", "infra")
CLUSTER = model.Cluster("cluster-1", "uid-cluster")


def external(
    reference: model.ObjectReference, spec: Json | None = None, status: Json | None = None
) -> model.ProviderObject:
    return model.ProviderObject(
        reference, f"{GROUP}/v1beta1", "things", "v1beta2", "uid", spec=spec or {}, status=status or {}
    )


def pool(**changes: Any) -> model.MachinePool:
    status = model.MachinePoolStatus(**changes.pop("status", {}))
    given = {
        "uid": "uid-pool",
        "generation": 1,
        "finalizers": (model.FINALIZER,),
        "cluster_name": "cluster-1",
        "replicas": 1,
        "data_secret_name": "data",
        "infrastructure_ref": INFRA,
        "status": status,
    }
    return model.MachinePool(**{"namespace": "default", "name": "pool", **given, **changes})


def refs(found: list[str]) -> tuple[model.NodeRef, ...]:
    return tuple(model.NodeRef(name, "") for name in found)
