"""Keys: annotations, labels, taints and finalizers by which people, Kubernetes and windlass talk to each other.

What each means is in keys.yaml, once. That none is missing, and that none is left that the code does not know, follows
from reading the code.
"""

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools import markdown_tables, source_analysis

_DOMAINS = re.compile(
    r"([a-z0-9.-]+\.)?(cluster-autoscaler\.kubernetes\.io|x-k8s\.io|windlass\.dev|openshift\.io|anywhere\.eks\.amazonaws\.com)/.*"
    r"|cluster-api/[a-z-]+"
)
_KEY = re.compile(r"[a-z0-9.-]+/[A-Za-z][A-Za-z0-9._-]*/?|[a-z-]+\.[a-z0-9.-]+/")
_VERSION = re.compile(r".*/v\d\w*")
_UNTOLD = ("windlass.apiserver", "windlass.simulator", "windlass.kube.", "windlass.explain", "windlass.cli")
"""Rooms that speak of keys and give none a meaning."""
GROUP = "cluster.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Key:
    """A key, where it is found, and what it says there."""

    key: str
    where: str
    says: str


NO_KEYS = frozenset(
    {
        "autoscaling.x-k8s.io/", "capacity.cluster-autoscaler.kubernetes.io/", "cluster-autoscaler.kubernetes.io/",
        "cluster.x-k8s.io/", "cluster.x-k8s.io/scale", "machine.openshift.io/",
    }
)  # fmt: skip
"""What looks like a key and is a group, a common beginning, or a subresource."""


@functools.cache
def find_sections() -> Mapping[str, tuple[Key, ...]]:
    """What is told, section by section."""
    told = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {
        title: tuple(Key(key, item["where"], item["says"]) for key, item in several.items())
        for title, several in told.items()
    }


def page() -> str:
    lines = markdown_tables.begin(
        "Annotations, labels and taints",
        "Keys that begin with `cluster.x-k8s.io` follow `CAPI_GROUP`, where it names another group.",
    )
    for title, several in find_sections().items():
        rows = ([markdown_tables.code(key.key), key.where, key.says] for key in several)
        lines += [f"## {title}", "", *markdown_tables.table(("key", "where", "what it says"), rows)]
    return "\n".join(lines)


def is_mentioned(key: str) -> bool:
    """Does the code name it at all? For keys without a slash, which look like any other word."""
    return any(f'"{key}"' in module.text for module in source_analysis.modules().values())


def find_told() -> set[str]:
    return {key.key for several in find_sections().values() for key in several}


def find_used() -> set[str]:
    """Keys of the domains above that the code names, where it gives them a meaning."""
    found = set()
    for name, module in source_analysis.modules().items():
        if not name.startswith(_UNTOLD):
            found |= {key for key in _find_texts(module) if _DOMAINS.fullmatch(key) and _KEY.fullmatch(key)}
    return {key for key in found if not _VERSION.fullmatch(key)} - NO_KEYS


def _find_texts(module: source_analysis.Module) -> Iterator[str]:
    """Strings, sums of strings, and texts that begin with a group of their own: that is Cluster API's."""
    if "/" not in module.text:
        return
    for node in ast.walk(module.tree):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.BinOp():
                yield from source_analysis.resolve(module, node)
            case ast.JoinedStr(
                values=[ast.FormattedValue(value=ast.Attribute(attr="group")), ast.Constant(value=str(end))]
            ):
                yield GROUP + end
