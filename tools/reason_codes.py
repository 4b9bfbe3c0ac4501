"""Reasons: every word by which events and conditions say why, read from the code; its meaning is the runbook's.

A reason stands at a fixed place of some calls, is what a variable called `reason` is set to, or is a constant of a
controller's `model`. Whatever is found this way has an entry in docs/runbook.md, or is listed here as another word.
"""

import ast
import functools
import re
from collections.abc import Iterator, Mapping

from tools import source_analysis

_ROOMS = re.compile(
    r"windlass\.(controllers|observability|autoscaler\.batcher|engine\.(capacity_apis|resource_quotas|scale_up))\b"
)
_WORD = re.compile(r"[A-Z]\w*[a-z]\w*|error")

EVENTS: Mapping[str, int] = {"EventOccurrence": 2, "Event": 1, "SyncEvent": 1, "TargetEvent": 1}
"""Where calls that tell an event have its reason."""
CONDITIONS: Mapping[str, int] = {
    "Condition": 2, "ConditionUpdate": 2, "QuotaCondition": 2, "StatusCondition": 2, "SynchronizedCondition": 1,
    "InputProblem": 0, "UnreachableCluster": 0, "false_condition": 1, "set_condition": 3, "set_buffer_condition": 3,
    "_control_plane_not_ready": 0, "_workers_not_ready": 0, "_fail_injection": 1, "_set_condition": 5,
}  # fmt: skip
"""The same for calls that make a condition, or what becomes one."""
_VARIABLES = frozenset({"reason", "event", "word"})

TYPES: Mapping[str, str] = {
    "Accepted": "ProvisioningRequest: it is being looked at.",
    "Available": "ClusterOperator: the operator does its work.",
    "BookingExpired": "ProvisioningRequest: no room is kept for it any longer.",
    "BootstrapReady": "MachinePool, v1beta1: there is data that its machines can start from.",
    "CapacityRevoked": "ProvisioningRequest: belongs to the API; nobody here sets it.",
    "ControlPlaneInitialized": "EKS Anywhere's Cluster: the first control plane machine came up, once and for all.",
    "ControlPlaneReady": "EKS Anywhere's Cluster: all control plane machines are there, up to date and well.",
    "DefaultCNIConfigured": "EKS Anywhere's Cluster: the CNI is there; others say so once there is a control plane.",
    "Degraded": "ClusterOperator: what the operator depends on has been away three times in a row.",
    "Failed": "ProvisioningRequest: it is not tried again.",
    "InfrastructureReady": "MachinePool, v1beta1: its infrastructure is there.",
    "InputsValid": "MachinePool: there only while False; something that the pool was given cannot be used.",
    "LimitedByQuotas": "CapacityBuffer: ResourceQuotas leave less than it asks for.",
    "Paused": "MachinePool: it, or its Cluster, is paused.",
    "Progressing": "ClusterOperator: something is being rolled out.",
    "Provisioned": "ProvisioningRequest: there is room for all its pods.",
    "Provisioning": "CapacityBuffer: room is being kept.",
    "Ready": "Several kinds: the sum of what the other conditions say.",
    "ReadyForProvisioning": "CapacityBuffer: how large it is to be is known.",
    "Reconciled": "CapacityQuota: its status says what its nodes hold.",
    "ReplicasReady": "MachinePool, v1beta1: as many Nodes are ready as are wanted.",
    "Synchronized": "MachineSet of Machine API: it and its twin in Cluster API are equal.",
    "UpToDate": "Machine of a MachinePool: it is what the pool says by now.",
    "Upgradeable": "ClusterOperator: the cluster may be upgraded.",
    "WorkersReady": "EKS Anywhere's Cluster: static groups are complete, autoscaled ones within their bounds.",
    "cluster-autoscaler.kubernetes.io/valid": "CapacityQuota: it can be enforced, and is.",
}
"""Types of conditions that are written, with a sentence each."""

OTHERS = frozenset(
    {
        "Deleting", "Pending", "Running", "Scaling", "ScalingDown", "ScalingUp",  # phases of MachinePools
        "Info", "Warning", "Error", "InPlace", "Reconciling",  # severities, a strategy, an action
        "ClusterAutoscaler", "MachineAutoscaler", "MachineSet", "ClusterOperator",  # kinds
        "ServiceMonitor", "PrometheusRule", "NetworkPolicy",
        "Template", "Random", "Migrating", "Enabled", "Disabled", "MachineDeployment",
        "MachineSetSyncController", "MachineSetSyncController-Annotations",  # who writes, in managedFields
        "MachineSetSyncController-SynchronizedCondition", "MachineSetMigrationController-AuthoritativeAPI",
    }
)  # fmt: skip
"""Words of `model` that are neither type nor reason."""


@functools.cache
def find() -> Mapping[str, frozenset[str]]:
    """Every reason, and the modules, without the package, in which it is said or declared."""
    found: dict[str, set[str]] = {}
    for name, module in source_analysis.modules().items():
        if _ROOMS.match(name):
            for word in {*_said(module, EVENTS), *_said(module, CONDITIONS), *_assigned(module), *_named(module)}:
                found.setdefault(word, set()).add(name.removeprefix("windlass."))
    return {word: frozenset(places) for word, places in found.items() if _is_reason(word, places)}


@functools.cache
def find_events() -> Mapping[str, frozenset[str]]:
    """Reasons that are told as events, as far as the code says it in place, and as what: Normal, Warning or unknown."""
    found: dict[str, set[str]] = {}
    for name, module in source_analysis.modules().items():
        if _ROOMS.match(name):
            for called, call in module.find_calls():
                if called in EVENTS and len(call.args) > EVENTS[called]:
                    kinds = set(source_analysis.resolve(module, call.args[EVENTS[called] - 1])) & {"Normal", "Warning"}
                    for word in source_analysis.resolve(module, call.args[EVENTS[called]]):
                        found.setdefault(word, set()).update(kinds)
    return {word: frozenset(kinds) for word, kinds in found.items()}


def _is_reason(word: str, places: set[str]) -> bool:
    """A type that is also said as a reason, as `UpToDate`, is a reason by where it is said."""
    is_named_only = all(place.endswith("model") for place in places)
    return not (is_named_only and (word in TYPES or word in OTHERS))


def _said(module: source_analysis.Module, where: Mapping[str, int]) -> Iterator[str]:
    for called, call in module.find_calls():
        if called in where and len(call.args) > where[called]:
            yield from _words(module, call.args[where[called]])


def _assigned(module: source_analysis.Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _VARIABLES:
                yield from _words(module, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name) and target.id in _VARIABLES:
                        yield from _words(module, value)


def _named(module: source_analysis.Module) -> Iterator[str]:
    if module.name.endswith(".model"):
        for value in module.values.values():
            yield from _words(module, value)


def _words(module: source_analysis.Module, expression: ast.expr) -> Iterator[str]:
    return (word for word in source_analysis.resolve(module, expression) if _WORD.fullmatch(word))
