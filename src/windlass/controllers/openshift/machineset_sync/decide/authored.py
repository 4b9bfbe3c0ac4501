"""Annotations that the autoscaler's operator writes: bounds, owner, capacities. They go to the mirror from either side.

They are written by server-side apply as a whole, by a manager of their own, which thereby marks them on both objects
(`settling`). All others are copied from the holder like labels are.
"""

from collections.abc import Iterable

from windlass.controllers.openshift import apis, names
from windlass.controllers.openshift.machineset_sync import facts
from windlass.controllers.openshift.machineset_sync import names as sync_names
from windlass.controllers.openshift.machineset_sync.conversion import annotations
from windlass.controllers.openshift.machineset_sync.decide import settling
from windlass.controllers.openshift.machineset_sync.plan import ApplyAnnotations
from windlass.kube import managed_fields

_ALWAYS = (apis.MACHINE_API.min_size, apis.MACHINE_API.max_size, names.OWNER_ANNOTATION)
_PATH = ("metadata", "annotations")


def list_keys(holder: facts.Json, mirror: facts.Json, api: apis.Api) -> set[str]:
    """Annotations that are settled here, as Machine API spells them; `api` is the holder's."""
    found = set(_ALWAYS)
    for body, its in ((holder, api), (mirror, api.mirror)):
        for key in facts.annotations(body):
            spelled = annotations.spell(key, apis.MACHINE_API)
            if spelled != key or not annotations.stays(key, its):
                managers = {owner.manager for owner in facts.owners(body, *_PATH, key)}
                if managers & {names.OPERATOR_MANAGER, sync_names.ANNOTATIONS_MANAGER}:
                    found.add(spelled)
    return found


def decide(holder: facts.Json, mirror: facts.Json, api: apis.Api) -> list[ApplyAnnotations]:
    """What has to be written to either; `api` is the holder's, which comes first.

    If a pass is cut short after it, the two differ and both are marked, and then the holder counts.
    """
    keys = list_keys(holder, mirror, api)
    settled: dict[str, str] = {}
    for key in keys:
        value = settling.settle(read(holder, key, api), read(mirror, key, api.mirror))
        if value is not None:
            settled[key] = value
    steps = [_write(holder, settled, keys, api), _write(mirror, settled, keys, api.mirror)]
    return [step for step in steps if step is not None]


def read(body: facts.Json, key: str, api: apis.Api) -> settling.Said:
    spelled = annotations.spell(key, api)
    value = facts.annotations(body).get(spelled)
    owners = facts.owners(body, *_PATH, spelled) if value is not None else []
    managers = {owner.manager for owner in owners}
    return settling.Said(
        value,
        facts.has_applied(body, sync_names.ANNOTATIONS_MANAGER, *_PATH, spelled) if value is not None else False,
        names.OPERATOR_MANAGER in managers,
        bool(managers) and managers <= {sync_names.MANAGER, sync_names.ANNOTATIONS_MANAGER},
    )


def _write(body: facts.Json, settled: dict[str, str], keys: Iterable[str], api: apis.Api) -> ApplyAnnotations | None:
    """None if it says all of it, and we have marked it."""
    there = facts.annotations(body)
    wanted = {name: value for key, value in settled.items() for name in _spellings(key, api)}
    gone = [name for key in keys if key not in settled for name in _spellings(key, api) if name in there]
    applied = set(_list_applied(body))
    if not gone and applied == set(wanted) and all(there.get(name) == value for name, value in wanted.items()):
        return None
    return ApplyAnnotations(api, wanted, tuple(sorted(gone)))


def _spellings(key: str, api: apis.Api) -> list[str]:
    """On a MachineSet of Cluster API bounds are there in both ways of spelling them."""
    if api is apis.CLUSTER_API and key in (apis.MACHINE_API.min_size, apis.MACHINE_API.max_size):
        return [annotations.spell(key, api), key]
    return [annotations.spell(key, api)]


def _list_applied(body: facts.Json) -> Iterable[str]:
    for entry in facts.metadata(body).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation")) == (sync_names.ANNOTATIONS_MANAGER, "Apply"):
            owner = managed_fields.Owner(
                entry["manager"], entry["operation"], entry.get("subresource") or "", entry.get("apiVersion") or ""
            )
            for path in managed_fields.owned(body, owner):
                if path[:2] == _PATH and len(path) > 2:
                    yield str(path[2])
