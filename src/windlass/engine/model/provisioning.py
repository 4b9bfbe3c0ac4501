"""ProvisioningRequests and CapacityBuffer pods as values: API object, retry state, report of a loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.model import facts

CONSUME_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods: the request, of their own namespace, whose capacity they use."""

CONSUME_ANNOTATION_DEPRECATED = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
"""What it was called before."""

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
    """None where whoever wrote it did not say."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """So many pods of one template."""

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
        return sum(one.count for one in self.pod_sets)

    @property
    def lacks_templates(self) -> bool:
        return any(one.pod is None and not one.fault for one in self.pod_sets)

    @property
    def fault(self) -> str:
        """Why its pods cannot be made; empty if they can. The first words are the peer's."""
        missing = [one.template for one in self.pod_sets if one.pod is None and not one.fault]
        if missing:
            referenced = f"missing pod templates, {len(self.pod_sets)} pod templates were referenced"
            return f"{referenced}, {len(missing)} templates were missing: {','.join(missing)}"
        return "; ".join(f"pod template {one.template}: {one.fault}" for one in self.pod_sets if one.fault)


def consumed_request(annotations: Mapping[str, str]) -> str | None:
    """The request whose capacity a pod with these annotations uses, if any."""
    found = annotations.get(CONSUME_ANNOTATION)
    return annotations.get(CONSUME_ANNOTATION_DEPRECATED) if found is None else found


@dataclass(frozen=True, slots=True)
class ProvisioningMemory:
    """What one loop tells the next of requests, besides what stands in them."""

    delays: Mapping[str, float] = field(default_factory=dict)
    """By uid: how long to wait after the last try. Those not heard of for longest come first."""
    is_next: bool = False
    """Is it the requests' turn, should there be ordinary pods to help as well?"""


@dataclass(frozen=True, slots=True)
class ProvisioningReport:
    """What a loop did about requests, by their keys."""

    picked: str = ""
    """The request that was to be served, should it be the requests' turn."""
    booked: Mapping[str, int] = field(default_factory=dict)
    """Pods that room is kept for, of those that should have it."""
    answered: Mapping[str, str] = field(default_factory=dict)
    """The reason that was given."""
    helped: Mapping[str, int] = field(default_factory=dict)
    """Pods that triggered a scale-up, and those that no group takes."""
    remaining: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[int, ...] = ()
    """Rows of pending pods that trigger nothing, because they use what a request asked for."""


EMPTY_REPORT = ProvisioningReport()


@dataclass(frozen=True, slots=True)
class BufferPods:
    """Pods that a buffer keeps room for."""

    like: facts.Pod
    names: tuple[str, ...]
