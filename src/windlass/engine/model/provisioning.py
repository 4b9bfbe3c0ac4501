"""ProvisioningRequests and CapacityBuffer pods as values: API object, retry state, report of a loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.model import facts

CONSUME_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods: the request, of their own namespace, whose capacity they use."""

CONSUME_ANNOTATION_DEPRECATED = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
"""The deprecated name of the annotation."""

CLASS_ANNOTATION = "autoscaling.x-k8s.io/provisioning-class-name"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a request, as it is written."""

    type: str
    status: str
    reason: str
    message: str
    since_s: float
    observed_generation: int | None = None
    """None if the writer did not set it."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """A number of pods of one PodTemplate."""

    template: str
    count: int
    pod: facts.Pod | None = None
    """Such a pod, as the request would own it; None while there is no such template."""
    fault: str = ""
    """Why the template cannot be used, where it is there and cannot."""


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """A ProvisioningRequest."""

    namespace: str
    name: str
    uid: str
    class_name: str
    pod_sets: tuple[PodSet, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    generation: int = 0
    created_s: float = 0.0
    version: str = ""
    """Of the object: what is decided about it holds for this version only."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pod_count(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)

    @property
    def lacks_templates(self) -> bool:
        return any(pod_set.pod is None and not pod_set.fault for pod_set in self.pod_sets)

    @property
    def fault(self) -> str:
        """Why its pods cannot be created; empty if they can. The message begins as Cluster Autoscaler's."""
        missing = [pod_set.template for pod_set in self.pod_sets if pod_set.pod is None and not pod_set.fault]
        if missing:
            referenced = f"missing pod templates, {len(self.pod_sets)} pod templates were referenced"
            return f"{referenced}, {len(missing)} templates were missing: {','.join(missing)}"
        return "; ".join(
            f"pod template {pod_set.template}: {pod_set.fault}" for pod_set in self.pod_sets if pod_set.fault
        )


def consumed_request(annotations: Mapping[str, str]) -> str | None:
    """The request whose capacity a pod with these annotations uses, if any."""
    annotation = annotations.get(CONSUME_ANNOTATION)
    return annotations.get(CONSUME_ANNOTATION_DEPRECATED) if annotation is None else annotation


@dataclass(frozen=True, slots=True)
class ProvisioningMemory:
    """State of ProvisioningRequests between loops that the objects do not hold."""

    delays: Mapping[str, float] = field(default_factory=dict)
    """By uid: the retry delay after the last attempt. Least recently used entries first."""
    is_next: bool = False
    """Whether requests go before ordinary pods in the next loop."""


@dataclass(frozen=True, slots=True)
class ProvisioningReport:
    """What a loop did with ProvisioningRequests, by key."""

    picked: str = ""
    """The request to process in a loop that serves requests."""
    booked: Mapping[str, int] = field(default_factory=dict)
    """Number of pods with booked capacity."""
    answered: Mapping[str, str] = field(default_factory=dict)
    """The reason of the condition that was set."""
    helped: Mapping[str, int] = field(default_factory=dict)
    """Pods that triggered a scale-up, and those that no group takes."""
    remaining: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[int, ...] = ()
    """Rows of pending pods that trigger nothing, because they use what a request asked for."""


EMPTY_REPORT = ProvisioningReport()


@dataclass(frozen=True, slots=True)
class BufferPods:
    """Placeholder pods of a CapacityBuffer."""

    like: facts.Pod
    names: tuple[str, ...]
