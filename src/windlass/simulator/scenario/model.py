"""What a scenario file may say. Unknown fields are refused; see docs/scenarios.md for the same in prose."""

from typing import Any, Literal

import msgspec

from windlass.kube import durations
from windlass.simulator.world.chance import Delay

Amounts = dict[str, str | int | float]


class Seconds(float):
    """A duration: `90`, `90s`, `1h30m`."""


class Timing:
    """How long something takes: a duration, or `{median: 90s, spread: 0.4, least: 30s}`."""

    def __init__(self, median_s: float, spread: float = 0.0, least_s: float = 0.0) -> None:
        self.delay = Delay(median_s, spread, least_s)


class _Timing(msgspec.Struct, forbid_unknown_fields=True):
    median: Seconds
    spread: float = 0.0
    least: Seconds = Seconds(0)


class _Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Everything that a file says is of this kind."""


class Taint(_Part, frozen=True, kw_only=True):
    """A taint of a group's nodes."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Group(_Part, frozen=True, kw_only=True):
    """Machines that are alike. With several zones there is one node group in each, named `name-zone`."""

    name: str
    capacity: Amounts
    """Of a machine: `cpu`, `memory`, and whatever else it has."""
    max: int
    min: int = 0
    initial: int | None = None
    """How many are there when the story begins; as many as `min` says, if nothing is said."""
    zones: tuple[str, ...] = ("a",)
    reserved: Amounts = {}
    """What of the capacity is not for pods."""
    price: float = 0.0
    """Of a machine, for an hour."""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    options: dict[str, str] = {}
    """Options of the group, as in annotations: `scaledownunneededtime: 5m`."""
    boot: Timing = Timing(60.0, 0.2, 20.0)
    ready: Timing = Timing(5.0)
    stop: Timing = Timing(10.0)
    failure_rate: float = 0.0
    unready_rate: float = 0.0
    lifetime: Timing | None = None
    remediate_after: Seconds | None = None


class Spread(_Part, frozen=True, kw_only=True):
    """How evenly pods lie over zones or nodes."""

    over: Literal["zone", "node"] = "zone"
    skew: int = 1
    is_hard: bool = msgspec.field(default=True, name="hard")


class Budget(_Part, frozen=True, kw_only=True):
    """A PodDisruptionBudget of the workload's pods."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class Toleration(_Part, frozen=True, kw_only=True):
    """A toleration; without a value, of the key."""

    key: str
    value: str = ""
    effect: str = ""


class Daily(_Part, frozen=True, kw_only=True):
    """Replicas that follow the day between a low and a high."""

    low: int
    high: int
    peak: Seconds = Seconds(14 * 3600)
    """The time of day of the high."""
    every: Seconds = Seconds(600)
    """How often replicas are changed."""
    noise: float = 0.0
    """The standard deviation of a factor on each value."""


class Arrivals(_Part, frozen=True, kw_only=True):
    """Jobs that come by themselves."""

    per_hour: float
    until: Seconds | None = None


class Workload(_Part, frozen=True, kw_only=True):
    """Pods that are alike, and who keeps them."""

    name: str
    kind: Literal["Deployment", "Job", "StatefulSet", "DaemonSet"] = "Deployment"
    namespace: str = "default"
    replicas: int = 0
    """Of a Job: how many pods each has, all at a time."""
    requests: Amounts = {}
    labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    priority: int | None = None
    never_preempts: bool = False
    spread: tuple[Spread, ...] = ()
    apart: Literal["zone", "node"] | None = None
    """No two of them in one zone, or on one node."""
    budget: Budget | None = None
    grace: Seconds = Seconds(30)
    start: Timing = Timing(3.0)
    run: Timing | None = None
    """How long a Job's pod works."""
    stop: Timing = Timing(2.0)
    safe_to_evict: bool | None = None
    daily: Daily | None = None
    arrivals: Arrivals | None = None
    surge: int | str = "25%"
    unavailable: int | str = "25%"
    may_wait: bool = False
    """No group can take such a pod, and that is meant so."""


class Step(_Part, frozen=True, kw_only=True, tag_field="do"):
    """Something that happens."""

    at: Seconds


