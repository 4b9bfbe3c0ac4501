"""Validation of a ClusterAutoscaler. Served as a webhook, and asked again at every pass: the webhook may be down."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift import accelerators
from windlass.kube import durations

Json = Mapping[str, Any]

_DELAYS = ("delayAfterAdd", "delayAfterDelete", "delayAfterFailure", "unneededTime")


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found. Warnings keep nobody from anything."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not self.errors

    @property
    def text(self) -> str:
        return join(self.errors)


def join(troubles: Sequence[str]) -> str:
    """One as it is, several in brackets."""
    return troubles[0] if len(troubles) == 1 else f"[{', '.join(troubles)}]"


def check(name: str, spec: Json, allowed: str) -> Findings:
    """What is wrong with a ClusterAutoscaler, of which only the one that is called `allowed` counts."""
    found = [] if name == allowed else [f'Name "{name}" is invalid, only "{allowed}" is allowed']
    limits = spec.get("resourceLimits") or {}
    found += _check_limits(limits)
    found += _check_scale_down(spec.get("scaleDown") or {})
    found += _check_duration("ScaleUp.NewPodScaleUpDelay", (spec.get("scaleUp") or {}).get("newPodScaleUpDelay"))
    if "Random" in (expanders := list(spec.get("expanders") or ()))[:-1]:
        found.append(f"Expanders: found {', '.join(expanders)}, expected Random to be the last: it always decides")
    warnings = [accelerators.check(gpu.get("type") or "") for gpu in limits.get("gpus") or ()]
    return Findings(tuple(found), tuple(warning for warning in warnings if warning))


def _check_limits(limits: Json) -> Iterator[str]:
    if (limits.get("maxNodesTotal") or 0) < 0:
        yield "ResourceLimits.MaxNodesTotal must be greater than 0"
    for name, title in (("cores", "Cores"), ("memory", "Memory")):
        if limits.get(name) is not None:
            yield from _check_range(f"ResourceLimits.{title}", limits[name])
    for gpu in limits.get("gpus") or ():
        yield from _check_range(f"ResourceLimits.GPUS.{gpu.get('type') or ''}", gpu)


def _check_range(title: str, given: Json) -> Iterator[str]:
    least, most = given.get("min") or 0, given.get("max") or 0
    found = ["Min and Max must be greater than zero"] if least < 0 or most < 0 else []
    if most < least:
        found.append("Max must be greater than or equal to Min")
    if found:
        yield f"{title}: {join(found)}"


def _check_scale_down(given: Json) -> Iterator[str]:
    for name in _DELAYS:
        yield from _check_duration(f"ScaleDown.{name[0].upper()}{name[1:]}", given.get(name))
    threshold = given.get("utilizationThreshold")
    if threshold is None:
        return
    value = _read_float(threshold)
    if value is None:
        yield "ScaleDown.UtilizationThreshold must be a string representing float value."
    if value is None or not 0.0 < value < 1.0:
        yield "ScaleDown.UtilizationThreshold must be a value between 0 and 1."


def _check_duration(title: str, given: str | None) -> Iterator[str]:
    if given is None:
        return
    try:
        if durations.parse(given) < 0:
            yield f"{title}: cannot use a negative time"
    except ValueError:
        yield f'{title}: time: invalid duration "{given}"'


def _read_float(text: str) -> float | None:
    if not text or text.strip() != text or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
