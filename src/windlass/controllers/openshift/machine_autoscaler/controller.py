"""MachineAutoscaler controller: watches, finalizer, target annotations, status and events.

MachineSets of Cluster API are watched only while its feature gate is enabled and the server serves the kind. The
finalizer and `lastTargetRef` are written before the target is, so that an interruption leaves no unknown annotations.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_autoscaler import model
from windlass.controllers.openshift.machine_autoscaler.model import (
    AnnotateMachineSet,
    MachineAutoscalerPlan,
    MachineAutoscalerSettings,
    TargetEvent,
)
from windlass.controllers.openshift.machine_autoscaler.reconcile import ready_conditions, reconcile_machine_autoscaler
from windlass.kube import client, discovery, errors, events, request_builders, unstructured
from windlass.kube.resources import Resource, Unstructured

_UNSYNCED_REQUEUE_S = 5.0

_CONFLICT_REQUEUE_S = 0.1
"""Requeue after a MachineSet changed. A change of its size alone enqueues nothing."""


def new_controller(
    context: controller_runtime.ControllerContext, settings: MachineAutoscalerSettings
) -> "MachineAutoscalerController":
    return MachineAutoscalerController(context, settings)


JsonObject = dict[str, Any]

ServedResource = Callable[[machine_apis.MachineApi], Resource[Unstructured]]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Outcome of applying a plan."""

    failure_reason: str = ""
    """Reason of the failure event; empty if all steps succeeded."""
    message: str = ""
    is_conflict: bool = False
    """The plan was made from stale objects."""


class MachineAutoscalerApplier:
    """Applies plans. The first failed step stops the rest."""

    def __init__(self, api: client.Client, spoken: ServedResource) -> None:
        self._api = api
        self._served_resource = spoken
        self._pruned_conditions = controller_runtime.PrunedConditions()

    async def apply(
        self, plan: MachineAutoscalerPlan, autoscaler: model.MachineAutoscaler
    ) -> tuple[model.MachineAutoscaler, ApplyResult]:
        """Apply a plan; returns the written MachineAutoscaler and the outcome.

        Finalizer and `lastTargetRef` are written before the target's annotations, so that an interruption leaves no
        annotations without a record.
        """
        doing = model.FAILED_FINALIZE_TARGET
        try:
            if plan.release is not None:
                await self._annotate(plan.release)
            doing = model.FAILED_UPDATE_TARGET
            if plan.finalizers is not None:
                autoscaler = await self._finalize(autoscaler, plan.finalizers)
            if autoscaler.is_deleting:
                return autoscaler, ApplyResult()
            doing = model.FAILED_SET_LAST_TARGET
            status = dataclasses.replace(autoscaler.status, last_target=plan.status.last_target)
            autoscaler = await self.write_status(autoscaler, status)
            doing = model.FAILED_UPDATE_TARGET
            if plan.target is not None:
                await self._annotate(plan.target, must_exist=True)
        except errors.Conflict:
            return autoscaler, ApplyResult(is_conflict=True)
        except errors.KubeError as error:
            return autoscaler, ApplyResult(doing, str(error))
        return autoscaler, ApplyResult()

    async def write_status(
        self, autoscaler: model.MachineAutoscaler, status: model.MachineAutoscalerStatus
    ) -> model.MachineAutoscaler:
        """Write the status if it changed."""
        patch = model.status_patch(autoscaler.status, status)
        if not patch:
            return autoscaler
        body = await self._patch(autoscaler, patch, subresource="status")
        self._pruned_conditions.record(autoscaler.uid, status.conditions, (body.get("status") or {}).get("conditions"))
        version = body["metadata"].get("resourceVersion") or ""
        return dataclasses.replace(autoscaler, status=status, resource_version=version)

    def restore_conditions(self, autoscaler: model.MachineAutoscaler) -> model.MachineAutoscaler:
        """The MachineAutoscaler with conditions that the server pruned."""
        machine_autoscaler_status = autoscaler.status
        conditions = self._pruned_conditions.restore(autoscaler.uid, machine_autoscaler_status.conditions)
        return dataclasses.replace(
            autoscaler, status=dataclasses.replace(machine_autoscaler_status, conditions=conditions)
        )

    async def _finalize(
        self, autoscaler: model.MachineAutoscaler, finalizers: tuple[str, ...]
    ) -> model.MachineAutoscaler:
        try:
            body = await self._patch(autoscaler, {"metadata": {"finalizers": list(finalizers)}})
        except errors.NotFound:
            return autoscaler
        version = body["metadata"].get("resourceVersion") or ""
        return dataclasses.replace(autoscaler, finalizers=finalizers, resource_version=version)

    async def _patch(self, autoscaler: model.MachineAutoscaler, patch: JsonObject, subresource: str = "") -> JsonObject:
        resource = machine_apis.MACHINE_AUTOSCALERS
        metadata = {**patch.get("metadata", {}), "resourceVersion": autoscaler.resource_version}
        body = {**patch, "metadata": metadata}
        return await self._api.merge_patch(
            resource, autoscaler.name, body, autoscaler.namespace, subresource=subresource
        )

    async def _annotate(self, step: AnnotateMachineSet, *, must_exist: bool = False) -> None:
        """Annotate a MachineSet on its observed resourceVersion; a deleted MachineSet needs no release."""
        looked_at = {"uid": step.uid, "resourceVersion": step.resource_version}
        body = {"metadata": {**looked_at, "annotations": dict(step.annotations)}}
        try:
            await self._api.merge_patch(self._served_resource(step.api), step.name, body, step.api.namespace)
        except errors.NotFound:
            if must_exist:
                raise


