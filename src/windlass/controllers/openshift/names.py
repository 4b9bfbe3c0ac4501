"""Names that OpenShift gives: namespaces, annotations, and who writes."""

from windlass.kube.resources import Resource, Unstructured

MACHINE_AUTOSCALERS = Resource(
    "autoscaling.openshift.io/v1beta1", "machineautoscalers", "MachineAutoscaler", True, Unstructured
)

MACHINE_API_NAMESPACE = "openshift-machine-api"
CLUSTER_API_NAMESPACE = "openshift-cluster-api"

OPERATOR_MANAGER = "cluster-autoscaler-operator"
"""Who writes annotations to MachineSets, in managedFields. Whoever mirrors MachineSets knows it by this name."""
AUTOSCALER_MANAGER = "cluster-autoscaler"

OWNER_ANNOTATION = "autoscaling.openshift.io/machineautoscaler"
"""On a MachineSet: the MachineAutoscaler whose it is, as namespace/name. The same in both APIs."""

MIN_SIZE = "cluster-api-autoscaler-node-group-min-size"
MAX_SIZE = "cluster-api-autoscaler-node-group-max-size"
DELETE_MACHINE = "delete-machine"
"""Each behind the prefix of an API: see `apis`."""

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
"""On a MachineSet of Cluster API that is not authoritative."""

ACCELERATOR_LABEL = "cluster-api/accelerator"
