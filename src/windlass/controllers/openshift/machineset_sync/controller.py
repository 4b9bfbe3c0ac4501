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
from windlass.controllers.openshift.machineset_sync import (
    authority_migration,
    model,
    object_diff,
    provider_specs,
    watches,
)
from windlass.controllers.openshift.machineset_sync.model import MachineSetSyncSettings
from windlass.controllers.openshift.machineset_sync.reconcile import (
    deletes_machine_api,
    not_ready_reason,
    reconcile_machine_sets,
)
from windlass.controllers.openshift.machineset_sync.watches import InfrastructureTemplates
from windlass.kube import client, discovery, errors, events, request_builders
from windlass.kube.resources import CLUSTERS, NAMESPACES, Resource, Unstructured

_KIND_REQUEUE_S = 15.0
"""Retry interval of discovery for a template kind that the server lacks."""

_REQUEST_REQUEUE_S = 0.5
"""Requeue of a request of the autoscaler after a conflict with OpenShift's own sync, which writes often."""

_DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, Unstructured
)

_log = logging.getLogger(__name__)

ObjectVersion = tuple[str, str]
"""uid and resourceVersion."""


def new_controller(
    context: controller_runtime.ControllerContext, settings: MachineSetSyncSettings
) -> "MachineSetSyncController":
    return MachineSetSyncController(context, settings)


