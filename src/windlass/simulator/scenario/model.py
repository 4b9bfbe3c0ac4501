"""Schema of a scenario file. Unknown fields are rejected; docs/scenarios.md describes the same in prose."""

import math
from typing import Any, Literal

import msgspec

from windlass.kube import time_formats
from windlass.simulator.cluster.node_groups import DelayDistribution

Amounts = dict[str, str | int | float]


class Seconds(float):
    """A duration: `90`, `90s`, `1h30m`."""


class Timing:
    """A delay: a duration, a distribution `{median: 90s, spread: 0.4, least: 30s}`, or observed ones in their order
    `[62s, 71s, never]`, which begin again after the last.
    """

    def __init__(
        self, median_s: float, spread: float = 0.0, least_s: float = 0.0, observed_s: tuple[float, ...] = ()
    ) -> None:
        self.delay = DelayDistribution(median_s, spread, least_s, observed_s)


class _Timing(msgspec.Struct, forbid_unknown_fields=True):
    median: Seconds
    spread: float = 0.0
    least: Seconds = Seconds(0)


class _Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of all objects in a scenario file."""


class Taint(_Part, frozen=True, kw_only=True):
    """A taint of a group's nodes."""

    key: str
    """Which taint."""
    value: str = ""
    """Its value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """Effect on pods that do not tolerate it."""


class Group(_Part, frozen=True, kw_only=True):
    """A node group. With several zones there is one node group in each, named `name-zone`."""

    name: str
    """Name in the timeline and in expectations."""
    capacity: Amounts
    """Capacity of a machine: `cpu`, `memory` and other resources."""
    max: int
    """Maximum size in each zone."""
    min: int = 0
    """Minimum size in each zone."""
    initial: int | None = None
    """Number of machines at the beginning; `min` by default."""
    zones: tuple[str, ...] = ("a",)
    """Zones, with one node group in each."""
    reserved: Amounts = {}
    """Reserved resources: capacity less allocatable."""
    price: float = 0.0
    """Price of a machine per hour."""
    labels: dict[str, str] = {}
    """Of its nodes."""
    taints: tuple[Taint, ...] = ()
    """Of its nodes."""
    options: dict[str, str] = {}
    """Autoscaling options of the group, as in annotations: `scaledownunneededtime: 5m`."""
    boot: Timing = Timing(60.0, 0.2, 20.0)
    """From the request for a machine to its node. In a list, `never` is a machine that registers none."""
    ready: Timing = Timing(5.0)
    """From the node's registration to its readiness."""
    stop: Timing = Timing(10.0)
    """From the end of a drain to the machine's termination."""
    failure_rate: float = 0.0
    """Share of machines that never register a node."""
    unready_rate: float = 0.0
    """Share of machines whose node never becomes ready."""
    lifetime: Timing | None = None
    """Time after which a machine vanishes; never by default."""
    remediate_after: Seconds | None = None
    """Timeout of a MachineHealthCheck for unready nodes; no MachineHealthCheck by default."""


class Spread(_Part, frozen=True, kw_only=True):
    """A topology spread constraint."""

    over: Literal["zone", "node"] = "zone"
    """Topology of the domains."""
    skew: int = 1
    """Maximum skew between domains."""
    is_hard: bool = msgspec.field(default=True, name="hard")
    """Is the constraint hard (DoNotSchedule)?"""


class Budget(_Part, frozen=True, kw_only=True):
    """A PodDisruptionBudget of the workload's pods."""

    min_available: int | str | None = None
    """Number of pods, or a percentage such as `90%`."""
    max_unavailable: int | str | None = None
    """Number of pods, or a percentage such as `10%`."""


class Toleration(_Part, frozen=True, kw_only=True):
    """A toleration; without a value, operator Exists."""

    key: str
    """Key of the tolerated taint."""
    value: str = ""
    """Its value; any by default."""
    effect: str = ""
    """Its effect; any by default."""


class Daily(_Part, frozen=True, kw_only=True):
    """Replicas that follow a daily curve between a low and a high."""

    low: int
    """Lowest number of replicas."""
    high: int
    """Highest number of replicas."""
    peak: Seconds = Seconds(14 * 3600)
    """Time of day of the high."""
    every: Seconds = Seconds(600)
    """Interval of changes."""
    noise: float = 0.0
    """The standard deviation of a factor on each value."""


