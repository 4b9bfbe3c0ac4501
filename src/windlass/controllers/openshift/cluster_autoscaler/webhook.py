"""ClusterAutoscaler validation, served as an admission webhook and repeated in each reconcile. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.controllers import admission
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings
from windlass.kube import time_formats

Json = Mapping[str, Any]

_DELAY_FIELDS = ("delayAfterAdd", "delayAfterDelete", "delayAfterFailure", "unneededTime")


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Errors and warnings; warnings do not reject the object."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not self.errors

    @property
    def text(self) -> str:
        return join_errors(self.errors)


def join_errors(troubles: Sequence[str]) -> str:
    """Join errors as an aggregate error prints them: several are in brackets."""
    return troubles[0] if len(troubles) == 1 else f"[{', '.join(troubles)}]"


def validate_cluster_autoscaler(name: str, spec: Json, allowed: str) -> ValidationResult:
    """Validate a ClusterAutoscaler. Only the name `allowed` is valid."""
    found = [] if name == allowed else [f'Name "{name}" is invalid, only "{allowed}" is allowed']
    limits = spec.get("resourceLimits") or {}
    found += _check_limits(limits)
    found += _check_scale_down(spec.get("scaleDown") or {})
    found += _check_duration("ScaleUp.NewPodScaleUpDelay", (spec.get("scaleUp") or {}).get("newPodScaleUpDelay"))
    if "Random" in (expanders := list(spec.get("expanders") or ()))[:-1]:
        found.append(f"Expanders: found {', '.join(expanders)}, expected Random to be the last: it always decides")
    warnings = [machine_apis.check_accelerator_value(gpu.get("type") or "") for gpu in limits.get("gpus") or ()]
    return ValidationResult(tuple(found), tuple(warning for warning in warnings if warning))


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
        yield f"{title}: {join_errors(found)}"


def _check_scale_down(given: Json) -> Iterator[str]:
    for name in _DELAY_FIELDS:
        yield from _check_duration(f"ScaleDown.{name[0].upper()}{name[1:]}", given.get(name))
    threshold = given.get("utilizationThreshold")
    if threshold is None:
        return
    value = _parse_float(threshold)
    if value is None:
        yield "ScaleDown.UtilizationThreshold must be a string representing float value."
    if value is None or not 0.0 < value < 1.0:
        yield "ScaleDown.UtilizationThreshold must be a value between 0 and 1."


def _check_duration(title: str, given: str | None) -> Iterator[str]:
    if given is None:
        return
    try:
        if time_formats.parse_duration(given) < 0:
            yield f"{title}: cannot use a negative time"
    except ValueError:
        yield f'{title}: time: invalid duration "{given}"'


def _parse_float(text: str) -> float | None:
    if not text or text.strip() != text or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def new_webhooks(settings: ClusterAutoscalerSettings) -> Mapping[str, admission.Webhook]:
    def validate(asked: admission.AdmissionRequest) -> admission.AdmissionResponse:
        name = (asked.object.get("metadata") or {}).get("name") or ""
        validation_result = validate_cluster_autoscaler(name, asked.object.get("spec") or {}, settings.name)
        return admission.AdmissionResponse(
            "" if validation_result.is_valid else validation_result.text, validation_result.warnings
        )

    return {"/validate-clusterautoscalers": validate}
