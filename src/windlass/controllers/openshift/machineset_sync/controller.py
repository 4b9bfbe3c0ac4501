"""MachineSet sync controller: executes plans step by step, writes the Synchronized condition, records events.

Each step has uid and resourceVersion of the observed object as precondition. The first failed step stops the rest: the
order of steps makes them safe to interrupt.
"""

import dataclasses
import logging
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machineset_sync import authority_migration, model, object_diff, watches
from windlass.controllers.openshift.machineset_sync.model import MachineSetSyncSettings
from windlass.controllers.openshift.machineset_sync.reconcile import reconcile_machine_sets
from windlass.controllers.openshift.machineset_sync.watches import InfrastructureTemplates
from windlass.kube import client, discovery, errors, events, request_builders

_KIND_REQUEUE_S = 15.0
"""A kind of template that the server lacks is asked for again this often: its definition may come later."""

_log = logging.getLogger(__name__)

ObjectVersion = tuple[str, str]
"""uid and resourceVersion."""


def new_controller(
    site: controller_runtime.ControllerContext, settings: MachineSetSyncSettings
) -> "MachineSetSyncController":
    return MachineSetSyncController(site, settings)


class MachineSetSyncController:
    """Keeps the MachineSets of one name equal."""

    name = "machineset_sync"

    def __init__(self, site: controller_runtime.ControllerContext, settings: MachineSetSyncSettings) -> None:
        self._context, self._settings = site, settings
        self._applier = MachineSetApplier(site.api)
        self._recorder = events.EventRecorder(site.api, model.MANAGER, window_s=site.event_window_s)
        self._loop = controller_runtime.ReconcileLoop(site, self.name)
        self._overwritten: dict[str, set[ObjectVersion]] = {}
        self._settled: dict[str, tuple[object, ...]] = {}
        """What pairs are like about which nothing is left to be done, as far as it was looked at."""

    def check_ready(self) -> str:
        return self._loop.check_ready()

    async def run(self) -> None:
        """Until cancelled."""
        cluster = self._settings.cluster or await find_infrastructure_name(self._context.api)
        watched = watches.MachineSetPairWatches(self._context.api, self._loop.informers, cluster)
        self._loop.informers.spawn(self._recorder.run())
        await self._loop.run(lambda key: self._reconcile(key, watched))

    async def _reconcile(self, key: str, watched: watches.MachineSetPairWatches) -> float | None:
        pair = watched.pair(key)
        if pair.machine_api is None and pair.cluster_api is None:
            self._overwritten.pop(key, None)
            self._settled.pop(key, None)
            return None
        if self._is_stale(pair):
            return (
                controller_runtime.CONFLICT_REQUEUE_S
            )  # woken as soon as what was written is seen; this is for the case that it never is
        seen = await watched.observe(pair)
        if watched.has_unequal_delete_marks(key):
            seen = dataclasses.replace(seen, machines=await watched.read_machines(pair))
        elif self._settled.get(key) == _fingerprint(seen):
            return self._settings.resync_s
        now_s = self._context.api.clock.now_s()
        found = reconcile_machine_sets(seen, now_s)
        if found.needs_machines:
            seen = dataclasses.replace(seen, machines=await watched.read_machines(pair))
            found = reconcile_machine_sets(seen, now_s)
        self._record_events(found, pair)
        if found.steps:
            _log.info("%s: %s: %s", key, found.reason, ", ".join(type(step).__name__ for step in found.steps))
            return await self._apply(found, pair, watched)
        if found.condition is not None:
            said = await self._write_condition(found.condition, pair)
            if said is None:
                return controller_runtime.CONFLICT_REQUEUE_S
            if found.condition.status == "True" and not machine_apis.is_migration_requested(pair.machine_api):
                self._settled[key] = _fingerprint(seen, said)
        return self._settings.resync_s if watched.knows_kinds(pair) else _KIND_REQUEUE_S

    async def _apply(
        self, found: model.SyncPlan, pair: machine_apis.MachineSetPair, watched: watches.MachineSetPairWatches
    ) -> float | None:
        outcome = await self._applier.apply(found.steps, pair, watched.templates)
        self._overwritten[pair.name] = outcome.overwritten
        if outcome.failure is not None:
            if not outcome.overwritten:
                await self._write_condition(outcome.failure, pair)
            raise controller_interface.RequeueError(f"{pair.name}: {outcome.error}")
        if found.condition is not None and not outcome.is_conflict:
            await self._write_condition(found.condition, pair)
        return controller_runtime.CONFLICT_REQUEUE_S

    async def _write_condition(
        self, condition: model.SynchronizedCondition, pair: machine_apis.MachineSetPair
    ) -> ObjectVersion | None:
        """Write the condition if it is news; what Machine API's is at then. None if someone was faster."""
        if pair.machine_api is None:
            return _object_version(None)
        status = authority_migration.synchronized_status(condition, pair.machine_api, self._context.api.clock.now_s())
        if status is None:
            return _object_version(pair.machine_api)
        if condition.status == "False":
            _log.warning("%s: %s: %s", pair.name, condition.reason, condition.message)
        try:
            return _object_version(await self._applier.write_condition(status, pair))
        except (errors.NotFound, errors.Conflict):
            return None

    def _is_stale(self, pair: machine_apis.MachineSetPair) -> bool:
        """Do we still see what we have overwritten?"""
        overwritten = self._overwritten.get(pair.name, set())
        return any(_object_version(pair.get(api)) in overwritten for api in machine_apis.MACHINE_APIS)

    def _record_events(self, found: model.SyncPlan, pair: machine_apis.MachineSetPair) -> None:
        for event in found.events:
            body = pair.get(event.api)
            resource = event.api.machine_sets()
            about = events.InvolvedObject(
                resource.api_version,
                resource.kind,
                pair.name,
                event.api.namespace,
                model.get_metadata(body).get("uid") or "",
            )
            self._recorder.record(about, events.WARNING, event.reason, event.message, by_message=True)