class MachineSetSyncController:
    """Reconciles pairs of MachineSets of one name."""

    name = "machineset_sync"

    def __init__(self, context: controller_runtime.ControllerContext, settings: MachineSetSyncSettings) -> None:
        self._context, self._settings = context, settings
        self._applier = MachineSetApplier(context.api)
        self._recorder = self._new_recorder()
        self._loop = controller_runtime.ReconcileLoop(context, self.name)
        self._served = controller_runtime.ServedApis(context.api.clock, self._discover)
        self._other_sync = watches.OtherSync(context.api)
        self._overwritten: dict[str, set[ObjectVersion]] = {}
        self._settled: dict[str, tuple[object, ...]] = {}
        """Fingerprints of pairs that need no change."""

    def check_ready(self) -> str:
        found = (self._other_sync.error, self._served.sync_error or self._loop.check_ready())
        return "; ".join(item for item in found if item)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._other_sync.wait_read()
        await self._served.run(self._run)

    async def _discover(self) -> tuple[str, str]:
        """The version of Cluster API, and the name of the cluster. NotServedError while Cluster API is not served."""
        api, group = self._context.api, machine_apis.CLUSTER_API.group
        served = await controller_runtime.find_served_version(api, group, machine_apis.CLUSTER_API.versions)
        cluster = self._settings.cluster or await find_infrastructure_name(api)
        return served.partition("/")[2], cluster

    async def _run(self, found: tuple[str, str]) -> None:
        version, cluster = found
        self._loop = controller_runtime.ReconcileLoop(self._context, self.name)
        self._applier.version = version
        self._overwritten.clear()
        self._settled.clear()
        watched = watches.MachineSetPairWatches(self._context.api, self._loop.informers, cluster, version)
        self._recorder = self._new_recorder()
        self._loop.informers.spawn(self._recorder.run())
        self._loop.informers.spawn(self._other_sync.run(lambda: self._enqueue_all(watched)))
        await self._loop.run(lambda key: self._reconcile(key, watched))

    def _new_recorder(self) -> events.EventRecorder:
        return events.EventRecorder(self._context.api, model.MANAGER, window_s=self._context.event_window_s)

    def _enqueue_all(self, watched: watches.MachineSetPairWatches) -> None:
        self._settled.clear()
        for key in watched.all_keys():
            self._loop.queue.add(key)

    async def _reconcile(self, key: str, watched: watches.MachineSetPairWatches) -> float | None:
        pair = watched.pair(key)
        if pair.machine_api is None and pair.cluster_api is None:
            self._overwritten.pop(key, None)
            self._settled.pop(key, None)
            self._export(key, "")
            return None
        if self._is_stale(pair):
            return (
                controller_runtime.CONFLICT_REQUEUE_S
            )  # the watch enqueues the key; this covers an update that it does not deliver
        if self._other_sync.is_running:
            return await self._carry_requests(pair, watched)
        watched.forget_requests(key, watched.requests(pair))
        observed = await watched.observe(pair)
        if watched.has_unequal_delete_marks(key):
            observed = dataclasses.replace(observed, machines=await watched.read_machines(pair))
        elif self._settled.get(key) == _fingerprint(observed):
            return self._settings.resync_s
        now_s = self._context.api.clock.now_s()
        sync_plan = reconcile_machine_sets(observed, now_s)
        if sync_plan.needs_machines:
            observed = dataclasses.replace(observed, machines=await watched.read_machines(pair))
            sync_plan = reconcile_machine_sets(observed, now_s)
        if deletes_machine_api(sync_plan) and await self._is_cluster_api_going(pair):
            sync_plan = reconcile_machine_sets(dataclasses.replace(observed, is_cluster_api_going=True), now_s)
        self._record_events(sync_plan, pair)
        if not sync_plan.steps or sync_plan.condition is not None:
            self._export(key, not_ready_reason(observed, sync_plan.condition))
        if sync_plan.steps:
            steps = ",".join(type(step).__name__ for step in sync_plan.steps)
            _log.info("synchronizing MachineSets: name=%s reason=%r steps=%s", key, sync_plan.reason, steps)
            return await self._apply(sync_plan, pair, watched)
        if sync_plan.condition is not None:
            written_version = await self._write_condition(sync_plan.condition, pair)
            if written_version is None:
                return controller_runtime.CONFLICT_REQUEUE_S
            if sync_plan.condition.status == "True" and not machine_apis.is_migration_requested(pair.machine_api):
                self._settled[key] = _fingerprint(observed, written_version)
        is_read = watched.knows_kinds(pair) and not observed.template_error
        return self._settings.resync_s if is_read else _KIND_REQUEUE_S

    async def _is_cluster_api_going(self, pair: machine_apis.MachineSetPair) -> bool:
        """True if a mirror is deleted because its definition, its namespace or the Cluster that owns it is.

        They are read from the server: an informer may lag behind that of MachineSets. What cannot be read ends the
        reconcile.
        """
        sets = watches.machine_sets(machine_apis.CLUSTER_API, self._applier.version)
        namespace, cluster = machine_apis.CLUSTER_API.namespace, model.get_spec(pair.cluster_api).get("clusterName")
        owner = None
        if cluster:
            owner = await self._find(CLUSTERS.at(sets.api_version).untyped(), cluster, namespace)
        if pair.cluster_api is not None and (owner is None or model.is_deleting(owner)):
            return True
        definition = await self._find(_DEFINITIONS, f"{sets.plural}.{machine_apis.CLUSTER_API.group}")
        return model.is_deleting(definition) or model.is_deleting(await self._find(NAMESPACES.untyped(), namespace))

    async def _find(self, resource: Resource[Unstructured], name: str, namespace: str = "") -> model.Json | None:
        try:
            return await self._context.api.get(resource, name, namespace)
        except errors.NotFound:
            return None

    async def _carry_requests(
        self, pair: machine_apis.MachineSetPair, watched: watches.MachineSetPairWatches
    ) -> float | None:
        """Reconcile a pair that OpenShift's own sync mirrors. Its condition and events are that sync's."""
        observed = model.ObservedMachineSetPair(pair, has_other_sync=True, requests=watched.requests(pair))
        now_s = self._context.api.clock.now_s()
        sync_plan = reconcile_machine_sets(observed, now_s)
        if sync_plan.needs_machines:
            observed = dataclasses.replace(observed, machines=await watched.read_machines(pair))
            sync_plan = reconcile_machine_sets(observed, now_s)
        if sync_plan.steps:
            outcome = await self._applier.apply(sync_plan.steps, pair, watched.templates)
            self._overwritten[pair.name] = outcome.overwritten
            if outcome.error is not None:
                raise controller_interface.RequeueError(f"{pair.name}: {outcome.error}")
            if outcome.is_conflict:
                return _REQUEST_REQUEUE_S
        watched.forget_requests(pair.name, observed.requests)
        return self._settings.resync_s

    async def _apply(
        self, sync_plan: model.SyncPlan, pair: machine_apis.MachineSetPair, watched: watches.MachineSetPairWatches
    ) -> float | None:
        outcome = await self._applier.apply(sync_plan.steps, pair, watched.templates)
        self._overwritten[pair.name] = outcome.overwritten
        if outcome.failure is not None:
            self._export(pair.name, outcome.failure.reason)
            if not outcome.overwritten:
                await self._write_condition(outcome.failure, pair)
            raise controller_interface.RequeueError(f"{pair.name}: {outcome.error}")
        if sync_plan.condition is not None and not outcome.is_conflict:
            await self._write_condition(sync_plan.condition, pair)
        return controller_runtime.CONFLICT_REQUEUE_S

    async def _write_condition(
        self, condition: model.SynchronizedCondition, pair: machine_apis.MachineSetPair
    ) -> ObjectVersion | None:
        """Write the condition if it changed; returns the version of Machine API's MachineSet, None on a conflict."""
        if pair.machine_api is None:
            return _object_version(None)
        status = authority_migration.synchronized_status(condition, pair.machine_api, self._context.api.clock.now_s())
        if status is None:
            return _object_version(pair.machine_api)
        if condition.status == "False":
            _log.warning(
                "MachineSets are not synchronized: name=%s reason=%s message=%r",
                pair.name, condition.reason, condition.message,
            )  # fmt: skip
        try:
            return _object_version(await self._applier.write_condition(status, pair))
        except (errors.NotFound, errors.Conflict):
            return None

    def _export(self, name: str, reason: str) -> None:
        """Export why a pair needs attention."""
        self._context.metrics.set_not_ready(self.name, machine_apis.MACHINE_API.namespace, name, reason)

    def _is_stale(self, pair: machine_apis.MachineSetPair) -> bool:
        """True if the store still has a version that we have overwritten."""
        overwritten = self._overwritten.get(pair.name, set())
        return any(_object_version(pair.get(api)) in overwritten for api in machine_apis.MACHINE_APIS)

    def _record_events(self, sync_plan: model.SyncPlan, pair: machine_apis.MachineSetPair) -> None:
        for event in sync_plan.events:
            body = pair.get(event.api)
            resource = watches.machine_sets(event.api, self._applier.version)
            about = events.InvolvedObject(
                resource.api_version,
                resource.kind,
                pair.name,
                event.api.namespace,
                model.get_metadata(body).get("uid") or "",
            )
            self._recorder.record(about, events.WARNING, event.reason, event.message, by_message=True)