class Scale(Step, frozen=True, kw_only=True, tag="scale"):
    """A workload gets another size."""

    workload: str
    to: int


class Jobs(Step, frozen=True, kw_only=True, tag="jobs"):
    """Jobs are handed in, perhaps again and again."""

    workload: str
    count: int
    every: Seconds | None = None
    times: int = 1


class Rollout(Step, frozen=True, kw_only=True, tag="rollout"):
    """A Deployment gets a new version."""

    workload: str


class Remove(Step, frozen=True, kw_only=True, tag="remove"):
    """A workload is deleted."""

    workload: str


class Upgrade(Step, frozen=True, kw_only=True, tag="upgrade"):
    """All machines of a node group are replaced, one after the other."""

    group: str


class Resize(Step, frozen=True, kw_only=True, tag="resize"):
    """Somebody else changes a node group's size."""

    group: str
    to: int


class Outage(Step, frozen=True, kw_only=True, tag="outage"):
    """A zone goes down."""

    zone: str
    lasts: Seconds = msgspec.field(name="for")


class StockOut(Step, frozen=True, kw_only=True, tag="stock-out"):
    """The cloud has no machine of this kind."""

    group: str
    lasts: Seconds = msgspec.field(name="for")


class Vanish(Step, frozen=True, kw_only=True, tag="vanish"):
    """Machines are gone without a word."""

    group: str
    count: int


class Unready(Step, frozen=True, kw_only=True, tag="unready"):
    """Machines do not answer for a while."""

    group: str
    count: int
    lasts: Seconds = msgspec.field(name="for")


class Trouble(Step, frozen=True, kw_only=True, tag="trouble"):
    """The API server fails some requests of the autoscaler, or takes its time."""

    lasts: Seconds = msgspec.field(name="for")
    errors: float = 0.0
    delay: Seconds = Seconds(0)


AnyStep = Scale | Jobs | Rollout | Remove | Upgrade | Resize | Outage | StockOut | Vanish | Unready | Trouble


class Expectation(_Part, frozen=True, kw_only=True):
    """What should come of it: a total, or a series within a time."""

    measure: str
    at_least: float | None = None
    at_most: float | None = None
    group: str | None = None
    """For `nodes`: of this node group; a group in several zones counts as a whole by its own name."""
    start: Seconds | None = msgspec.field(default=None, name="from")
    end: Seconds | None = msgspec.field(default=None, name="until")


class Scenario(_Part, frozen=True, kw_only=True):
    """A story."""

    name: str
    story: str = ""
    seed: int = 0
    duration: Seconds
    begins: str = "2026-01-05T00:00:00Z"
    sample: Seconds = Seconds(60)
    """How often series are noted down."""
    flags: dict[str, str | int | float | bool] = {}
    """Of the autoscaler, without dashes."""
    groups: tuple[Group, ...]
    workloads: tuple[Workload, ...] = ()
    timeline: tuple[AnyStep, ...] = ()
    expect: tuple[Expectation, ...] = ()


def convert(plain: Any) -> Scenario:
    """A scenario from plain YAML values. Raises msgspec.ValidationError with the path of the first mistake."""
    return msgspec.convert(plain, Scenario, dec_hook=_read_own)


def _read_own(type_: type, value: Any) -> Any:
    if type_ is Seconds:
        return _read_seconds(value)
    if type_ is Timing:
        if not isinstance(value, dict):
            return Timing(_read_seconds(value))
        try:
            said = msgspec.convert(value, _Timing, dec_hook=_read_own)
        except msgspec.ValidationError as error:
            # As a plain error it gets the path of the whole; its own would be taken for that.
            raise ValueError(str(error).replace(" - at `$.", " in its `")) from None
        return Timing(said.median, said.spread, said.least)
    raise NotImplementedError


def _read_seconds(value: Any) -> Seconds:
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        try:
            seconds = durations.parse(value)
        except ValueError:
            raise ValueError(f"found {value!r}, accepted is a duration like 90s or 1h30m") from None
    else:
        raise ValueError(f"found {value!r}, accepted is a duration like 90s or 1h30m")
    if seconds < 0:
        raise ValueError(f"found {value!r}, accepted is a duration of zero or more")
    return Seconds(seconds)
