"""Configuration: what the user decides about the provider."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.engine.deviations import Deviations
from windlass.providers.clusterapi import discovery_spec, keys

ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")
DEFAULT_ARCHITECTURE = "amd64"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Config:
    """Which groups there are, and how their API is spoken."""

    specs: tuple[discovery_spec.Spec, ...] = ()
    """Groups that one of these selects are ours; without any, all are."""
    group: str = keys.DEFAULT_GROUP
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


def read(specs: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Config:
    """From values of --node-group-auto-discovery, and CAPI_* of the environment. InvalidInput if a spec is wrong.

    CAPI_NAMESPACE is where groups are if no spec says: OpenShift's operator, whose command lines are given, says so.
    """
    told = environment or {}
    namespace = told.get("CAPI_NAMESPACE") or ""
    return Config(
        specs=tuple(discovery_spec.parse(spec) for spec in specs)
        or ((discovery_spec.Spec(namespace),) if namespace else ()),
        group=told.get("CAPI_GROUP") or keys.DEFAULT_GROUP,
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