Json = Mapping[str, Any]


class MachineAutoscalerWatches:
    """Informers of MachineAutoscalers and MachineSets."""

    def __init__(
        self,
        context: controller_runtime.ControllerContext,
        settings: MachineAutoscalerSettings,
        at: controller_runtime.ReconcileLoop,
    ) -> None:
        self._queue = at.queue
        self._own = at.informers.watch(
            context.api,
            machine_apis.MACHINE_AUTOSCALERS,
            self._affected_keys,
            request_builders.ListOptions(settings.namespace),
            {"set": lambda body: model.parse_machine_autoscaler(body).sets},
        )
        self.sets = MachineSetWatches(
            context, at.informers, self._target_keys, self._enqueue_all, settings.release_version
        )

    def get(self, key: str) -> model.MachineAutoscaler | None:
        body = self._own.store.get(key)
        return None if body is None else model.parse_machine_autoscaler(body)

    def observe(self, autoscaler: model.MachineAutoscaler) -> model.ObservedMachineAutoscaler | None:
        """Facts for one reconcile; None while an informer has not synced."""
        supported = self.sets.served_apis
        if supported is None:
            return None
        last = autoscaler.status.last_target
        before = last.machine_set if last is not None else ""
        is_moved = bool(before) and before != autoscaler.target.machine_set
        others = [
            model.parse_machine_autoscaler(body)
            for name in autoscaler.sets
            for body in self._own.store.find("set", name)
        ]
        return model.ObservedMachineAutoscaler(
            autoscaler,
            supported,
            self.sets.pair(autoscaler.target.name),
            self.sets.pair(before) if is_moved else None,
            {other.key: other for other in others if other.key != autoscaler.key},
        )

    def _affected_keys(self, body: Json) -> list[str]:
        """Keys of all MachineAutoscalers of the same MachineSets, one of which may take over a released one."""
        read = model.parse_machine_autoscaler(body)
        return [read.key, *(key for name in read.sets for key in self._keys_by_machine_set(name))]

    def _target_keys(self, machine_set: Json) -> list[str]:
        return self._keys_by_machine_set(machine_set["metadata"]["name"])

    def _keys_by_machine_set(self, name: str) -> list[str]:
        return [model.parse_machine_autoscaler(body).key for body in self._own.store.find("set", name)]

    def _enqueue_all(self) -> None:
        for key in self._own.store.keys():  # noqa: SIM118
            self._queue.add(key)


