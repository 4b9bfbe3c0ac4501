"""Schema of a scenario file. Unknown fields are rejected; docs/scenarios.md describes the same in prose."""

from typing import Any, Literal

import msgspec

from windlass.kube import time_formats
from windlass.simulator.cluster.node_groups import DelayDistribution

Amounts = dict[str, str | int | float]


class Seconds(float):
    """A duration: `90`, `90s`, `1h30m`."""


class Timing:
    """How long something takes: a duration, or `{median: 90s, spread: 0.4, least: 30s}`."""

    def __init__(self, median_s: float, spread: float = 0.0, least_s: float = 0.0) -> None:
        self.delay = DelayDistribution(median_s, spread, least_s)


class _Timing(msgspec.Struct, forbid_unknown_fields=True):
    median: Seconds
    spread: float = 0.0
    least: Seconds = Seconds(0)


class _Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Everything that a file says is of this kind."""


class Taint(_Part, frozen=True, kw_only=True):
    """A taint of a group's nodes."""

    key: str
    """Which taint."""
    value: str = ""
    """Its value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What it does to pods that do not tolerate it."""


class Group(_Part, frozen=True, kw_only=True):
    """Machines that are alike. With several zones there is one node group in each, named `name-zone`."""

    name: str
    """By which the timeline and expectations name it."""
    capacity: Amounts
    """Of a machine: `cpu`, `memory`, and whatever else it has."""
    max: int
    """The largest size, in each zone."""
    min: int = 0
    """The smallest size, in each zone."""
    initial: int | None = None
    """How many are there when the story begins; as many as `min` says, if nothing is said."""
    zones: tuple[str, ...] = ("a",)
    """Where its machines are: one node group in each."""
    reserved: Amounts = {}
    """What of the capacity is not for pods."""
    price: float = 0.0
    """Of a machine, for an hour."""
    labels: dict[str, str] = {}
    """Of its nodes."""
    taints: tuple[Taint, ...] = ()
    """Of its nodes."""
    options: dict[str, str] = {}
    """Options of the group, as in annotations: `scaledownunneededtime: 5m`."""
    boot: Timing = Timing(60.0, 0.2, 20.0)
    """From the order of a machine to its node."""
    ready: Timing = Timing(5.0)
    """From a node to a node that is ready."""
    stop: Timing = Timing(10.0)
    """From the end of a drain to the end of the machine."""
    failure_rate: float = 0.0
    """The share of machines that never become nodes."""
    unready_rate: float = 0.0
    """The share of machines whose nodes never become ready."""
    lifetime: Timing | None = None
    """After which a machine vanishes; never, if nothing is said."""
    remediate_after: Seconds | None = None
    """A MachineHealthCheck replaces machines that are silent for so long; none does, if nothing is said."""


class Spread(_Part, frozen=True, kw_only=True):
    """How evenly pods lie over zones or nodes."""

    over: Literal["zone", "node"] = "zone"
    """What pods are spread over."""
    skew: int = 1
    """How far the fullest may be ahead of the emptiest."""
    is_hard: bool = msgspec.field(default=True, name="hard")
    """Whether a pod waits rather than break it."""


class Budget(_Part, frozen=True, kw_only=True):
    """A PodDisruptionBudget of the workload's pods."""

    min_available: int | str | None = None
    """A number, or a share such as `90%`."""
    max_unavailable: int | str | None = None
    """A number, or a share such as `10%`."""


class Toleration(_Part, frozen=True, kw_only=True):
    """A toleration; without a value, of the key."""

    key: str
    """Of the taint that is tolerated."""
    value: str = ""
    """Its value; any, if nothing is said."""
    effect: str = ""
    """Its effect; any, if nothing is said."""


class Daily(_Part, frozen=True, kw_only=True):
    """Replicas that follow the day between a low and a high."""

    low: int
    """Replicas at the lowest."""
    high: int
    """Replicas at the highest."""
    peak: Seconds = Seconds(14 * 3600)
    """The time of day of the high."""
    every: Seconds = Seconds(600)
    """How often replicas are changed."""
    noise: float = 0.0
    """The standard deviation of a factor on each value."""