def _fingerprint(seen: model.ObservedMachineSetPair, machine_api: ObjectVersion | None = None) -> tuple[object, ...]:
    """What a pair is told by, with all that is decided from; `machine_api`: once its condition is said.

    The condition decides nothing, unless authority moves: what is settled when it is said stays so.
    """
    one, other = _object_version(seen.machine_api), _object_version(seen.cluster_api)
    return machine_api or one, other, seen.cluster_name, seen.cluster, seen.templates


def _object_version(machine_set: model.Json | None) -> ObjectVersion:
    metadata = model.get_metadata(machine_set)
    return metadata.get("uid") or "", metadata.get("resourceVersion") or ""


async def find_infrastructure_name(api: client.Client) -> str:
    """What OpenShift's Infrastructure calls the cluster; empty where there is none."""
    if not await discovery.has_resource(api, machine_apis.INFRASTRUCTURES):
        return ""
    try:
        found = await api.get(machine_apis.INFRASTRUCTURES, machine_apis.CLUSTER_SINGLETON)
    except errors.NotFound:
        return ""
    return str(model.get_status(found).get("infrastructureName") or "")


Json = dict[str, Any]


@dataclass(slots=True)
class ApplyResult:
    """What came of the steps of a plan."""

    failure: model.SynchronizedCondition | None = None
    error: errors.KubeError | None = None
    is_conflict: bool = False
    """Someone else was faster."""
    overwritten: set[tuple[str, str]] = field(default_factory=set)
    """(uid, resourceVersion) of what is no longer so: whoever still sees it has old news."""


