"""Discovery specs: which groups of the management cluster are ours to scale.

    clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>,…

Everything that a spec names must hold; of several specs, one must. Each has its own namespace.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass import errors, label_syntax
from windlass.kube.models import clusterapi

DISCOVERER = "clusterapi"
ACCEPTED = "clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>, each part optional"


@dataclass(frozen=True, slots=True)
class Spec:
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


def parse(text: str) -> Spec:
    """One --node-group-auto-discovery value. InvalidInput if it cannot be understood."""
    discoverer, colon, rest = text.partition(":")
    if not colon or ":" in rest or discoverer != DISCOVERER:
        raise _refuse(text, text)
    named = {"namespace": "", "clusterName": ""}
    labels: list[tuple[str, str]] = []
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or "=" in value:
            raise _refuse(text, part)
        if key in named:
            named[key] = value
        else:
            labels.append(_read_label(text, key, value))
    return Spec(named["namespace"], named["clusterName"], tuple(labels))


def find_namespaces(specs: Iterable[Spec]) -> tuple[str, ...]:
    """The namespaces to follow; an empty one stands for all of them, and then stands alone."""
    namespaces = sorted({spec.namespace for spec in specs})
    return ("",) if not namespaces or "" in namespaces else tuple(namespaces)


def name_cluster(spec: clusterapi.MachineGroupSpec | None, labels: Mapping[str, str], label: str) -> str:
    """The cluster that an object says it belongs to, in its spec or else by its label."""
    if spec is not None and spec.cluster_name is not None:
        return spec.cluster_name
    return labels.get(label, "")


def _read_label(text: str, key: str, value: str) -> tuple[str, str]:
    try:
        label_syntax.read_selector(label_syntax.WrittenSelector({key: value}))
    except label_syntax.BadSelector as error:
        raise errors.InvalidInput(f"--node-group-auto-discovery={text}: {error}") from error
    return key, value


def _refuse(text: str, part: str) -> errors.InvalidInput:
    return errors.InvalidInput(f"--node-group-auto-discovery={text}: found {part!r}, expected {ACCEPTED}")