class Arrivals(_Part, frozen=True, kw_only=True):
    """Jobs that come by themselves."""

    per_hour: float
    """How many come in an hour, on average."""
    until: Seconds | None = None
    """When they cease; never, if nothing is said."""


class Workload(_Part, frozen=True, kw_only=True):
    """Pods that are alike, and who keeps them."""

    name: str
    """By which the timeline names it."""
    kind: Literal["Deployment", "Job", "StatefulSet", "DaemonSet"] = "Deployment"
    """Who keeps its pods."""
    namespace: str = "default"
    """Where its pods are."""
    replicas: int = 0
    """Of a Job: how many pods each has, all at a time."""
    requests: Amounts = {}
    """Of each pod."""
    labels: dict[str, str] = {}
    """Of its pods, beside their own."""
    node_selector: dict[str, str] = {}
    """Of its pods."""
    tolerations: tuple[Toleration, ...] = ()
    """Of its pods."""
    priority: int | None = None
    """Makes a PriorityClass; pods below 0 are left out of waiting times."""
    never_preempts: bool = False
    """Its pods wait rather than send others away."""
    spread: tuple[Spread, ...] = ()
    """How evenly its pods lie."""
    apart: Literal["zone", "node"] | None = None
    """No two of them in one zone, or on one node."""
    budget: Budget | None = None
    """How many may be away at a time."""
    grace: Seconds = Seconds(30)
    """How long a pod may take to end, at most."""
    start: Timing = Timing(3.0)
    """From a node to a pod that is ready."""
    run: Timing | None = None
    """How long a Job's pod works."""
    stop: Timing = Timing(2.0)
    """How long a pod takes to end."""
    safe_to_evict: bool | None = None
    """The annotation of that name."""
    daily: Daily | None = None
    """Replicas that follow the day."""
    arrivals: Arrivals | None = None
    """Of a Job: they come by themselves."""
    provisioning: Literal["check-capacity", "best-effort-atomic-scale-up"] | None = None
    """Of a Job: it is handed in once a ProvisioningRequest of this class has room for all of its pods."""
    surge: int | str = "25%"
    """Of a Deployment's rollouts: pods beyond the replicas."""
    unavailable: int | str = "25%"
    """Of a Deployment's rollouts: pods that may be missing."""
    may_wait: bool = False
    """No group can take such a pod, and that is meant so."""


class Buffer(_Part, frozen=True, kw_only=True):
    """A CapacityBuffer: room kept spare for more pods of a workload. Of both sizes the larger counts."""

    workload: str
    """Which one."""
    replicas: int | None = None
    """How many more pods there is to be room for."""
    percentage: int | None = None
    """Of the workload's own replicas."""


class Step(_Part, frozen=True, kw_only=True, tag_field="do"):
    """Something that happens."""

    at: Seconds
    """When, from the beginning."""


class Scale(Step, frozen=True, kw_only=True, tag="scale"):
    """A workload gets another size."""

    workload: str
    """Which one."""
    to: int
    """Its new size."""


class Jobs(Step, frozen=True, kw_only=True, tag="jobs"):
    """Jobs are handed in, perhaps again and again."""

    workload: str
    """Which one."""
    count: int
    """How many Jobs at a time."""
    every: Seconds | None = None
    """How long until the next time."""
    times: int = 1
    """How often."""


class Rollout(Step, frozen=True, kw_only=True, tag="rollout"):
    """A Deployment gets a new version."""

    workload: str
    """Which one."""


class Remove(Step, frozen=True, kw_only=True, tag="remove"):
    """A workload is deleted."""

    workload: str
    """Which one."""


class Upgrade(Step, frozen=True, kw_only=True, tag="upgrade"):
    """All machines of a node group are replaced, one after the other."""

    group: str
    """Which one, or one zone's part of it."""


class Resize(Step, frozen=True, kw_only=True, tag="resize"):
    """Somebody else changes a node group's size."""

    group: str
    """Which one, or one zone's part of it."""
    to: int
    """Its new size."""


