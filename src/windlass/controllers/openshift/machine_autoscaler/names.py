"""Names around MachineAutoscalers: the kind, conditions and their reasons, events."""

from windlass.kube.resources import Resource, Unstructured

API_VERSION = "autoscaling.openshift.io/v1beta1"
KIND = "MachineAutoscaler"
MACHINE_AUTOSCALERS = Resource(API_VERSION, "machineautoscalers", KIND, True, Unstructured)
FINALIZER = "machinetarget.autoscaling.openshift.io"
TARGET_KIND = "MachineSet"

READY = "Ready"
IS_READY = "MachineAutoscalerReady"
IS_READY_MESSAGE = "MachineAutoscaler ready for autoscaling"
DUPLICATE = "MachineAutoscalerDuplicateTargetScaleRef"
DUPLICATE_MESSAGE = "targetScaleRef has multiple MachineAutoscaler owners"
INVALID = "MachineAutoscalerInvalid"
TARGET_NOT_FOUND = "MachineAutoscalerTargetNotFound"
TARGET_INVALID = "MachineAutoscalerTargetInvalid"
TARGET_MIGRATING = "MachineAutoscalerTargetMigrating"
TARGET_UPDATE_FAILED = "MachineAutoscalerTargetUpdateFailed"

FAILED_VALIDATION = "FailedValidation"
FAILED_GET_TARGET = "FailedGetTarget"
FAILED_SET_OWNER = "FailedSetOwner"
FAILED_UPDATE_TARGET = "FailedUpdateTarget"
FAILED_FINALIZE_TARGET = "FailedFinalizeTarget"
SUCCESSFUL_UPDATE = "SuccessfulUpdate"
BAD_ACCELERATOR_LABEL = "InvalidOrMissingGPUAcceleratorLabel"
