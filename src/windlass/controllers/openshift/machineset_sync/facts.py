"""Facts: a pair of MachineSets and what belongs to them, as it is seen. MachineSets are JSON: all of it counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift import apis, authority
from windlass.controllers.openshift.machineset_sync import names
from windlass.controllers.openshift.machineset_sync.conversion import infrastructure
from windlass.kube import managed_fields

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Twins:
    """The Machines of one name. Either may be missing."""

    name: str
    machine_api: Json | None = None
    cluster_api: Json | None = None

    def get(self, api: apis.Api) -> Json | None:
        return self.machine_api if api is apis.MACHINE_API else self.cluster_api


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision is made from."""

    pair: authority.Pair
    cluster_name: str = ""
    cluster: Json | None = None
    """The Cluster of Cluster API that the set belongs to, if it is there."""
    templates: tuple[infrastructure.Template, ...] = ()
    """Those that were made for the set, and the one that it refers to."""
    machines: tuple[Twins, ...] | None = None
    """Its Machines, as the server had them after the MachineSets; None: nobody asked."""

    @property
    def machine_api(self) -> Json | None:
        return self.pair.machine_api

    @property
    def cluster_api(self) -> Json | None:
        return self.pair.cluster_api

    def both(self) -> tuple[Json, Json]:
        """(Machine API's, Cluster API's), where both are there."""
        assert self.pair.machine_api is not None, "a pair is two"
        assert self.pair.cluster_api is not None, "a pair is two"
        return self.pair.machine_api, self.pair.cluster_api


def annotations(found: Json | None) -> Mapping[str, str]:
    return metadata(found).get("annotations") or {}


def labels(found: Json | None) -> Mapping[str, str]:
    return metadata(found).get("labels") or {}


def finalizers(found: Json | None) -> list[str]:
    return list(metadata(found).get("finalizers") or ())


def metadata(found: Json | None) -> Json:
    return (found or {}).get("metadata") or {}


def spec(found: Json | None) -> Json:
    return (found or {}).get("spec") or {}


def status(found: Json | None) -> Json:
    return (found or {}).get("status") or {}


def generation(found: Json | None) -> int:
    return metadata(found).get("generation") or 0


def is_leaving(found: Json | None) -> bool:
    return bool(metadata(found).get("deletionTimestamp"))


def is_observed(found: Json | None) -> bool:
    """Has its controller seen the spec that it has?"""
    return (status(found).get("observedGeneration") or 0) == generation(found)


def is_paused(found: Json | None) -> bool:
    """Does its controller say that it leaves it alone?"""
    conditions = status(found).get("conditions") or ()
    return any(each.get("type") == names.PAUSED and each.get("status") == "True" for each in conditions)


def owners(found: Json | None, *path: str) -> list[managed_fields.Owner]:
    return managed_fields.owners(found or {}, path)


def has_applied(found: Json | None, manager: str, *path: str) -> bool:
    """Does a manager's apply hold a field?"""
    return any(each.manager == manager and each.operation == "Apply" for each in owners(found, *path))
