"""Models: what is kept of objects of which there may be many, and no more."""

from typing import Any

import msgspec

from windlass.controllers.machine_pool import names
from windlass.kube.models import meta
from windlass.kube.models.meta import Model, Object
from windlass.kube.resources import CLUSTERS, MACHINE_POOLS, MACHINES, NODES, SECRETS, Resource


class NodeSpec(Model, frozen=True):
    """What the cloud and we say of a Node."""

    provider_id: str | None = msgspec.field(default=None, name="providerID")
    taints: list[dict[str, Any]] | None = None


class NodeInfo(Model, frozen=True):
    """What runs there."""

    kubelet_version: str | None = None


class NodeStatus(Model, frozen=True):
    """How it fares."""

    conditions: list[meta.Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Object, frozen=True):
    """A Node of a workload cluster."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class InfraMachineSpec(Model, frozen=True):
    """What the provider says of a machine."""

    provider_id: str | None = msgspec.field(default=None, name="providerID")


class InfraMachine(Object, frozen=True):
    """A machine of an infrastructure pool."""

    spec: InfraMachineSpec | None = None


class DefinitionNames(Model, frozen=True):
    """What a kind is called."""

    kind: str = ""
    plural: str = ""


class DefinitionSpec(Model, frozen=True):
    """Which kind is defined."""

    group: str = ""
    names: DefinitionNames = DefinitionNames()
    scope: str = ""


class Definition(Object, frozen=True):
    """A CustomResourceDefinition. Its labels say which contract it keeps."""

    spec: DefinitionSpec = DefinitionSpec()


class Header(Object, frozen=True):
    """An object of which only its name and its version matter."""


WORKLOAD_NODES = NODES.read_as(Node)
SECRET_HEADERS = SECRETS.read_as(Header)
DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, Definition
)


def machine_pools(version: str) -> Resource[dict[str, Any]]:
    return MACHINE_POOLS.at(f"{names.GROUP}/{version}").untyped()


def machines(version: str) -> Resource[dict[str, Any]]:
    return MACHINES.at(f"{names.GROUP}/{version}").untyped()


def clusters(version: str) -> Resource[dict[str, Any]]:
    return CLUSTERS.at(f"{names.GROUP}/{version}").untyped()
