"""Field ownership: fields that either MachineSet may change, resolved by managedFields. Pure.

Our own server-side apply of a value marks it as known on both objects. A manager that writes another value takes the
field from us, so that an unmarked side was written since both were equal. This covers replicas, the annotations of the
autoscaler operator, and delete-machine marks. Replicas, where Machine API is authoritative:

    equal                                 set the marks that are missing
    differ, Cluster API unmarked, and     the autoscaler wrote: mark both as they are, then copy to Machine API
    owned by none but the autoscaler
    differ, both marked                   that copy was interrupted: finish it
    differ otherwise                      Machine API is authoritative: copy to Cluster API

A scale to zero erases the autoscaler's entry in managedFields, so no owner counts as the autoscaler: the admission
policy lets only the autoscaler use `/scale` of a mirror. Machine API is marked first, which tells an interrupted pass
from an administrator's write. Delete marks reach both Machines before replicas shrink, else the wrong Machines go.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority
from windlass.controllers.openshift.machineset_sync import machine_set_conversion, model
from windlass.controllers.openshift.machineset_sync.model import ApplyAnnotations, ApplyReplicas, MarkMachine
from windlass.kube import unstructured


@dataclass(frozen=True, slots=True)
class FieldState:
    """The state of one shared field in one object."""

    value: str | None = None
    is_marked: bool = False
    is_authored: bool = False
    """True if the author owns the field."""
    is_ours_alone: bool = False
    """True if only we own the field."""


def resolve_field(holder: FieldState, mirror: FieldState) -> str | None:
    """The value for both objects."""
    if holder.value == mirror.value:
        return holder.value
    if mirror.value is None:
        is_withdrawn = holder.is_marked and holder.is_ours_alone
        return None if is_withdrawn else holder.value
    is_news = mirror.is_authored and not mirror.is_marked
    if holder.value is None:
        return mirror.value if is_news else None
    is_old = holder.is_marked or not holder.is_authored
    return mirror.value if is_news and is_old else holder.value


_SHARED_ANNOTATIONS = (
    machine_apis.MACHINE_API.min_size,
    machine_apis.MACHINE_API.max_size,
    machine_apis.OWNER_ANNOTATION,
)

_ANNOTATIONS_PATH = ("metadata", "annotations")


def list_shared_annotations(holder: model.Json, mirror: model.Json, api: machine_apis.MachineApi) -> set[str]:
    """Shared annotations in Machine API's keys; `api` is authoritative."""
    found = set(_SHARED_ANNOTATIONS)
    for body, its in ((holder, api), (mirror, api.mirror)):
        for key in model.get_annotations(body):
            spelled = machine_set_conversion.annotation_key(key, machine_apis.MACHINE_API)
            if spelled != key or not machine_set_conversion.is_api_specific(key, its):
                managers = {owner.manager for owner in model.get_field_owners(body, *_ANNOTATIONS_PATH, key)}
                if managers & {machine_apis.OPERATOR_MANAGER, model.ANNOTATIONS_MANAGER}:
                    found.add(spelled)
    return found


def plan_annotations(holder: model.Json, mirror: model.Json, api: machine_apis.MachineApi) -> list[ApplyAnnotations]:
    """Annotation steps for both objects, the authoritative one (`api`) first.

    After an interruption both differ and are marked, and then the authoritative one counts.
    """
    keys = list_shared_annotations(holder, mirror, api)
    settled: dict[str, str] = {}
    for key in keys:
        value = resolve_field(annotation_state(holder, key, api), annotation_state(mirror, key, api.mirror))
        if value is not None:
            settled[key] = value
    steps = [
        _plan_annotation_apply(holder, settled, keys, api),
        _plan_annotation_apply(mirror, settled, keys, api.mirror),
    ]
    return [step for step in steps if step is not None]


def annotation_state(body: model.Json, key: str, api: machine_apis.MachineApi) -> FieldState:
    spelled = machine_set_conversion.annotation_key(key, api)
    value = model.get_annotations(body).get(spelled)
    owners = model.get_field_owners(body, *_ANNOTATIONS_PATH, spelled) if value is not None else []
    managers = {owner.manager for owner in owners}
    return FieldState(
        value,
        model.has_applied(body, model.ANNOTATIONS_MANAGER, *_ANNOTATIONS_PATH, spelled) if value is not None else False,
        machine_apis.OPERATOR_MANAGER in managers,
        bool(managers) and managers <= {model.MANAGER, model.ANNOTATIONS_MANAGER},
    )