class MachineSetApplier:
    """Writes MachineSets, Machines and templates."""

    def __init__(self, api: client.Client) -> None:
        self._api = api.with_field_manager(model.MANAGER)
        self._annotations = api.with_field_manager(model.ANNOTATIONS_MANAGER)
        self._condition = api.with_field_manager(model.CONDITION_MANAGER)
        self._authority = api.with_field_manager(model.AUTHORITY_MANAGER)

    async def apply(
        self, steps: tuple[model.SyncStep, ...], pair: machine_apis.MachineSetPair, templates: InfrastructureTemplates
    ) -> ApplyResult:
        outcome = ApplyResult()
        at = CurrentObjects(pair, outcome)
        for step in steps:
            try:
                await self._execute(step, at, templates)
            except (errors.NotFound, errors.Conflict) as error:
                _log.info("%s: %s", pair.name, error)
                outcome.is_conflict = True
                break
            except errors.KubeError as error:
                outcome.failure = model.SynchronizedCondition("False", _failure_reason(step), str(error))
                outcome.error = error
                break
        return outcome

    async def write_condition(self, status: Json, pair: machine_apis.MachineSetPair) -> Json:
        """Write the condition Synchronized; Machine API's MachineSet as it is then."""
        at = CurrentObjects(pair, ApplyResult())
        body = {"metadata": at.precondition(machine_apis.MACHINE_API), "status": status}
        resource = machine_apis.MACHINE_API.machine_sets()
        return await self._condition.apply(resource, body, subresource="status", force=True)

    async def _execute(self, step: model.SyncStep, at: "CurrentObjects", templates: InfrastructureTemplates) -> None:
        match step:
            case model.Create(body):
                resource = machine_apis.CLUSTER_API.machine_sets()
                whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                await self._api.create(resource, whole, machine_apis.CLUSTER_API.namespace)
            case model.Patch(api, patch, subresource):
                await self._patch(api, patch, subresource, at)
            case model.ApplyReplicas(api, replicas):
                body = {"metadata": at.precondition(api), "spec": {"replicas": replicas}}
                at.update(api, await self._api.apply(api.machine_sets(), body, force=True))
            case model.ApplyAnnotations(api, annotations, removed):
                if removed:
                    await self._patch(api, {"metadata": {"annotations": dict.fromkeys(removed)}}, "", at)
                body = {"metadata": {**at.precondition(api), "annotations": dict(annotations)}}
                at.update(api, await self._annotations.apply(api.machine_sets(), body, force=True))
            case model.MarkMachine():
                await self._mark_machine(step)
            case model.SetAuthority(status):
                body = {"metadata": at.precondition(machine_apis.MACHINE_API), "status": dict(status)}
                resource = machine_apis.MACHINE_API.machine_sets()
                written = await self._authority.apply(resource, body, subresource="status", force=True)
                at.update(machine_apis.MACHINE_API, written)
            case model.Delete(api):
                how = request_builders.DeleteOptions(uid=model.get_metadata(at.pair.get(api)).get("uid") or "")
                await self._api.delete(api.machine_sets(), at.pair.name, api.namespace, how)
                at.mark_overwritten(api)
            case model.ApplyTemplate(body):
                resource = await templates.resource(body["apiVersion"], body["kind"])
                whole = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
                await self._api.apply(resource, whole, force=True)
            case model.DeleteTemplate(api_version, kind, name):
                resource = await templates.resource(api_version, kind)
                await self._api.delete(resource, name, machine_apis.CLUSTER_API.namespace)

    async def _patch(
        self, api: machine_apis.MachineApi, patch: model.Json, subresource: str, at: "CurrentObjects"
    ) -> None:
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": at.precondition(api)["resourceVersion"]}
        body = {**patch, "metadata": metadata}
        resource = api.machine_sets()
        written = await self._api.merge_patch(resource, at.pair.name, body, api.namespace, subresource=subresource)
        _log_diff(at.pair, api, written)
        at.update(api, written)

    async def _mark_machine(self, step: model.MarkMachine) -> None:
        key = step.api.delete_machine
        if step.value is None:
            patch = {"metadata": {"annotations": {key: None}, "resourceVersion": step.resource_version}}
            await self._api.merge_patch(step.api.machines(), step.name, patch, step.api.namespace)
            return
        metadata = {"name": step.name, "namespace": step.api.namespace, "uid": step.uid}
        metadata |= {"resourceVersion": step.resource_version}
        body = {"metadata": {**metadata, "annotations": {key: step.value}}}
        await self._api.apply(step.api.machines(), body, force=True)


class CurrentObjects:
    """The MachineSets of a pair as they are while steps are done: each is made over what the one before it left."""

    def __init__(self, pair: machine_apis.MachineSetPair, outcome: ApplyResult) -> None:
        self.pair = pair
        self._outcome = outcome
        self._metadata = {api: model.get_metadata(pair.get(api)) for api in machine_apis.MACHINE_APIS}
        self._versions = {api: self._metadata[api].get("resourceVersion") or "" for api in machine_apis.MACHINE_APIS}

    def precondition(self, api: machine_apis.MachineApi) -> Json:
        """What a write is made over. With the uid: an apply would make anew what is gone."""
        return {
            "name": self.pair.name,
            "namespace": api.namespace,
            "uid": self._metadata[api].get("uid") or "",
            "resourceVersion": self._versions[api],
        }

    def update(self, api: machine_apis.MachineApi, written: Json) -> None:
        version = model.get_metadata(written).get("resourceVersion") or ""
        if version != self._versions[api]:
            self.mark_overwritten(api)
            self._versions[api] = version

    def mark_overwritten(self, api: machine_apis.MachineApi) -> None:
        """What was seen is no longer so."""
        self._outcome.overwritten.add((self._metadata[api].get("uid") or "", self._versions[api]))


def _log_diff(pair: machine_apis.MachineSetPair, api: machine_apis.MachineApi, written: Json) -> None:
    """Log what is different from what was looked at."""
    ignored = (
        object_diff.MACHINE_API_IGNORED_FIELDS
        if api is machine_apis.MACHINE_API
        else object_diff.CLUSTER_API_IGNORED_FIELDS
    )
    if _log.isEnabledFor(logging.INFO) and (
        text := object_diff.diff_objects(pair.get(api) or {}, written, ignored, object_diff.CLUSTER_API_OWN_CONDITIONS)
    ):
        _log.info("%s: %s: %s", pair.name, api.group, text)


def _failure_reason(step: model.SyncStep) -> str:
    """What failed, as the condition says it."""
    match step:
        case model.Create():
            return model.FAILED_TO_CREATE_CLUSTER_API
        case model.ApplyTemplate() | model.DeleteTemplate():
            return model.FAILED_TO_UPDATE_TEMPLATE
        case model.SetAuthority():
            return model.FAILED_TO_UPDATE_MACHINE_API
    is_machine_api = step.api is machine_apis.MACHINE_API
    return model.FAILED_TO_UPDATE_MACHINE_API if is_machine_api else model.FAILED_TO_UPDATE_CLUSTER_API
