"""Watches: what is looked at, and what a change concerns: a ClusterAutoscaler, or what the operator says of itself."""

from collections.abc import Iterable
from typing import Any

from windlass.controllers import controller, following
from windlass.controllers.openshift import apis, gates
from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift.cluster_autoscaler import facts, names, observe
from windlass.controllers.openshift.cluster_autoscaler.settings import Settings
from windlass.kube import prepare
from windlass.kube.resources import Unstructured

STATUS_KEY = "/the operator itself"
"""No object's key: ClusterAutoscalers have no namespace."""


class Watches:
    """What is known."""

    def __init__(self, site: controller.Site, settings: Settings, at: following.Following) -> None:
        self._settings = settings
        follow = at.follow
        within = prepare.Selection(settings.namespace)
        self._own = follow(site.api, names.CLUSTER_AUTOSCALERS, lambda body: [body["metadata"]["name"], STATUS_KEY])
        self._owned: dict[str, following.Followed[Unstructured]] = {
            resource.kind: follow(site.api, resource, self._owners, within) for resource in names.OWNED
        }
        self._operators = follow(site.api, names.CLUSTER_OPERATORS, self._judge_operator)
        self._gates = follow(site.api, gates.FEATURE_GATES, self._everything)
        self._infrastructures = follow(site.api, gates.INFRASTRUCTURES, self._everything)
        self._machine_autoscalers = follow(site.api, openshift.MACHINE_AUTOSCALERS, lambda _: [STATUS_KEY], within)

    @property
    def gates(self) -> gates.Gates:
        found = (self._gates.store.get(gates.SINGLETON), self._infrastructures.store.get(gates.SINGLETON))
        return gates.read(*found, self._settings.release_version)

    def get(self, key: str) -> facts.Autoscaler | None:
        body = self._own.store.get(key)
        return None if body is None else observe.read_autoscaler(body)

    def observe(self, autoscaler: facts.Autoscaler) -> facts.Seen:
        """What is there of an autoscaler, by the names that it would have."""
        begins = names.deployment(autoscaler.name)
        live = {
            (kind, body["metadata"]["name"]): body
            for kind, followed in self._owned.items()
            for body in self._named(followed, begins)
        }
        trouble = self._owned[names.DEPLOYMENT.kind].complaint
        return facts.Seen(autoscaler, self.gates, live, trouble)

    def observe_operators(self) -> facts.Operators:
        name = self._settings.name
        key = f"{self._settings.namespace}/{names.deployment(name)}"
        return facts.Operators(
            own=self._operators.store.get(names.AUTOSCALER),
            machine_api=self._operators.store.get(names.MACHINE_API_OPERATOR),
            has_autoscaler=self._own.store.get(name) is not None,
            deployment=self._owned[names.DEPLOYMENT.kind].store.get(key),
            targets=tuple(self._targets()),
        )

    def _targets(self) -> Iterable[tuple[str, str, str]]:
        for key in self._machine_autoscalers.store.keys():  # noqa: SIM118
            reference = ((self._machine_autoscalers.store.get(key) or {}).get("spec") or {}).get("scaleTargetRef") or {}
            api = apis.find(reference.get("apiVersion") or "")
            if api is not None and reference.get("kind") == "MachineSet" and reference.get("name"):
                yield api.group, api.namespace, reference["name"]

    def _named(self, followed: following.Followed[Unstructured], begins: str) -> Iterable[Unstructured]:
        prefix = f"{self._settings.namespace}/{begins}"
        for key in followed.store.keys():  # noqa: SIM118
            body = followed.store.get(key) if key.startswith(prefix) else None
            if body is not None:
                yield body

    def _owners(self, body: Any) -> list[str]:
        """Whose it is, and whoever's it should be by its name."""
        metadata = body["metadata"]
        owners = [each["name"] for each in metadata.get("ownerReferences") or () if each.get("kind") == names.KIND]
        expected = names.deployment(self._settings.name)
        if metadata["name"] == expected or metadata["name"].startswith(f"{expected}-"):
            owners.append(self._settings.name)
        return [*dict.fromkeys(owners), STATUS_KEY] if owners else []

    def _judge_operator(self, body: Any) -> list[str]:
        wanted = (names.AUTOSCALER, names.MACHINE_API_OPERATOR)
        return [STATUS_KEY] if body["metadata"]["name"] in wanted else []

    def _everything(self, _: Any) -> list[str]:
        return [*self._own.store.keys(), STATUS_KEY]