class Arrivals(_Part, frozen=True, kw_only=True):
    """Random arrivals of Jobs."""

    per_hour: float
    """Mean number of arrivals per hour."""
    until: Seconds | None = None
    """Time of the last arrival; no end by default."""


class Workload(_Part, frozen=True, kw_only=True):
    """A workload: equal pods with their controller."""

    name: str
    """Name in the timeline."""
    kind: Literal["Deployment", "Job", "StatefulSet", "DaemonSet"] = "Deployment"
    """Kind of the controller."""
    namespace: str = "default"
    """Namespace of its pods."""
    replicas: int = 0
    """Job: pods of each Job, all in parallel."""
    requests: Amounts = {}
    """Requests of each pod."""
    labels: dict[str, str] = {}
    """Labels of its pods, besides their own."""
    node_selector: dict[str, str] = {}
    """Of its pods."""
    tolerations: tuple[Toleration, ...] = ()
    """Of its pods."""
    priority: int | None = None
    """Creates a PriorityClass; pods below 0 are excluded from pending times."""
    never_preempts: bool = False
    """Its pods never preempt others."""
    spread: tuple[Spread, ...] = ()
    """Topology spread constraints of its pods."""
    apart: Literal["zone", "node"] | None = None
    """Anti-affinity: no two of its pods in one zone, or on one node."""
    budget: Budget | None = None
    """A PodDisruptionBudget of its pods."""
    grace: Seconds = Seconds(30)
    """terminationGracePeriodSeconds."""
    start: Timing = Timing(3.0)
    """From the binding of a pod to its readiness."""
    run: Timing | None = None
    """Job: run time of a pod."""
    stop: Timing = Timing(2.0)
    """Time that a pod takes to terminate."""
    safe_to_evict: bool | None = None
    """Value of the safe-to-evict annotation."""
    daily: Daily | None = None
    """Replicas that follow a daily curve."""
    arrivals: Arrivals | None = None
    """Job: random arrivals."""
    provisioning: Literal["check-capacity", "best-effort-atomic-scale-up"] | None = None
    """Job: created once a ProvisioningRequest of this class has capacity for all of its pods."""
    surge: int | str = "25%"
    """Deployment: maxSurge of rollouts."""
    unavailable: int | str = "25%"
    """Deployment: maxUnavailable of rollouts."""
    may_wait: bool = False
    """Accept pods that fit no group."""


class Buffer(_Part, frozen=True, kw_only=True):
    """A CapacityBuffer: spare capacity for more pods of a workload. The larger of both sizes counts."""

    workload: str
    """Which one."""
    replicas: int | None = None
    """Number of additional pods."""
    percentage: int | None = None
    """Percentage of the workload's replicas."""


class Step(_Part, frozen=True, kw_only=True, tag_field="do"):
    """One step of the timeline."""

    at: Seconds
    """Time since the beginning."""


class Scale(Step, frozen=True, kw_only=True, tag="scale"):
    """Scale a workload."""

    workload: str
    """Which one."""
    to: int
    """New size."""


class Jobs(Step, frozen=True, kw_only=True, tag="jobs"):
    """Create Jobs, once or repeatedly."""

    workload: str
    """Which one."""
    count: int
    """Number of Jobs at a time."""
    every: Seconds | None = None
    """Interval of repetitions."""
    times: int = 1
    """How often."""
    pods: int | None = None
    """Pods of each Job; the workload's replicas by default."""
    run: Timing | None = None
    """Run time of their pods; the workload's by default."""


class Rollout(Step, frozen=True, kw_only=True, tag="rollout"):
    """Roll out a new version of a Deployment."""

    workload: str
    """Which one."""


class Remove(Step, frozen=True, kw_only=True, tag="remove"):
    """Delete a workload."""

    workload: str
    """Which one."""


class Upgrade(Step, frozen=True, kw_only=True, tag="upgrade"):
    """Replace all machines of a node group, one after the other."""

    group: str
    """Name of the group, or of its node group in one zone."""


class Resize(Step, frozen=True, kw_only=True, tag="resize"):
    """Change a node group's size, as another client would."""

    group: str
    """Name of the group, or of its node group in one zone."""
    to: int
    """New size."""


class Outage(Step, frozen=True, kw_only=True, tag="outage"):
    """Outage of a zone."""

    zone: str
    """Which one."""
    lasts: Seconds = msgspec.field(name="for")
    """Duration."""


class StockOut(Step, frozen=True, kw_only=True, tag="stock-out"):
    """The cloud has no capacity for a group."""

    group: str
    """Name of the group, or of its node group in one zone."""
    lasts: Seconds = msgspec.field(name="for")
    """Duration."""


