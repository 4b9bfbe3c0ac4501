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
    """What a group must be like; nothing is asked for where nothing is said."""

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
    """One --node-group-auto-discovery value. InvalidInput if it cannot be understood."""
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
    """The namespaces to follow; an empty one stands for all of them, and then stands alone."""
    namespaces = sorted({spec.namespace for spec in specs})
    return ("",) if not namespaces or "" in namespaces else tuple(namespaces)


def find_cluster_name(spec: clusterapi.MachineGroupSpec | None, labels: Mapping[str, str], label: str) -> str:
    """The cluster that an object says it belongs to, in its spec or else by its label."""
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

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Config:
    """Which groups there are, and how their API is spoken."""

    specs: tuple[DiscoverySpec, ...] = ()
    """Groups that one of these selects are ours; without any, all are."""
    group: str = group_annotations.DEFAULT_GROUP
    """The API group of Machines, and the beginning of most annotations."""
    version: str = ""
    """Its version; empty: the one that the server prefers."""
    default_architecture: str = DEFAULT_ARCHITECTURE
    """Of new nodes, where nothing says otherwise."""
    mirrored_namespace: str = ""
    """For OpenShift: where its own MachineSets (machine.openshift.io) are. A paused MachineSet whose twin there, of the
    same name, is authoritative stays a group: whoever mirrors the two carries its size over. Empty: paused is paused.
    """
    respect_machine_drain_rules: bool = True
    """MachineDrainRules are followed, and for their clusterSelectors the labels of Clusters."""


def read_config(specs: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Config:
    """From values of --node-group-auto-discovery, and CAPI_* of the environment. InvalidInput if a spec is wrong.

    CAPI_NAMESPACE is where groups are if no spec says: OpenShift's operator, whose command lines are given, says so.
    """
    told = environment or {}
    namespace = told.get("CAPI_NAMESPACE") or ""
    return Config(
        specs=tuple(parse_discovery_spec(spec) for spec in specs) or ((DiscoverySpec(namespace),) if namespace else ()),
        group=told.get("CAPI_GROUP") or group_annotations.DEFAULT_GROUP,
        version=told.get("CAPI_VERSION") or "",
        default_architecture=read_architecture(told.get("CAPI_SCALE_ZERO_DEFAULT_ARCH", "")),
        mirrored_namespace=told.get("CAPI_MIRRORED_NAMESPACE") or "",
    )


def apply_deviations(config: Config, chosen: Deviations) -> Config:
    """The configuration, for settings with these deviations."""
    return replace(config, respect_machine_drain_rules=chosen.respect_machine_drain_rules)


def read_architecture(text: str) -> str:
    """The architecture that a word names; the usual one for any other."""
    if text in ARCHITECTURES:
        return text
    if text:
        _log.error(
            "CAPI_SCALE_ZERO_DEFAULT_ARCH: found %r, expected one of %s: taking %s",
            text,
            ", ".join(ARCHITECTURES),
            DEFAULT_ARCHITECTURE,
        )
    return DEFAULT_ARCHITECTURE
