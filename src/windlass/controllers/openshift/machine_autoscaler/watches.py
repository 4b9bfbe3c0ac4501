"""Watches: what is looked at, and which MachineAutoscalers a change concerns."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers import controller, desk
from windlass.controllers.openshift import machine_sets
from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift.machine_autoscaler import facts, observe
from windlass.controllers.openshift.machine_autoscaler.settings import Settings
from windlass.kube import prepare

Json = Mapping[str, Any]


class Watches:
    """What is known."""

    def __init__(self, site: controller.Site, settings: Settings, at: desk.Desk) -> None:
        self._queue = at.queue
        self._own = at.following.follow(
            site.api,
            openshift.MACHINE_AUTOSCALERS,
            self._concerned,
            prepare.Selection(settings.namespace),
            {"set": lambda body: observe.read_autoscaler(body).sets},
        )
        self.sets = machine_sets.MachineSets(
            site, at.following, self._targeting, self._wake_all, settings.release_version
        )

    def get(self, key: str) -> facts.Autoscaler | None:
        body = self._own.store.get(key)
        return None if body is None else observe.read_autoscaler(body)

    def observe(self, autoscaler: facts.Autoscaler) -> facts.Seen | None:
        """All that a decision needs; None as long as something is not known yet."""
        supported = self.sets.supported
        if supported is None:
            return None
        last = autoscaler.status.last_target
        before = last.machine_set if last is not None else ""
        is_moved = bool(before) and before != autoscaler.target.machine_set
        others = [
            observe.read_autoscaler(body) for name in autoscaler.sets for body in self._own.store.find("set", name)
        ]
        return facts.Seen(
            autoscaler,
            supported,
            self.sets.pair(autoscaler.target.name),
            self.sets.pair(before) if is_moved else None,
            {other.key: other for other in others if other.key != autoscaler.key},
        )

    def _concerned(self, body: Json) -> list[str]:
        """Itself, and whoever is about the same MachineSets: what one lets go another may have."""
        read = observe.read_autoscaler(body)
        return [read.key, *(key for name in read.sets for key in self._about(name))]

    def _targeting(self, machine_set: Json) -> list[str]:
        return self._about(machine_set["metadata"]["name"])

    def _about(self, name: str) -> list[str]:
        return [observe.read_autoscaler(body).key for body in self._own.store.find("set", name)]

    def _wake_all(self) -> None:
        for key in self._own.store.keys():  # noqa: SIM118
            self._queue.add(key)
