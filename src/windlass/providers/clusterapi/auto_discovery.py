"""Node group auto-discovery specs, and the configuration of the Cluster API provider.

    clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>,…

A group must match everything in a spec, and at least one of several specs. Each has its own namespace.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass import errors, selectors
from windlass.engine.model.deviations import Deviations
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import group_annotations

DISCOVERER = "clusterapi"

ACCEPTED_SPEC = "clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>, each part optional"


@dataclass(frozen=True, slots=True)
class DiscoverySpec:
    """A discovery spec; empty fields match everything."""

    namespace: str = ""
    cluster_name: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def matches(self, namespace: str, cluster_name: str, labels: Mapping[str, str]) -> bool:
        return (
            self.namespace in ("", namespace)
            and self.cluster_name in ("", cluster_name)
            and all(labels.get(key) == value for key, value in self.labels)
        )


def parse_discovery_spec(text: str) -> DiscoverySpec:
    """Parse one --node-group-auto-discovery value. InvalidInput if it is malformed."""
    discoverer, colon, rest = text.partition(":")
    if not colon or ":" in rest or discoverer != DISCOVERER:
        raise _invalid_spec(text, text)
    named = {"namespace": "", "clusterName": ""}
    labels: list[tuple[str, str]] = []
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or "=" in value:
            raise _invalid_spec(text, part)
        if key in named:
            named[key] = value
        else:
            labels.append(_read_label(text, key, value))
    return DiscoverySpec(named["namespace"], named["clusterName"], tuple(labels))


def find_namespaces(specs: Iterable[DiscoverySpec]) -> tuple[str, ...]:
    """Namespaces to watch; an empty one stands for all and is then the only one."""
    namespaces = sorted({spec.namespace for spec in specs})
    return ("",) if not namespaces or "" in namespaces else tuple(namespaces)


def find_cluster_name(spec: clusterapi.MachineGroupSpec | None, labels: Mapping[str, str], label: str) -> str:
    """The cluster name of an object, from its spec or else its label."""
    if spec is not None and spec.cluster_name is not None:
        return spec.cluster_name
    return labels.get(label, "")


def _read_label(text: str, key: str, value: str) -> tuple[str, str]:
    try:
        selectors.parse_label_selector(selectors.UnparsedLabelSelector({key: value}))
    except selectors.InvalidLabelSelector as error:
        raise errors.InvalidInput(f"--node-group-auto-discovery={text}: {error}") from error
    return key, value


def _invalid_spec(text: str, part: str) -> errors.InvalidInput:
    return errors.InvalidInput(f"--node-group-auto-discovery={text}: found {part!r}, expected {ACCEPTED_SPEC}")


ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")

DEFAULT_ARCHITECTURE = "amd64"

MIRRORED_GROUP = "machine.openshift.io"
"""API group of OpenShift's MachineSets."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Config:
    """Configuration of the Cluster API provider."""

    specs: tuple[DiscoverySpec, ...] = ()
    """Groups must match one of these; without any, all match."""
    group: str = group_annotations.DEFAULT_GROUP
    """API group of Machines, and prefix of most annotations."""
    version: str = ""
    """API version; empty: the server's preferred one."""
    default_architecture: str = DEFAULT_ARCHITECTURE
    """Default architecture of new nodes."""
    mirrored_namespace: str = ""
    """OpenShift's namespace of MachineSets (machine.openshift.io). A paused MachineSet whose counterpart there is
    authoritative stays a node group: the controller that syncs the two copies its size. Empty: paused groups are
    skipped."""
    respect_machine_drain_rules: bool = True
    """Follow MachineDrainRules, and watch Clusters for their clusterSelectors."""


def read_config(specs: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Config:
    """Configuration from --node-group-auto-discovery and CAPI_* variables. InvalidInput if a spec is malformed.

    CAPI_NAMESPACE is the default namespace of specs, which OpenShift's operator sets.
    """
    variables = environment or {}
    namespace = variables.get("CAPI_NAMESPACE") or ""
    return Config(
        specs=tuple(parse_discovery_spec(spec) for spec in specs) or ((DiscoverySpec(namespace),) if namespace else ()),
        group=variables.get("CAPI_GROUP") or group_annotations.DEFAULT_GROUP,
        version=variables.get("CAPI_VERSION") or "",
        default_architecture=read_architecture(variables.get("CAPI_SCALE_ZERO_DEFAULT_ARCH", "")),
        mirrored_namespace=variables.get("CAPI_MIRRORED_NAMESPACE") or "",
    )


def apply_deviations(config: Config, deviations: Deviations) -> Config:
    """The configuration with these deviations applied."""
    return replace(config, respect_machine_drain_rules=deviations.respect_machine_drain_rules)


def read_architecture(text: str) -> str:
    """A known architecture; DEFAULT_ARCHITECTURE for any other text."""
    if text in ARCHITECTURES:
        return text
    if text:
        _log.error(
            "invalid CAPI_SCALE_ZERO_DEFAULT_ARCH, using the default: value=%r accepted=%s default=%s",
            text,
            ",".join(ARCHITECTURES),
            DEFAULT_ARCHITECTURE,
        )
    return DEFAULT_ARCHITECTURE