class MachineAutoscalerController:
    """Reconciles MachineAutoscalers."""

    name = "machine_autoscaler"

    def __init__(self, context: controller_runtime.ControllerContext, settings: MachineAutoscalerSettings) -> None:
        self._context = context
        self._settings = settings
        self._api = context.api.with_field_manager(machine_apis.OPERATOR_MANAGER)
        self._loop = controller_runtime.ReconcileLoop(context, self.name)
        self._watches: MachineAutoscalerWatches | None = None

    def check_ready(self) -> str:
        found = (self._loop.check_ready(), self._watches.sets.sync_error if self._watches else "")
        return "; ".join(item for item in found if item)

    async def run(self) -> None:
        """Run until cancelled."""
        watched = self._watches = MachineAutoscalerWatches(self._context, self._settings, self._loop)
        applier = MachineAutoscalerApplier(self._api, watched.sets.served_resource)
        # A plan contains new events only, so that none needs correlation.
        recorder = events.EventRecorder(self._context.api, machine_apis.OPERATOR_MANAGER, window_s=0.0)
        self._loop.informers.spawn(recorder.run())
        await self._loop.run(lambda key: self._reconcile(key, watched, applier, recorder))

    async def _reconcile(
        self,
        key: str,
        watched: MachineAutoscalerWatches,
        applier: MachineAutoscalerApplier,
        recorder: events.EventRecorder,
    ) -> float | None:
        machine_autoscaler = watched.get(key)
        if machine_autoscaler is None:
            self._export(key, ())
            return None
        before = applier.restore_conditions(machine_autoscaler)
        observed = watched.observe(before)
        if observed is None:
            return _UNSYNCED_REQUEUE_S
        now_s = self._context.api.clock.now_s()
        plan = reconcile_machine_autoscaler(observed, now_s)
        machine_autoscaler, outcome = await applier.apply(plan, before)
        if outcome.is_conflict:
            return _CONFLICT_REQUEUE_S
        if outcome.failure_reason:
            return await self._report_failure(machine_autoscaler, outcome, applier, recorder)
        self._export(key, plan.status.conditions)
        if not await self._write_status(machine_autoscaler, plan.status, applier):
            return controller_runtime.CONFLICT_REQUEUE_S
        self._record_events(before, plan.events, recorder, watched)
        return self._settings.resync_s if plan.requeue_after_s is None else plan.requeue_after_s

    def _export(self, key: str, conditions: controller_runtime.Conditions) -> None:
        """Export the reason of a Ready condition that is False."""
        namespace, _, name = key.partition("/")
        ready = unstructured.find_condition(conditions, model.READY) or {}
        reason = ready.get("reason") or "" if ready.get("status") == "False" else ""
        self._context.metrics.set_not_ready(self.name, namespace, name, reason)

    async def _write_status(
        self,
        machine_autoscaler: model.MachineAutoscaler,
        status: model.MachineAutoscalerStatus,
        applier: MachineAutoscalerApplier,
    ) -> bool:
        """Write the status if it changed; False on a conflict."""
        try:
            await applier.write_status(machine_autoscaler, status)
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _report_failure(
        self,
        machine_autoscaler: model.MachineAutoscaler,
        outcome: ApplyResult,
        applier: MachineAutoscalerApplier,
        recorder: events.EventRecorder,
    ) -> float | None:
        """Record the failure and retry with backoff."""
        event = TargetEvent(
            "Warning", outcome.failure_reason, outcome.message, outcome.failure_reason.removeprefix("Failed")
        )
        self._record_events(machine_autoscaler, (event,), recorder)
        if not machine_autoscaler.is_deleting:
            now_s = self._context.api.clock.now_s()
            conditions = ready_conditions(machine_autoscaler, False, model.TARGET_UPDATE_FAILED, outcome.message, now_s)
            self._export(machine_autoscaler.key, conditions)
            await self._write_status(
                machine_autoscaler, dataclasses.replace(machine_autoscaler.status, conditions=conditions), applier
            )
        raise controller_interface.RequeueError(outcome.message)

    def _record_events(
        self,
        of: model.MachineAutoscaler,
        recorded: tuple[TargetEvent, ...],
        recorder: events.EventRecorder,
        watched: MachineAutoscalerWatches | None = None,
    ) -> None:
        about = events.InvolvedObject(model.API_VERSION, model.KIND, of.name, of.namespace, of.uid)
        for event in recorded:
            whom = about
            if event.of_target is not None and watched is not None:
                api = event.of_target
                metadata = (watched.sets.pair(of.target.name).get(api) or {}).get("metadata") or {}
                version = watched.sets.served_resource(api).api_version
                whom = events.InvolvedObject(
                    version, "MachineSet", of.target.name, api.namespace, metadata.get("uid") or ""
                )
            controller_runtime.record_event(recorder, whom, event)


