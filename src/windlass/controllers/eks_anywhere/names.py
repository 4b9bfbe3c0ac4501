"""Names that EKS Anywhere gives: the group, condition types and reasons, and what MachineDeployments are called."""

API_VERSION = "anywhere.eks.amazonaws.com/v1alpha1"
MANAGER = "eks-a-controller"
"""Who applies MachineDeployments, in managedFields."""
NAMESPACE = "eksa-system"
"""Where they are, wherever the Cluster is."""
PAUSED_ANNOTATION = "anywhere.eks.amazonaws.com/paused"

READY = "Ready"
CONTROL_PLANE_INITIALIZED = "ControlPlaneInitialized"
CONTROL_PLANE_READY = "ControlPlaneReady"
WORKERS_READY = "WorkersReady"
DEFAULT_CNI_CONFIGURED = "DefaultCNIConfigured"

INITIALIZATION_IN_PROGRESS = "ControlPlaneInitializationInProgress"
CONTROL_PLANE_NOT_INITIALIZED = "ControlPlaneNotInitialized"
CONTROL_PLANE_NOT_READY = "ControlPlaneNotReady"
CONTROL_PLANE_UNHEALTHY = "ControlPlaneComponentsUnhealthy"
KUBEADM_CONTROL_PLANE_NOT_READY = "KubeadmControlPlaneNotReady"
ETCD_NOT_AVAILABLE = "ExternalEtcdNotAvailable"
OUTDATED_INFORMATION = "OutdatedInformation"
ROLLING_UPGRADE = "RollingUpgradeInProgress"
IN_PLACE_UPGRADE = "InPlaceUpgradeInProgress"
SCALING_UP = "ScalingUp"
SCALING_DOWN = "ScalingDown"
NODES_NOT_READY = "NodesNotReady"
CONSTRAINT_NOT_MET = "AutoscalerConstraintNotMet"
MACHINE_DEPLOYMENT_NOT_READY = "MachineDeploymentNotReady"
SKIP_UPGRADES = "SkipUpgrades"
GROUPS_INVALID = "WorkerNodeGroupsInvalid"
"""Ours: a group cannot be used, and stays as it was."""
CLUSTER_INVALID = "ClusterInvalid"

INFO = "Info"
WARNING = "Warning"
ERROR = "Error"

IN_PLACE = "InPlace"


def machine_deployment(cluster: str, group: str) -> str:
    """The one name of a group's MachineDeployment, to write it and to find it again."""
    return f"{cluster}-{group}"
