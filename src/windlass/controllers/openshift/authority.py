"""Authority: of two MachineSets of one name, one holds and the other mirrors it.

Only the one of Machine API says which: `spec.authoritativeAPI` is what is wanted, `status.authoritativeAPI` what is the
case. Between the two lies `Migrating`, in which neither holds.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift import apis

Json = Mapping[str, Any]


class Authority(enum.Enum):
    """What `status.authoritativeAPI` says."""

    MACHINE_API = "MachineAPI"
    CLUSTER_API = "ClusterAPI"
    MIGRATING = "Migrating"
    UNSET = ""
    """Nobody has said so yet."""


_SPELLED = {each.value: each for each in Authority}


def read(machine_set: Json) -> Authority:
    """Of a MachineSet of Machine API. A word that is not known is as good as none."""
    return _SPELLED.get((machine_set.get("status") or {}).get("authoritativeAPI") or "", Authority.UNSET)


def read_wanted(machine_set: Json) -> Authority:
    """What an administrator wants; the server fills in Machine API where it knows of authority at all."""
    found = (machine_set.get("spec") or {}).get("authoritativeAPI") or ""
    return _SPELLED.get(found, Authority.UNSET)


def is_moving(machine_set: Json | None) -> bool:
    """Is something else wanted than what is the case?"""
    return machine_set is not None and read_wanted(machine_set) is not read(machine_set)


@dataclass(frozen=True, slots=True)
class Pair:
    """The MachineSets of one name. Either may be missing, and a pair of none is a pair as well."""

    name: str
    machine_api: Json | None = None
    cluster_api: Json | None = None

    def get(self, api: apis.Api) -> Json | None:
        return self.machine_api if api is apis.MACHINE_API else self.cluster_api

    @property
    def authority(self) -> Authority:
        """What is the case.

        What is in Cluster API alone is Cluster API's. Of a server that knows nothing of authority (neither wanted nor
        the case: the field is not in its definition) everything in Machine API is Machine API's.
        """
        if self.machine_api is None:
            return Authority.UNSET if self.cluster_api is None else Authority.CLUSTER_API
        found = read(self.machine_api)
        if found is Authority.UNSET and read_wanted(self.machine_api) is Authority.UNSET:
            return Authority.MACHINE_API
        return found

    @property
    def holder(self) -> apis.Api | None:
        """The API whose MachineSet holds, whether or not it is there; None while nothing does."""
        found = self.authority
        return next((api for api in apis.BOTH if api.authority == found.value), None)