_GATES_INTERVAL_S = 1.0

_DISCOVERY_INTERVAL_S = 15.0

_log = logging.getLogger(__name__)

MachineSetKeys = Callable[[Unstructured], Iterable[str]]


def relevant_fields(machine_set: Unstructured) -> object:
    """Relevant fields of a MachineSet: replicas and status change often and are ignored."""
    metadata, spec = machine_set.get("metadata") or {}, machine_set.get("spec") or {}
    status = machine_set.get("status") or {}
    held = (spec.get("authoritativeAPI"), status.get("authoritativeAPI"))
    return metadata.get("uid"), metadata.get("annotations"), metadata.get("deletionTimestamp"), held


class MachineSetWatches:
    """Informers of MachineSets, for APIs that are enabled and served."""

    def __init__(
        self,
        context: controller_runtime.ControllerContext,
        follow: controller_runtime.InformerSet,
        keys: MachineSetKeys,
        wake_all: Callable[[], None],
        version: str = "",
    ) -> None:
        """`keys` maps a MachineSet to the keys to reconcile.

        `version` selects OpenShift's feature gates; by default it is the cluster's.
        """
        self._api, self._informers, self._keys, self._enqueue_all, self._version = (
            context.api,
            follow,
            keys,
            wake_all,
            version,
        )
        self._gates = follow.watch(context.api, machine_apis.FEATURE_GATES, self._enqueue)
        self._infrastructures = follow.watch(context.api, machine_apis.INFRASTRUCTURES, self._enqueue)
        self._versions: controller_runtime.WatchedResource[Unstructured] | None = None
        if not version:
            self._versions = follow.watch(
                context.api, machine_apis.CLUSTER_VERSIONS, self._enqueue, sees=machine_apis.parse_release_version
            )
        self._watched: dict[machine_apis.MachineApi, controller_runtime.WatchedResource[Unstructured]] = {}
        self._absent: set[machine_apis.MachineApi] = set()
        """APIs that the server lacks."""
        self._discovered_s: dict[machine_apis.MachineApi, float] = {}
        """When it was last asked for an API."""
        follow.spawn(self._update_watches())

    @property
    def gates(self) -> machine_apis.FeatureGates:
        found = (
            self._gates.store.get(machine_apis.CLUSTER_SINGLETON),
            self._infrastructures.store.get(machine_apis.CLUSTER_SINGLETON),
        )
        return machine_apis.parse_feature_gates(*found, self._release_version)

    @property
    def _release_version(self) -> str:
        if self._versions is None:
            return self._version
        return machine_apis.parse_release_version(self._versions.store.get(machine_apis.CLUSTER_VERSION_SINGLETON))

    @property
    def enabled_apis(self) -> tuple[machine_apis.MachineApi, ...]:
        """APIs enabled by feature gates."""
        return machine_apis.MACHINE_APIS if self.gates.scales_cluster_api else (machine_apis.MACHINE_API,)

    @property
    def served_apis(self) -> frozenset[machine_apis.MachineApi] | None:
        """Enabled APIs that the server serves; None while discovery or an informer has not synced."""
        followed = frozenset(api for api in self.enabled_apis if self._is_known(api))
        return followed if all(api in followed or api in self._absent for api in self.enabled_apis) else None

    @property
    def sync_error(self) -> str:
        """Why stores may be outdated; empty if they are current."""
        return "; ".join(
            complaint for watched_resource in self._watched.values() if (complaint := watched_resource.sync_error)
        )

    def pair(self, name: str) -> machine_apis.MachineSetPair:
        """The MachineSets of a name, of enabled APIs."""
        return machine_apis.MachineSetPair(
            name, *(self._get(api, name) if api in self.enabled_apis else None for api in machine_apis.MACHINE_APIS)
        )

    def served_resource(self, api: machine_apis.MachineApi) -> Resource[Unstructured]:
        """The MachineSet resource in the version that the server serves."""
        followed = self._watched.get(api)
        return api.machine_sets() if followed is None else followed.informer.resource

    def _get(self, api: machine_apis.MachineApi, name: str) -> Unstructured | None:
        followed = self._watched.get(api)
        return None if followed is None else followed.store.get(f"{api.namespace}/{name}")

    def _is_known(self, api: machine_apis.MachineApi) -> bool:
        return api in self._watched and self._watched[api].informer.synced

    def _enqueue(self, _: Unstructured) -> list[str]:
        self._enqueue_all()
        return []

    async def _update_watches(self) -> None:
        for followed in (self._gates, self._infrastructures, *([self._versions] if self._versions else [])):
            await followed.informer.wait_synced()
        while True:
            for api in machine_apis.MACHINE_APIS:
                await self._update_watch(api)
            await self._api.clock.sleep(_GATES_INTERVAL_S)

    async def _update_watch(self, api: machine_apis.MachineApi) -> None:
        if api not in self.enabled_apis:
            self._absent.discard(api)
            self._discovered_s.pop(api, None)
            if api in self._watched:
                self._watched.pop(api).stop()
            return
        now_s, followed = self._api.clock.monotonic_s(), self._watched.get(api)
        if followed is not None and not isinstance(followed.informer.last_error, errors.NotFound):
            return
        if now_s < self._discovered_s.get(api, -_DISCOVERY_INTERVAL_S) + _DISCOVERY_INTERVAL_S:
            return
        try:
            resource = await self._find(api)
        except errors.KubeError as error:
            _log.warning("failed to discover API versions: group=%s error=%s", api.group, error)
            return
        self._discovered_s[api] = now_s
        if followed is not None:
            if resource == followed.informer.resource:
                return
            self._watched.pop(api).stop()  # the server has it in another version from now on, or not at all
        if resource is None:
            if api not in self._absent:
                self._absent.add(api)
                self._enqueue_all()
            return
        self._absent.discard(api)
        within = request_builders.ListOptions(api.namespace)
        followed = self._informers.watch(self._api, resource, self._keys, within, sees=relevant_fields, required=False)
        self._watched[api] = followed
        self._informers.spawn(self._enqueue_when_synced(followed))

    async def _find(self, api: machine_apis.MachineApi) -> Resource[Unstructured] | None:
        for version in api.versions:
            resource = await discovery.find_resource(self._api, f"{api.group}/{version}", "MachineSet")
            if resource is not None:
                return resource
        return None

    async def _enqueue_when_synced(self, followed: controller_runtime.WatchedResource[Unstructured]) -> None:
        await followed.informer.wait_synced()
        self._enqueue_all()
