"""Applying: what has to be written to make a MachineDeployment what it should be, and how replicas change hands.

We write by server-side apply, as one manager that always applies the whole. A static pool's apply has replicas; an
autoscaled one's has none. To leave out what we applied before means to take it away, so that replicas are first handed
over: a second manager applies the very value that is there, and only then do we let go. It keeps the value where no
webhook would fill it in again, and it makes the autoscaler's scaling visible: a scale takes the field from whoever owns
it, but of a field that nobody owns it leaves no trace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers.worker_pools import manifest
from windlass.controllers.worker_pools.machine_deployments import MachineDeployment
from windlass.controllers.worker_pools.sizes import Limits, Size
from windlass.kube import comparing, managed_fields

Json = dict[str, Any]
Path = tuple[str, ...]

_REPLICAS = ("spec", "replicas")


@dataclass(frozen=True, slots=True)
class Handover:
    """Replicas, as the second manager applies them."""

    replicas: int
    force: bool
    """Is it another value than the one that is there?"""


@dataclass(frozen=True, slots=True)
class Apply:
    """What is to be written of one MachineDeployment; the handover first, and nothing else if it fails."""

    name: str
    body: Json | None
    """None: it is as it should be, but for the handover."""
    handover: Handover | None = None
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """A MachineDeployment that nobody wants any longer."""

    name: str
    uid: str


Step = Apply | Delete


def second(manager: str) -> str:
    """The manager that replicas are handed over to."""
    return f"{manager}-handover"


def plan(
    wanted: manifest.Wanted, size: Size, initial: int | None, live: MachineDeployment | None, manager: str
) -> Apply | None:
    """What makes it so; None if it is. `initial` is the size of a new autoscaled one, None leaves it to Cluster API.

    `manifest.Incomplete` if it cannot be made.
    """
    if live is None:
        return Apply(wanted.name, manifest.spell(wanted, initial if size.is_autoscaled else size.replicas))
    body = manifest.spell(wanted, None if size.is_autoscaled else size.replicas)
    handover = None if size.limits is None else hand_over(live, size.limits, manager)
    is_done = is_applied(live.body, body, manager)
    if is_done and handover is None:
        return None
    metadata = live.body.get("metadata") or {}
    written = None if is_done else body
    return Apply(wanted.name, written, handover, metadata.get("uid") or "", metadata.get("resourceVersion") or "")


def hand_over(live: MachineDeployment, limits: Limits, manager: str) -> Handover | None:
    """None if replicas are someone else's already.

    A pool that was static until now moves into its bounds, once, as Cluster API's webhook would move it. One that was
    autoscaled keeps what it has.
    """
    ours = {(manager, "Apply"), (second(manager), "Apply")}
    owners = {(owner.manager, owner.operation) for owner in managed_fields.owners(live.body, _REPLICAS)}
    if owners - ours:
        return None
    found = live.replicas
    wanted = limits.min if found is None else found if live.limits is not None else limits.clamp(found)
    if wanted == found and (second(manager), "Apply") in owners:
        return None
    return Handover(wanted, force=wanted != found)


def is_applied(live: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> bool:
    """Whether to apply this would change nothing: all of it is there, and ours, and nothing else is.

    Maps and lists that are owned as one piece are one field in managedFields.
    """
    wanted = {path: value for path, value in _leaves(body) if path not in _IDENTITY}
    if not all(comparing.holds(_find(live, path), value) for path, value in wanted.items()):
        return False
    owned = _owned(live, manager)
    is_ours = all(any(path[: len(each)] == each for each in owned) for path in wanted)
    return is_ours and all(any(path[: len(each)] == each for path in wanted) for each in owned)


_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def _owned(live: Mapping[str, Any], manager: str) -> set[Path]:
    """The fields that a manager applied, each list as one."""
    found: set[Path] = set()
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "") == (manager, "Apply", ""):
            owner = managed_fields.Owner(manager, "Apply", "", entry.get("apiVersion") or "")
            found.update(_named(path) for path in managed_fields.owned(live, owner))
    return {path for path in found if not any(other[: len(path)] == path and other != path for other in found)}


def _named(path: managed_fields.Path) -> Path:
    steps = []
    for step in path:
        if not isinstance(step, str):
            break
        steps.append(step)
    return tuple(steps)


def _leaves(body: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for name, value in body.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _find(live: Mapping[str, Any], path: Path) -> Any:
    found: Any = live
    for step in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found