def _plan_annotation_apply(
    body: model.Json, settled: dict[str, str], keys: Iterable[str], api: machine_apis.MachineApi
) -> ApplyAnnotations | None:
    """The apply step; None if the object has all values and our mark."""
    there = model.get_annotations(body)
    desired = {name: value for key, value in settled.items() for name in _annotation_keys(key, api)}
    gone = [name for key in keys if key not in settled for name in _annotation_keys(key, api) if name in there]
    applied = set(_list_applied_annotations(body))
    if not gone and applied == set(desired) and all(there.get(name) == value for name, value in desired.items()):
        return None
    return ApplyAnnotations(api, desired, tuple(sorted(gone)))


def _annotation_keys(key: str, api: machine_apis.MachineApi) -> list[str]:
    """Keys of an annotation. A MachineSet of Cluster API has bounds under both prefixes."""
    if api is machine_apis.CLUSTER_API and key in (
        machine_apis.MACHINE_API.min_size,
        machine_apis.MACHINE_API.max_size,
    ):
        return [machine_set_conversion.annotation_key(key, api), key]
    return [machine_set_conversion.annotation_key(key, api)]


def _list_applied_annotations(body: model.Json) -> Iterable[str]:
    for entry in model.get_metadata(body).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation")) == (model.ANNOTATIONS_MANAGER, "Apply"):
            owner = unstructured.FieldOwner(
                entry["manager"], entry["operation"], entry.get("subresource") or "", entry.get("apiVersion") or ""
            )
            for path in unstructured.owned_paths(body, owner):
                if path[:2] == _ANNOTATIONS_PATH and len(path) > 2:
                    yield str(path[2])


def plan_delete_marks(twins: tuple[model.MachineTwins, ...], holder: machine_apis.MachineApi) -> list[MarkMachine]:
    """Steps that give the Machines of one name the same delete mark. Machines that are being deleted are skipped."""
    return [step for machine_twins in twins for step in _plan_twin_marks(machine_twins, holder)]


def _plan_twin_marks(twins: model.MachineTwins, holder: machine_apis.MachineApi) -> list[MarkMachine]:
    item, other = twins.get(holder), twins.get(holder.mirror)
    if item is None or other is None or model.is_deleting(item) or model.is_deleting(other):
        return []
    own, mirrored = _delete_mark_state(item, holder), _delete_mark_state(other, holder.mirror)
    if own.value is None and mirrored.value is None:
        return []
    value = resolve_field(own, mirrored)
    steps = [_plan_delete_mark(item, own, value, holder), _plan_delete_mark(other, mirrored, value, holder.mirror)]
    return [step for step in steps if step is not None]


def plan_requested_marks(
    twins: tuple[model.MachineTwins, ...], requests: model.AutoscalerRequests
) -> list[MarkMachine]:
    """Steps that carry the autoscaler's marks on mirrors over to Machine API, where OpenShift's own sync copies them
    from. Marks there that are not ours stay as they are.
    """
    steps = [_plan_requested_mark(machine_twins, requests) for machine_twins in twins]
    return [step for step in steps if step is not None]


def _plan_requested_mark(twins: model.MachineTwins, requests: model.AutoscalerRequests) -> MarkMachine | None:
    item, other = twins.machine_api, twins.cluster_api
    if item is None or other is None or model.is_deleting(item) or model.is_deleting(other):
        return None
    held = _delete_mark_state(item, machine_apis.MACHINE_API)
    mirrored = _delete_mark_state(other, machine_apis.CLUSTER_API)
    if held.value is not None:
        is_withdrawn = twins.name in requests.unmarked and held.is_ours_alone
        return _plan_delete_mark(item, held, None, machine_apis.MACHINE_API) if is_withdrawn else None
    wanted = mirrored.value if mirrored.is_authored else requests.marked.get(twins.name)
    return None if wanted is None else _plan_delete_mark(item, held, wanted, machine_apis.MACHINE_API)


def _plan_delete_mark(
    machine: model.Json, state: FieldState, value: str | None, api: machine_apis.MachineApi
) -> MarkMachine | None:
    if state.value == value and (state.is_marked or value is None):
        return None
    metadata = model.get_metadata(machine)
    return MarkMachine(
        api, metadata.get("name") or "", metadata.get("uid") or "", metadata.get("resourceVersion") or "", value
    )


def _delete_mark_state(machine: model.Json, api: machine_apis.MachineApi) -> FieldState:
    value = model.get_annotations(machine).get(api.delete_machine)
    path = ("metadata", "annotations", api.delete_machine)
    managers = {owner.manager for owner in model.get_field_owners(machine, *path)} if value is not None else set()
    return FieldState(
        value,
        value is not None and model.has_applied(machine, model.MANAGER, *path),
        machine_apis.AUTOSCALER_MANAGER in managers,
        bool(managers) and managers <= {model.MANAGER},
    )


REPLICAS_EQUAL = "equal"

AUTOSCALER_WROTE = "autoscaler wrote"