def _fingerprint(
    observed: model.ObservedMachineSetPair, machine_api: ObjectVersion | None = None
) -> tuple[object, ...]:
    """All inputs of a plan; `machine_api` is the version after the condition was written.

    The condition itself is no input, except during a migration: a pair that needs no change stays so.
    """
    item, other = _object_version(observed.machine_api), _object_version(observed.cluster_api)
    templates = (observed.templates, observed.template_error)
    return machine_api or item, other, observed.cluster_name, observed.cluster, templates


def _object_version(machine_set: model.Json | None) -> ObjectVersion:
    metadata = model.get_metadata(machine_set)
    return metadata.get("uid") or "", metadata.get("resourceVersion") or ""


async def find_infrastructure_name(api: client.Client) -> str:
    """The cluster's name in OpenShift's Infrastructure; empty if there is none."""
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
    """Outcome of applying the steps of a plan."""

    failure: model.SynchronizedCondition | None = None
    error: errors.KubeError | None = None
    is_conflict: bool = False
    """The plan was made from stale objects."""
    overwritten: set[tuple[str, str]] = field(default_factory=set)
    """(uid, resourceVersion) of overwritten versions: a store that contains one is stale."""


class MachineSetApplier:
    """Applies steps to MachineSets, Machines and templates."""

    def __init__(self, api: client.Client) -> None:
        self._api = api.with_field_manager(model.MANAGER)
        self._annotations = api.with_field_manager(model.ANNOTATIONS_MANAGER)
        self._condition = api.with_field_manager(model.CONDITION_MANAGER)
        self._authority = api.with_field_manager(model.AUTHORITY_MANAGER)
        self.version = machine_apis.CLUSTER_API.versions[0]
        """The served version of Cluster API. Plans are in the form of the newest."""

    async def apply(
        self, steps: tuple[model.SyncStep, ...], pair: machine_apis.MachineSetPair, templates: InfrastructureTemplates
    ) -> ApplyResult:
        outcome = ApplyResult()
        at = CurrentObjects(pair, outcome)
        conflicts = (errors.NotFound, errors.Conflict)
        result = await controller_runtime.execute_steps(
            steps, lambda step: self._execute(step, at, templates), conflicts, stop_at_error=True
        )
        if result.conflict is not None:
            _log.info("MachineSets changed while they were synchronized: name=%s error=%s", pair.name, result.conflict)
            outcome.is_conflict = True
        for step, error in result.failures:
            outcome.failure = model.SynchronizedCondition("False", _failure_reason(step), str(error))
            outcome.error = error
        return outcome

    async def write_condition(self, status: Json, pair: machine_apis.MachineSetPair) -> Json:
        """Write the Synchronized condition; returns the written MachineSet of Machine API."""
        at = CurrentObjects(pair, ApplyResult())
        body = {"metadata": at.precondition(machine_apis.MACHINE_API), "status": status}
        resource = machine_apis.MACHINE_API.machine_sets()
        return await self._condition.apply(resource, body, subresource="status", force=True)

    async def _execute(self, step: model.SyncStep, at: "CurrentObjects", templates: InfrastructureTemplates) -> None:
        match step:
            case model.Create(body):
                resource = watches.machine_sets(machine_apis.CLUSTER_API, self.version)
                served = await self._to_served(machine_apis.CLUSTER_API, body, None, templates)
                whole = {"apiVersion": resource.api_version, "kind": resource.kind, **served}
                await self._api.create(resource, whole, machine_apis.CLUSTER_API.namespace)
            case model.Patch(api, patch, subresource):
                served = await self._to_served(api, patch, at.pair.get(api), templates)
                await self._patch(api, served, subresource, at)
            case model.ApplyReplicas(api, replicas):
                body = {"metadata": at.precondition(api), "spec": {"replicas": replicas}}
                at.update(api, await self._api.apply(self._sets(api), body, force=True))
            case model.ApplyAnnotations(api, annotations, removed):
                if removed:
                    await self._patch(api, {"metadata": {"annotations": dict.fromkeys(removed)}}, "", at)
                body = {"metadata": {**at.precondition(api), "annotations": dict(annotations)}}
                at.update(api, await self._annotations.apply(self._sets(api), body, force=True))
            case model.MarkMachine():
                await self._mark_machine(step)
            case model.SetAuthority(status):
                body = {"metadata": at.precondition(machine_apis.MACHINE_API), "status": dict(status)}
                resource = machine_apis.MACHINE_API.machine_sets()
                written = await self._authority.apply(resource, body, subresource="status", force=True)
                at.update(machine_apis.MACHINE_API, written)
            case model.Delete(api):
                how = request_builders.DeleteOptions(uid=model.get_metadata(at.pair.get(api)).get("uid") or "")
                await self._api.delete(self._sets(api), at.pair.name, api.namespace, how)
                at.mark_overwritten(api)
            case model.ApplyTemplate(body):
                resource = await templates.resource(body["apiVersion"], body["kind"])
                whole = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
                await self._api.apply(resource, whole, force=True)
            case model.DeleteTemplate(api_version, kind, name):
                resource = await templates.resource(api_version, kind)
                await self._api.delete(resource, name, machine_apis.CLUSTER_API.namespace)

    def _sets(self, api: machine_apis.MachineApi) -> Resource[Unstructured]:
        return watches.machine_sets(api, self.version)

    async def _to_served(
        self,
        api: machine_apis.MachineApi,
        body: model.Json,
        there: model.Json | None,
        templates: InfrastructureTemplates,
    ) -> model.Json:
        """A MachineSet, or a patch of one that is `there`, in the served version's form."""
        if api is not machine_apis.CLUSTER_API or self.version != machine_apis.V1BETA1:
            return body
        new, old = _template_reference(body), _template_reference(there)
        if "apiGroup" not in new:
            return machine_apis.to_v1beta1(body)
        version = provider_specs.template_api_version({**old, **new})
        if not version:
            found = await templates.resource(f"{new['apiGroup']}/", new.get("kind") or old.get("kind") or "")
            version = found.api_version
        return machine_apis.to_v1beta1(body, version)

    async def _patch(
        self, api: machine_apis.MachineApi, patch: model.Json, subresource: str, at: "CurrentObjects"
    ) -> None:
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": at.precondition(api)["resourceVersion"]}
        body = {**patch, "metadata": metadata}
        written = await self._api.merge_patch(
            self._sets(api), at.pair.name, body, api.namespace, subresource=subresource
        )
        is_old = api is machine_apis.CLUSTER_API and self.version == machine_apis.V1BETA1
        _log_diff(at.pair, api, machine_apis.to_v1beta2(written) if is_old else written)
        at.update(api, written)

    async def _mark_machine(self, step: model.MarkMachine) -> None:
        key = step.api.delete_machine
        if step.value is None:
            patch = {"metadata": {"annotations": {key: None}, "resourceVersion": step.resource_version}}
            await self._api.merge_patch(watches.machines(step.api, self.version), step.name, patch, step.api.namespace)
            return
        metadata = {"name": step.name, "namespace": step.api.namespace, "uid": step.uid}
        metadata |= {"resourceVersion": step.resource_version}
        body = {"metadata": {**metadata, "annotations": {key: step.value}}}
        await self._api.apply(watches.machines(step.api, self.version), body, force=True)