class Outage(Step, frozen=True, kw_only=True, tag="outage"):
    """A zone goes down."""

    zone: str
    """Which one."""
    lasts: Seconds = msgspec.field(name="for")
    """How long it lasts."""


class StockOut(Step, frozen=True, kw_only=True, tag="stock-out"):
    """The cloud has no machine of this kind."""

    group: str
    """Which one, or one zone's part of it."""
    lasts: Seconds = msgspec.field(name="for")
    """How long it lasts."""


class Vanish(Step, frozen=True, kw_only=True, tag="vanish"):
    """Machines are gone without a word."""

    group: str
    """Which one, or one zone's part of it."""
    count: int
    """How many machines."""


class Unready(Step, frozen=True, kw_only=True, tag="unready"):
    """Machines do not answer for a while."""

    group: str
    """Which one, or one zone's part of it."""
    count: int
    """How many machines."""
    lasts: Seconds = msgspec.field(name="for")
    """How long it lasts."""


class Trouble(Step, frozen=True, kw_only=True, tag="trouble"):
    """The API server fails some requests of the autoscaler, or takes its time."""

    lasts: Seconds = msgspec.field(name="for")
    """How long it lasts."""
    errors: float = 0.0
    """The share of requests that fail."""
    delay: Seconds = Seconds(0)
    """How much longer each takes."""


AnyStep = Scale | Jobs | Rollout | Remove | Upgrade | Resize | Outage | StockOut | Vanish | Unready | Trouble


class Expectation(_Part, frozen=True, kw_only=True):
    """What should come of it: a total, or a series within a time."""

    measure: str
    """Which total, or series: see [scenarios](../scenarios.md#expectations)."""
    at_least: float | None = None
    """The smallest value that is well."""
    at_most: float | None = None
    """The largest value that is well."""
    group: str | None = None
    """For `nodes`: of this node group; a group in several zones counts as a whole by its own name."""
    start: Seconds | None = msgspec.field(default=None, name="from")
    """From when on, of a series."""
    end: Seconds | None = msgspec.field(default=None, name="until")
    """Until when, of a series."""


class Scenario(_Part, frozen=True, kw_only=True):
    """A story."""

    name: str
    """What it is called."""
    story: str = ""
    """What it is about."""
    seed: int = 0
    """For everything that is left to chance."""
    duration: Seconds
    """How long it lasts."""
    begins: str = "2026-01-05T00:00:00Z"
    """The time of day at the beginning; daily curves follow it."""
    sample: Seconds = Seconds(60)
    """How often series are noted down."""
    flags: dict[str, str | int | float | bool] = {}
    """Of the autoscaler, without dashes."""
    groups: tuple[Group, ...]
    """The machines that can be had."""
    workloads: tuple[Workload, ...] = ()
    """The pods that want them."""
    buffers: tuple[Buffer, ...] = ()
    """Room that is kept spare."""
    timeline: tuple[AnyStep, ...] = ()
    """What happens."""
    expect: tuple[Expectation, ...] = ()
    """What should come of it."""


def format_flag(value: str | int | float | bool) -> str:
    """A flag's value as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def convert(plain: Any) -> Scenario:
    """A scenario from plain YAML values. Raises msgspec.ValidationError with the path of the first mistake."""
    return msgspec.convert(plain, Scenario, dec_hook=_decode_hook)


def _decode_hook(type_: type, value: Any) -> Any:
    if type_ is Seconds:
        return _parse_seconds(value)
    if type_ is Timing:
        if not isinstance(value, dict):
            return Timing(_parse_seconds(value))
        try:
            said = msgspec.convert(value, _Timing, dec_hook=_decode_hook)
        except msgspec.ValidationError as error:
            # As a plain error it gets the path of the whole; its own would be taken for that.
            raise ValueError(str(error).replace(" - at `$.", " in its `")) from None
        return Timing(said.median, said.spread, said.least)
    raise NotImplementedError


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