class Vanish(Step, frozen=True, kw_only=True, tag="vanish"):
    """Instances vanish without notice."""

    group: str
    """Name of the group, or of its node group in one zone."""
    count: int
    """Number of machines."""


class Unready(Step, frozen=True, kw_only=True, tag="unready"):
    """Machines are unreachable for a while."""

    group: str
    """Name of the group, or of its node group in one zone."""
    count: int
    """Number of machines."""
    lasts: Seconds = msgspec.field(name="for")
    """Duration."""


class Trouble(Step, frozen=True, kw_only=True, tag="trouble"):
    """The API server fails or delays requests of the autoscaler."""

    lasts: Seconds = msgspec.field(name="for")
    """Duration."""
    errors: float = 0.0
    """Share of requests that fail."""
    delay: Seconds = Seconds(0)
    """Additional delay of each request."""


AnyStep = Scale | Jobs | Rollout | Remove | Upgrade | Resize | Outage | StockOut | Vanish | Unready | Trouble


class Expectation(_Part, frozen=True, kw_only=True):
    """An expectation of a total, or of a series within a time."""

    measure: str
    """Name of the total or series: see [scenarios](../scenarios.md#expectations)."""
    at_least: float | None = None
    """Smallest accepted value."""
    at_most: float | None = None
    """Largest accepted value."""
    group: str | None = None
    """For `nodes`: of this node group; a group in several zones counts as a whole by its own name."""
    start: Seconds | None = msgspec.field(default=None, name="from")
    """Series: beginning of the time."""
    end: Seconds | None = msgspec.field(default=None, name="until")
    """Series: end of the time."""


class Scenario(_Part, frozen=True, kw_only=True):
    """A story."""

    name: str
    """Name of the scenario."""
    story: str = ""
    """Description of the scenario."""
    seed: int = 0
    """Seed of all random numbers."""
    duration: Seconds
    """Duration."""
    begins: str = "2026-01-05T00:00:00Z"
    """Date and time at the beginning, for daily curves."""
    sample: Seconds = Seconds(60)
    """Sampling interval of series."""
    flags: dict[str, str | int | float | bool] = {}
    """Flags of the autoscaler, without dashes."""
    groups: tuple[Group, ...]
    """Node groups."""
    workloads: tuple[Workload, ...] = ()
    """Workloads."""
    buffers: tuple[Buffer, ...] = ()
    """CapacityBuffers."""
    timeline: tuple[AnyStep, ...] = ()
    """What happens."""
    expect: tuple[Expectation, ...] = ()
    """Expectations."""


def format_flag(value: str | int | float | bool) -> str:
    """A flag's value in command line syntax."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def convert(plain: Any) -> Scenario:
    """A scenario from plain YAML values. Raises msgspec.ValidationError with the path of the first mistake."""
    return msgspec.convert(plain, Scenario, dec_hook=_decode_hook)


def _decode_hook(type_: type, value: Any) -> Any:
    if type_ is Seconds:
        return _parse_seconds(value)
    if type_ is Timing:
        if isinstance(value, list):
            if not value:
                raise ValueError("found no duration, accepted is one or more")
            return Timing(0.0, observed_s=tuple(_parse_observed(item) for item in value))
        if not isinstance(value, dict):
            return Timing(_parse_seconds(value))
        try:
            timing = msgspec.convert(value, _Timing, dec_hook=_decode_hook)
        except msgspec.ValidationError as error:
            # A plain error gets the path of the whole value; a path of its own would be mistaken for it.
            raise ValueError(str(error).replace(" - at `$.", " in its `")) from None
        return Timing(timing.median, timing.spread, timing.least)
    raise NotImplementedError


NEVER = "never"
"""In a list of observed durations: what never came, such as a machine that registered no node."""


def _parse_observed(value: Any) -> float:
    return math.inf if value == NEVER else float(_parse_seconds(value))


def _parse_seconds(value: Any) -> Seconds:
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        try:
            seconds = time_formats.parse_duration(value)
        except ValueError:
            raise ValueError(f"found {value!r}, accepted is a duration like 90s or 1h30m") from None
    else:
        raise ValueError(f"found {value!r}, accepted is a duration like 90s or 1h30m")
    if seconds < 0:
        raise ValueError(f"found {value!r}, accepted is a duration of zero or more")
    return Seconds(seconds)