class CurrentObjects:
    """Current versions of a pair's MachineSets: each step builds on what the step before wrote."""

    def __init__(self, pair: machine_apis.MachineSetPair, outcome: ApplyResult) -> None:
        self.pair = pair
        self._outcome = outcome
        self._metadata = {api: model.get_metadata(pair.get(api)) for api in machine_apis.MACHINE_APIS}
        self._versions = {api: self._metadata[api].get("resourceVersion") or "" for api in machine_apis.MACHINE_APIS}

    def precondition(self, api: machine_apis.MachineApi) -> Json:
        """Identity of the precondition. The uid prevents that an apply recreates a deleted object."""
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
        """Record that the current version is overwritten."""
        self._outcome.overwritten.add((self._metadata[api].get("uid") or "", self._versions[api]))


def _log_diff(pair: machine_apis.MachineSetPair, api: machine_apis.MachineApi, written: model.Json) -> None:
    """Log the differences between the observed and the written object."""
    ignored = (
        object_diff.MACHINE_API_IGNORED_FIELDS
        if api is machine_apis.MACHINE_API
        else object_diff.CLUSTER_API_IGNORED_FIELDS
    )
    if _log.isEnabledFor(logging.INFO) and (
        text := object_diff.diff_objects(pair.get(api) or {}, written, ignored, object_diff.CLUSTER_API_OWN_CONDITIONS)
    ):
        _log.info("patched MachineSet: name=%s group=%s differences=%s", pair.name, api.group, text)


def _template_reference(machine_set: model.Json | None) -> model.Json:
    machine = (model.get_spec(machine_set).get("template") or {}).get("spec") or {}
    return machine.get("infrastructureRef") or {}


def _failure_reason(step: model.SyncStep) -> str:
    """The condition reason for a failed step."""
    match step:
        case model.Create():
            return model.FAILED_TO_CREATE_CLUSTER_API
        case model.ApplyTemplate() | model.DeleteTemplate():
            return model.FAILED_TO_UPDATE_TEMPLATE
        case model.SetAuthority():
            return model.FAILED_TO_UPDATE_MACHINE_API
    is_machine_api = step.api is machine_apis.MACHINE_API
    return model.FAILED_TO_UPDATE_MACHINE_API if is_machine_api else model.FAILED_TO_UPDATE_CLUSTER_API
