"""Machines: the mark that one goes first is on both of its twins before its MachineSet gets smaller.

The autoscaler marks Machines of Cluster API and then lowers the size. Where Machine API holds, its controller looks at
its own Machines: a size that came before the marks would cost the wrong ones.
"""

from windlass.controllers.openshift import apis, names
from windlass.controllers.openshift.machineset_sync import facts
from windlass.controllers.openshift.machineset_sync import names as sync_names
from windlass.controllers.openshift.machineset_sync.decide import settling
from windlass.controllers.openshift.machineset_sync.plan import MarkMachine


def decide(twins: tuple[facts.Twins, ...], holder: apis.Api) -> list[MarkMachine]:
    """What has to be written, so that twins carry the same mark. Of those that are leaving anyway nothing is said."""
    return [step for each in twins for step in _decide_one(each, holder)]


def _decide_one(twins: facts.Twins, holder: apis.Api) -> list[MarkMachine]:
    one, other = twins.get(holder), twins.get(holder.mirror)
    if one is None or other is None or facts.is_leaving(one) or facts.is_leaving(other):
        return []
    said, mirrored = _read(one, holder), _read(other, holder.mirror)
    if said.value is None and mirrored.value is None:
        return []
    value = settling.settle(said, mirrored)
    steps = [_write(one, said, value, holder), _write(other, mirrored, value, holder.mirror)]
    return [step for step in steps if step is not None]


def _write(machine: facts.Json, said: settling.Said, value: str | None, api: apis.Api) -> MarkMachine | None:
    if said.value == value and (said.is_marked or value is None):
        return None
    metadata = facts.metadata(machine)
    return MarkMachine(
        api, metadata.get("name") or "", metadata.get("uid") or "", metadata.get("resourceVersion") or "", value
    )


def _read(machine: facts.Json, api: apis.Api) -> settling.Said:
    value = facts.annotations(machine).get(api.delete_machine)
    path = ("metadata", "annotations", api.delete_machine)
    managers = {owner.manager for owner in facts.owners(machine, *path)} if value is not None else set()
    return settling.Said(
        value,
        value is not None and facts.has_applied(machine, sync_names.MANAGER, *path),
        names.AUTOSCALER_MANAGER in managers,
        bool(managers) and managers <= {sync_names.MANAGER},
    )
