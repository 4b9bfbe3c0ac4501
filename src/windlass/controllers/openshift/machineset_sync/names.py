"""Names that the mirroring of MachineSets gives: finalizer, managers, condition, reasons, messages."""

FINALIZER = "sync.machine.openshift.io/finalizer"
CLUSTER_API_FINALIZER = "cluster.x-k8s.io/machineset"
"""Cluster API's own, on its MachineSets."""

MANAGER = "MachineSetSyncController"
"""Who writes MachineSets. Its *apply* holds `spec.replicas` and nothing else: that is the mark (`decide.replicas`)."""
ANNOTATIONS_MANAGER = "MachineSetSyncController-Annotations"
"""Who applies annotations that either side may write, and marks them as known (`decide.authored`)."""
CONDITION_MANAGER = "MachineSetSyncController-SynchronizedCondition"
AUTHORITY_MANAGER = "MachineSetMigrationController-AuthoritativeAPI"

SET_LABEL = "machine.openshift.io/cluster-api-machineset"
"""On Machines of Machine API, and on templates that were made for a MachineSet: the MachineSet's name."""
CLUSTER_LABEL = "machine.openshift.io/cluster-api-cluster"
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

SYNCHRONIZED = "Synchronized"
PAUSED = "Paused"

RESOURCE_SYNCHRONIZED = "ResourceSynchronized"
AUTHORITY_CHANGED = "AuthoritativeAPIChanged"
FAILED_TO_GET_INFRASTRUCTURE = "FailedToGetCAPIInfraResources"
FAILED_TO_CONVERT_TO_CLUSTER_API = "FailedToConvertMAPIMachineSetToCAPI"
FAILED_TO_CONVERT_TO_MACHINE_API = "FailedToConvertCAPIMachineSetToMAPI"
FAILED_TO_UPDATE_MACHINE_API = "FailedToUpdateMAPIMachineSet"
FAILED_TO_UPDATE_CLUSTER_API = "FailedToUpdateCAPIMachineSet"
FAILED_TO_UPDATE_TEMPLATE = "FailedToUpdateCAPIInfraMachineTemplate"
FAILED_TO_CREATE_CLUSTER_API = "FailedToCreateCAPIMachineSet"

SYNCHRONIZED_TO_CLUSTER_API = "Successfully synchronized MAPI MachineSet to CAPI"
SYNCHRONIZED_TO_MACHINE_API = "Successfully synchronized CAPI MachineSet to MAPI"
WAITING_FOR_RESYNC = "Waiting for resync after change of AuthoritativeAPI"

CONVERSION_WARNING = "ConversionWarning"
SYNCHRONIZATION_ERROR = "SynchronizationError"
