"""Pod specs, of pods and of templates: their defaults and what they must have."""

from typing import Any

from windlass.apiserver import names, status
from windlass.apiserver.kinds.strategy import Errors
from windlass.apiserver.types.model import Json
from windlass.kube import quantity

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default(spec: Json) -> None:
    """What the API fills in wherever a pod spec stands."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_pod(spec: Json) -> None:
    """What it fills in for pods alone: requests from limits, ports of the host's network."""
    default(spec)
    spec.setdefault("enableServiceLinks", True)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            if limits := container["resources"].get("limits"):
                container["resources"]["requests"] = limits | container["resources"].get("requests", {})
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    port.setdefault("hostPort", port["containerPort"])


def _default_container(container: Json) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in _PROBES:
        if probe := container.get(name):
            _default_probe(probe)
    for variable in container.get("env") or ():
        if reference := (variable.get("valueFrom") or {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _default_probe(probe: Json) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    if get := probe.get("httpGet"):
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if source := volume.get(kind):
            source.setdefault("defaultMode", _MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def validate(spec: Json, at: str) -> Errors:
    """What every pod spec must have."""
    errors: Errors = []
    containers = spec.get("containers") or []
    if not containers:
        errors.append(status.required(f"{at}.containers"))
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            errors += _validate_container(container, f"{at}.{kind}[{i}]", seen)
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                said = "may not be set for init containers without restartPolicy=Always"
                errors += [
                    status.forbidden_field(f"{at}.{kind}[{i}].{name}", said)
                    for name in ("lifecycle", *_PROBES)
                    if name in container
                ]
    if (policy := spec.get("restartPolicy")) not in _RESTART_POLICIES:
        errors.append(status.unsupported(f"{at}.restartPolicy", policy, _RESTART_POLICIES))
    return errors


def _validate_container(container: Json, at: str, seen: set[str]) -> Errors:
    errors: Errors = []
    name = container.get("name", "")
    if not name:
        errors.append(status.required(f"{at}.name"))
    else:
        errors += [status.wrong(f"{at}.name", name, complaint) for complaint in names.check_label(name)]
        if name in seen:
            errors.append(status.duplicate(f"{at}.name", name))
        seen.add(name)
    if not container.get("image"):
        errors.append(status.required(f"{at}.image"))
    return errors + _validate_resources(container["resources"], f"{at}.resources")


def _validate_resources(resources: Json, at: str) -> Errors:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    errors: Errors = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if amount.startswith("-"):
                said = "must be greater than or equal to 0"
                errors.append(status.wrong(f"{at}.{kind}[{name}]", amount, said))
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and limit != amount and quantity.parse(amount) > quantity.parse(limit):
            said = f"must be less than or equal to {name} limit of {limit}"
            errors.append(status.wrong(f"{at}.requests", amount, said))
    return errors


def quality_of_service(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    is_guaranteed, has_any = True, False
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        requests, limits = container["resources"].get("requests") or {}, container["resources"].get("limits") or {}
        for name in ("cpu", "memory"):
            asked, limit = _amount(requests.get(name)), _amount(limits.get(name))
            has_any = has_any or asked > 0 or limit > 0
            is_guaranteed = is_guaranteed and limit > 0 and asked == limit
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _amount(text: Any) -> int:
    return 0 if text is None else quantity.parse(text).nano
