"""What every verb works with: the store, the registry, the clock and the dice."""

import random
from dataclasses import dataclass

from windlass import clock
from windlass.apiserver import registry, storage
from windlass.apiserver.registry import Resource

ADMISSION = ("TaintNodesByCondition", "Priority", "DefaultTolerationSeconds")
"""Admission plugins of kube-apiserver that can be turned off; NamespaceLifecycle always runs."""
CONTROLLERS = ("garbage-collector", "disruption", "namespace")
"""Controllers of kube-controller-manager that run inside this server."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the server differs from its default."""

    history: int = 10_000
    """Events of each resource that watches can still catch up on."""
    most_unread: int = 1_000_000
    """Events that a watch may fall behind before it is ended."""
    bookmark_every_s: float = 60.0
    longest_watch_s: float = 3600.0
    """When a watch without a limit of its own ends."""
    disabled_admission: frozenset[str] = frozenset()
    """Names of `ADMISSION` plugins that do not run, as with kube-apiserver's --disable-admission-plugins."""
    disabled_controllers: frozenset[str] = frozenset()
    """Names of `CONTROLLERS` that do not run, as with kube-controller-manager's --controllers."""
    seed: int = 0
    """For uids and generated names."""
    version: str = "v1.36.3"
    """The Kubernetes version whose behaviour this is, and which /version tells."""


@dataclass(slots=True)
class Core:
    """The state of one server."""

    clock: clock.Clock
    settings: Settings
    store: storage.Store
    registry: registry.Registry
    chance: random.Random

    def table(self, resource: Resource) -> storage.Table:
        return self.store.tables[resource.key]

    def find(self, resource: Resource, namespace: str, name: str) -> storage.Stored | None:
        return self.table(resource).objects.get(storage.key_of(namespace, name))

    def serve(self, resource: Resource) -> None:
        """Take a resource into service."""
        self.registry.add(resource)
        if resource.key not in self.store.tables:
            self.store.make_table(resource.key, resource.prefix, resource.extract)

    def resource(self, group: str, plural: str) -> Resource:
        """A built-in resource."""
        found = self.registry.find_group_resource(group, plural)
        assert found is not None
        return found


def make(clock_: clock.Clock, settings: Settings) -> Core:
    """A server with nothing in it."""
    core = Core(clock_, settings, storage.Store(settings.history, 1), registry.Registry(), random.Random(settings.seed))
    for resource in core.registry:
        core.store.make_table(resource.key, resource.prefix, resource.extract)
    return core
