"""MachineDeployments as they are after what has happened to them, as small as they can be."""

from typing import Any

from windlass.controllers import machine_deployments
from windlass.controllers.machine_deployments import MachineDeployment, ReplicaLimits

Json = dict[str, Any]

V1BETA1, V1BETA2 = "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"
MACHINE = machine_deployments.MachineTemplate(
    {"dataSecretName": "secret"}, {"apiGroup": "g", "apiVersion": "g/v1", "kind": "Template", "name": "t"}, "1.36.3"
)
REPLICAS: Json = {"f:spec": {"f:replicas": {}}}


def wanted(
    name: str = "md", cluster: str = "c", limits: ReplicaLimits | None = None
) -> machine_deployments.DesiredMachineDeployment:
    return machine_deployments.DesiredMachineDeployment(V1BETA2, "ns", name, cluster, MACHINE, limits)


def entry(manager: str, fields: Json, operation: str = "Apply", subresource: str = "") -> Json:
    made = {"manager": manager, "operation": operation, "apiVersion": V1BETA2, "fieldsV1": fields}
    return {**made, "subresource": subresource} if subresource else made


def own(value: Json) -> Json:
    """The fields of an object, as managedFields has them."""
    return {f"f:{name}": own(item) if isinstance(item, dict) else {} for name, item in value.items()}


def applied(
    body: Json, manager: str, *others: Json, replicas: int | None = None, status: Json | None = None
) -> MachineDeployment:
    """What became of a body that was applied; `others` own besides, and `replicas` is what someone made of them."""
    metadata = {name: value for name, value in body["metadata"].items() if name in ("labels", "annotations")}
    fields = own({"metadata": metadata, "spec": body["spec"]})
    spec = {**body["spec"], **({} if replicas is None else {"replicas": replicas})}
    stored = {
        **body["metadata"],
        "uid": "uid",
        "resourceVersion": "7",
        "managedFields": [entry(manager, fields), *others],
    }
    return machine_deployments.parse_machine_deployment(
        {**body, "metadata": stored, "spec": spec, "status": status or {}}
    )


def counted(
    name: str, current: int, ready: int | None = None, up_to_date: int | None = None, **fields: Any
) -> MachineDeployment:
    """Of which only the numbers matter."""
    ready = current if ready is None else ready
    up_to_date = current if up_to_date is None else up_to_date
    counts = {"replicas": current, "current": current, "ready": ready, "up_to_date": up_to_date}
    return MachineDeployment(name, **{**counts, **fields})


def bounds(low: int, high: int) -> dict[str, str]:
    return machine_deployments.limits_to_annotations(ReplicaLimits(low, high))