COPY_INTERRUPTED = "copy was cut short"

AUTHORITY_WINS = "authority"

WAIT_FOR_AUTHORITY = "wait"


@dataclass(frozen=True, slots=True)
class ReplicasState:
    """Replicas of one MachineSet, with their owners."""

    replicas: int
    is_marked: bool
    others: frozenset[str] = frozenset()
    """Field managers that own replicas, besides our mark."""


@dataclass(frozen=True, slots=True)
class ReplicasDecision:
    """Replicas to write, in this order, and the reason."""

    reason: str
    writes: tuple[ApplyReplicas, ...] = ()

    @property
    def shrinks(self) -> bool:
        """True if the autoscaler's value is lower than the authoritative one."""
        return self.reason in (AUTOSCALER_WROTE, COPY_INTERRUPTED)


def replicas_state(machine_set: model.Json) -> ReplicasState:
    """Replicas of a MachineSet; they default to 1 in both APIs."""
    replicas = model.get_spec(machine_set).get("replicas")
    field_owners = model.get_field_owners(machine_set, "spec", "replicas")
    marks = [
        field_owner
        for field_owner in field_owners
        if (field_owner.manager, field_owner.operation) == (model.MANAGER, "Apply")
    ]
    others = frozenset(each.manager for each in field_owners if each not in marks)
    return ReplicasState(1 if replicas is None else replicas, bool(marks), others)


def is_autoscalers(mirror: ReplicasState) -> bool:
    """True if the autoscaler wrote a mirror's replicas after they were last known."""
    return not mirror.is_marked and mirror.others <= {machine_apis.AUTOSCALER_MANAGER}


def decide_requested_replicas(
    machine_api: ReplicasState, cluster_api: ReplicasState, requested: int | None
) -> ReplicasDecision:
    """Decide replicas of a set of Machine API beside OpenShift's own sync, which copies all but the autoscaler's.

    Machine API is written first: the mirror may be reverted at any moment. `requested` is what the autoscaler wrote
    before it was.
    """
    wanted = requested
    if is_autoscalers(cluster_api) and cluster_api.replicas != machine_api.replicas:
        wanted = cluster_api.replicas
    if wanted is not None and wanted != machine_api.replicas:
        known = (ApplyReplicas(machine_apis.CLUSTER_API, wanted),) if wanted == cluster_api.replicas else ()
        return ReplicasDecision(AUTOSCALER_WROTE, (ApplyReplicas(machine_apis.MACHINE_API, wanted), *known))
    if machine_api.replicas != cluster_api.replicas:
        return ReplicasDecision(WAIT_FOR_AUTHORITY)
    mark = () if cluster_api.is_marked else (ApplyReplicas(machine_apis.CLUSTER_API, cluster_api.replicas),)
    return ReplicasDecision(REPLICAS_EQUAL, mark)


def decide_replicas(
    holder: MachineAuthority, machine_api: ReplicasState, cluster_api: ReplicasState, *, settles: bool = False
) -> ReplicasDecision:
    """Decide replicas. With `settles` authority is about to move: both are marked while they are equal."""
    mark_machine_api = ApplyReplicas(machine_apis.MACHINE_API, machine_api.replicas)
    mark_cluster_api = ApplyReplicas(machine_apis.CLUSTER_API, cluster_api.replicas)
    copy_to_machine_api = ApplyReplicas(machine_apis.MACHINE_API, cluster_api.replicas)
    missing = () if machine_api.is_marked else (mark_machine_api,)
    if holder is MachineAuthority.CLUSTER_API:
        if machine_api.replicas != cluster_api.replicas:
            return ReplicasDecision(AUTHORITY_WINS, (copy_to_machine_api,))
        marks = (*missing, *(() if cluster_api.is_marked else (mark_cluster_api,)))
        return ReplicasDecision(REPLICAS_EQUAL, marks if settles else ())
    if holder is not MachineAuthority.MACHINE_API:
        return ReplicasDecision(WAIT_FOR_AUTHORITY)
    if machine_api.replicas == cluster_api.replicas:
        return ReplicasDecision(REPLICAS_EQUAL, (*missing, *(() if cluster_api.is_marked else (mark_cluster_api,))))
    if is_autoscalers(cluster_api):
        return ReplicasDecision(AUTOSCALER_WROTE, (*missing, mark_cluster_api, copy_to_machine_api))
    if cluster_api.is_marked and machine_api.is_marked:
        return ReplicasDecision(COPY_INTERRUPTED, (copy_to_machine_api,))
    copy_to_cluster_api = ApplyReplicas(machine_apis.CLUSTER_API, machine_api.replicas)
    return ReplicasDecision(AUTHORITY_WINS, (copy_to_cluster_api, mark_machine_api))
