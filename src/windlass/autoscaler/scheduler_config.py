"""A scheduler's configuration file (`--scheduler-config-file`): what its one profile changes about the filters.

Read as strictly as kube-scheduler reads it, and more so: a plugin that is unknown is refused even where it is only
disabled, because a misspelt name would silently leave a filter on. What does not concern filters (scoring, weights,
the order of plugins, extenders, leader election) is checked for its spelling and passed over, as Cluster Autoscaler
does. What concerns filters but could be honoured only by half is refused.
"""

from dataclasses import dataclass
from pathlib import Path

from windlass import errors
from windlass.autoscaler import scheduler_arguments, scheduler_plugins
from windlass.engine.predicates import config
from windlass.kube import fields, manifests, models
from windlass.kube.models import kubescheduler

_PROFILE = "profiles[0]"


@dataclass(frozen=True, slots=True)
class Profile:
    """The pods that the profile is for, by `spec.schedulerName`, and how they are filtered."""

    scheduler_name: str = "default-scheduler"
    filters: config.FilterConfig = config.DEFAULT


DEFAULT = Profile()


def load(path: Path) -> Profile:
    """The profile in a file. InvalidInput if it cannot be used: where, what was found, what is accepted."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise errors.InvalidInput(f"{path}: {error.strerror}") from error
    return read(text, str(path))


def read(text: bytes | str, source: str) -> Profile:
    """The profile that a text spells, in YAML or JSON; `source` names it in errors."""
    documents = list(manifests.read(text, source, strict=True))
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise errors.InvalidInput(f"{source}: expected one {kubescheduler.KIND}, found {len(documents)} documents")
    try:
        found = manifests.decode(models.as_json(documents[0]), kubescheduler.KubeSchedulerConfiguration)
        _check(found)
        return _read_profile(found.profiles[0] if found.profiles else kubescheduler.Profile())
    except fields.InvalidField as error:
        raise errors.InvalidInput(f"{source}: {error}") from error
    except errors.InvalidObject as error:
        raise errors.InvalidInput(f"{source}: found {error.found!r}, expected {error.accepted}") from error


def _check(found: kubescheduler.KubeSchedulerConfiguration) -> None:
    """What kube-scheduler insists on, whatever the profile says."""
    fields.choose(found.api_version, (kubescheduler.API_VERSION,), "apiVersion")
    fields.choose(found.kind, (kubescheduler.KIND,), "kind")
    if found.profiles and len(found.profiles) > 1:
        names = [profile.scheduler_name for profile in found.profiles]
        raise fields.InvalidField("profiles", names, "exactly one profile")
    first_s = 1 if found.pod_initial_backoff_seconds is None else found.pod_initial_backoff_seconds
    last_s = 10 if found.pod_max_backoff_seconds is None else found.pod_max_backoff_seconds
    burst = found.client_connection.burst if found.client_connection else None
    _check_range(found.parallelism, 1, None, "parallelism")
    _check_range(found.percentage_of_nodes_to_score, 0, 100, "percentageOfNodesToScore")
    _check_range(first_s, 1, None, "podInitialBackoffSeconds")
    _check_range(last_s, first_s, None, "podMaxBackoffSeconds")
    _check_range(burst, 0, None, "clientConnection.burst")


def _check_range(number: int | None, low: int, high: int | None, at: str) -> None:
    if number is not None and (number < low or (high is not None and number > high)):
        raise fields.InvalidField(at, number, f"{low} or more" if high is None else f"{low} to {high}")


def _read_profile(profile: kubescheduler.Profile) -> Profile:
    if profile.scheduler_name == "":
        raise fields.InvalidField(f"{_PROFILE}.schedulerName", "", "the name that pods ask for in spec.schedulerName")
    _check_range(profile.percentage_of_nodes_to_score, 0, 100, f"{_PROFILE}.percentageOfNodesToScore")
    disabled = scheduler_plugins.read_disabled(profile.plugins or kubescheduler.Plugins(), f"{_PROFILE}.plugins")
    filters = scheduler_arguments.read(profile.plugin_config or (), f"{_PROFILE}.pluginConfig", disabled)
    return Profile(DEFAULT.scheduler_name if profile.scheduler_name is None else profile.scheduler_name, filters)
