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
from windlass.kube import client, discovery, errors, events, request_builders
from windlass.kube.resources import Resource, Unstructured

_UNSYNCED_REQUEUE_S = 5.0

_CONFLICT_REQUEUE_S = 0.1
"""A MachineSet changed before it was written to. If only its size did, nobody is woken by that."""


def new_controller(
    site: controller_runtime.ControllerContext, settings: MachineAutoscalerSettings
) -> "MachineAutoscalerController":
    return MachineAutoscalerController(site, settings)


JsonObject = dict[str, Any]

ServedResource = Callable[[machine_apis.MachineApi], Resource[Unstructured]]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What came of a plan."""

    failure_reason: str = ""
    """The reason of the event that tells of what could not be done; empty if all was."""
    message: str = ""
    is_conflict: bool = False
    """Someone else was faster: the plan was made from what is no longer the case."""


class MachineAutoscalerApplier:
    """Carries plans out. What fails keeps what comes after it from being done."""

    def __init__(self, api: client.Client, spoken: ServedResource) -> None:
        self._api = api
        self._served_resource = spoken
        self._pruned_conditions = controller_runtime.PrunedConditions()

    async def apply(
        self, plan: MachineAutoscalerPlan, autoscaler: model.MachineAutoscaler
    ) -> tuple[model.MachineAutoscaler, ApplyResult]:
        """What came of it, and the MachineAutoscaler as it then is.

        Before a target is written to, the MachineAutoscaler has its finalizer and says what its target is: whatever
        ends us, nothing is left behind that nobody remembers.
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
        """Say what is the case, if that is news."""
        patch = model.status_patch(autoscaler.status, status)
        if not patch:
            return autoscaler
        body = await self._patch(autoscaler, patch, subresource="status")
        self._pruned_conditions.record(autoscaler.uid, status.conditions, (body.get("status") or {}).get("conditions"))
        version = body["metadata"].get("resourceVersion") or ""
        return dataclasses.replace(autoscaler, status=status, resource_version=version)

    def restore_conditions(self, autoscaler: model.MachineAutoscaler) -> model.MachineAutoscaler:
        """With the conditions that the server did not keep."""
        found = autoscaler.status
        said = self._pruned_conditions.restore(autoscaler.uid, found.conditions)
        return dataclasses.replace(autoscaler, status=dataclasses.replace(found, conditions=said))

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
        """Only of the object that was looked at. One that is gone needs nothing taken off."""
        looked_at = {"uid": step.uid, "resourceVersion": step.resource_version}
        body = {"metadata": {**looked_at, "annotations": dict(step.annotations)}}
        try:
            await self._api.merge_patch(self._served_resource(step.api), step.name, body, step.api.namespace)
        except errors.NotFound:
            if must_exist:
                raise


Json = Mapping[str, Any]


class MachineAutoscalerWatches:
    """What is known."""

    def __init__(
        self,
        site: controller_runtime.ControllerContext,
        settings: MachineAutoscalerSettings,
        at: controller_runtime.ReconcileLoop,
    ) -> None:
        self._queue = at.queue
        self._own = at.informers.watch(
            site.api,
            machine_apis.MACHINE_AUTOSCALERS,
            self._affected_keys,
            request_builders.ListOptions(settings.namespace),
            {"set": lambda body: model.parse_machine_autoscaler(body).sets},
        )
        self.sets = MachineSetWatches(
            site, at.informers, self._target_keys, self._enqueue_all, settings.release_version
        )

    def get(self, key: str) -> model.MachineAutoscaler | None:
        body = self._own.store.get(key)
        return None if body is None else model.parse_machine_autoscaler(body)

    def observe(self, autoscaler: model.MachineAutoscaler) -> model.ObservedMachineAutoscaler | None:
        """All that a decision needs; None as long as something is not known yet."""
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
        """Itself, and whoever is about the same MachineSets: what one lets go another may have."""
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
    """Keeps MachineSets annotated as MachineAutoscalers want them."""

    name = "machine_autoscaler"

    def __init__(self, site: controller_runtime.ControllerContext, settings: MachineAutoscalerSettings) -> None:
        self._context = site
        self._settings = settings
        self._api = site.api.with_field_manager(machine_apis.OPERATOR_MANAGER)
        self._loop = controller_runtime.ReconcileLoop(site, self.name)
        self._watches: MachineAutoscalerWatches | None = None

    def check_ready(self) -> str:
        found = (self._loop.check_ready(), self._watches.sets.sync_error if self._watches else "")
        return "; ".join(each for each in found if each)

    async def run(self) -> None:
        """Until cancelled."""
        watched = self._watches = MachineAutoscalerWatches(self._context, self._settings, self._loop)
        hands = MachineAutoscalerApplier(self._api, watched.sets.served_resource)
        # Plans tell what is new, and nothing twice: each event is worth being written.
        recorder = events.EventRecorder(self._context.api, machine_apis.OPERATOR_MANAGER, window_s=0.0)
        self._loop.informers.spawn(recorder.run())
        await self._loop.run(lambda key: self._reconcile(key, watched, hands, recorder))

    async def _reconcile(
        self,
        key: str,
        watched: MachineAutoscalerWatches,
        hands: MachineAutoscalerApplier,
        recorder: events.EventRecorder,
    ) -> float | None:
        found = watched.get(key)
        if found is None:
            return None
        before = hands.restore_conditions(found)
        seen = watched.observe(before)
        if seen is None:
            return _UNSYNCED_REQUEUE_S
        now_s = self._context.api.clock.now_s()
        plan = reconcile_machine_autoscaler(seen, now_s)
        found, outcome = await hands.apply(plan, before)
        if outcome.is_conflict:
            return _CONFLICT_REQUEUE_S
        if outcome.failure_reason:
            return await self._report_failure(found, outcome, hands, recorder)
        if not found.is_deleting and not await self._write_status(found, plan.status, hands):
            return controller_runtime.CONFLICT_REQUEUE_S
        self._record_events(before, plan.events, recorder, watched)
        return self._settings.resync_s if plan.requeue_after_s is None else plan.requeue_after_s

    async def _write_status(
        self, found: model.MachineAutoscaler, status: model.MachineAutoscalerStatus, hands: MachineAutoscalerApplier
    ) -> bool:
        """Say what is the case; whether it was said, or need not be any longer."""
        try:
            await hands.write_status(found, status)
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _report_failure(
        self,
        found: model.MachineAutoscaler,
        outcome: ApplyResult,
        hands: MachineAutoscalerApplier,
        recorder: events.EventRecorder,
    ) -> float | None:
        """What could not be done is said, and tried again later, and later each time."""
        event = TargetEvent(
            "Warning", outcome.failure_reason, outcome.message, outcome.failure_reason.removeprefix("Failed")
        )
        self._record_events(found, (event,), recorder)
        if not found.is_deleting:
            now_s = self._context.api.clock.now_s()
            told = ready_conditions(found, False, model.TARGET_UPDATE_FAILED, outcome.message, now_s)
            await self._write_status(found, dataclasses.replace(found.status, conditions=told), hands)
        raise controller_interface.RequeueError(outcome.message)

    def _record_events(
        self,
        of: model.MachineAutoscaler,
        told: tuple[TargetEvent, ...],
        recorder: events.EventRecorder,
        watched: MachineAutoscalerWatches | None = None,
    ) -> None:
        about = events.InvolvedObject(model.API_VERSION, model.KIND, of.name, of.namespace, of.uid)
        for event in told:
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
    """What of a MachineSet matters: replicas, and how they fare, change all the time, and do not."""
    metadata, spec = machine_set.get("metadata") or {}, machine_set.get("spec") or {}
    status = machine_set.get("status") or {}
    held = (spec.get("authoritativeAPI"), status.get("authoritativeAPI"))
    return metadata.get("uid"), metadata.get("annotations"), metadata.get("deletionTimestamp"), held


class MachineSetWatches:
    """What is known of MachineSets, and of what may be known."""

    def __init__(
        self,
        site: controller_runtime.ControllerContext,
        follow: controller_runtime.InformerSet,
        keys: MachineSetKeys,
        wake_all: Callable[[], None],
        version: str = "",
    ) -> None:
        """`keys` says whom a MachineSet concerns; gates are those of an OpenShift `version`."""
        self._api, self._informers, self._keys, self._enqueue_all, self._version = (
            site.api,
            follow,
            keys,
            wake_all,
            version,
        )
        self._gates = follow.watch(site.api, machine_apis.FEATURE_GATES, self._enqueue)
        self._infrastructures = follow.watch(site.api, machine_apis.INFRASTRUCTURES, self._enqueue)
        self._watched: dict[machine_apis.MachineApi, controller_runtime.WatchedResource[Unstructured]] = {}
        self._absent: dict[machine_apis.MachineApi, float] = {}
        """APIs that the server lacks, and when it said so."""
        follow.spawn(self._update_watches())

    @property
    def gates(self) -> machine_apis.FeatureGates:
        found = (
            self._gates.store.get(machine_apis.CLUSTER_SINGLETON),
            self._infrastructures.store.get(machine_apis.CLUSTER_SINGLETON),
        )
        return machine_apis.parse_feature_gates(*found, self._version)

    @property
    def enabled_apis(self) -> tuple[machine_apis.MachineApi, ...]:
        """The APIs that may be looked at."""
        return machine_apis.MACHINE_APIS if self.gates.has_cluster_api else (machine_apis.MACHINE_API,)

    @property
    def served_apis(self) -> frozenset[machine_apis.MachineApi] | None:
        """Those of them that the server has; None while that is not known, or what they hold is not."""
        followed = frozenset(api for api in self.enabled_apis if self._is_known(api))
        return followed if all(api in followed or api in self._absent for api in self.enabled_apis) else None

    @property
    def sync_error(self) -> str:
        """Why what is known may be out of date; empty if it is not."""
        return "; ".join(complaint for each in self._watched.values() if (complaint := each.sync_error))

    def pair(self, name: str) -> machine_apis.MachineSetPair:
        """The MachineSets of a name, as far as they may be looked at."""
        return machine_apis.MachineSetPair(
            name, *(self._get(api, name) if api in self.enabled_apis else None for api in machine_apis.MACHINE_APIS)
        )

    def served_resource(self, api: machine_apis.MachineApi) -> Resource[Unstructured]:
        """Its MachineSets, in the version that the server has."""
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
        for followed in (self._gates, self._infrastructures):
            await followed.informer.wait_synced()
        while True:
            for api in machine_apis.MACHINE_APIS:
                await self._update_watch(api)
            await self._api.clock.sleep(_GATES_INTERVAL_S)

    async def _update_watch(self, api: machine_apis.MachineApi) -> None:
        if api not in self.enabled_apis:
            self._absent.pop(api, None)
            if api in self._watched:
                self._watched.pop(api).stop()
            return
        now_s = self._api.clock.monotonic_s()
        if api in self._watched or now_s < self._absent.get(api, now_s - _DISCOVERY_INTERVAL_S) + _DISCOVERY_INTERVAL_S:
            return
        try:
            found = await self._find(api)
        except errors.KubeError as error:
            _log.warning("%s: %s", api.group, error)
            return
        if found is None:
            if api not in self._absent:
                self._enqueue_all()
            self._absent[api] = now_s
            return
        self._absent.pop(api, None)
        within = request_builders.ListOptions(api.namespace)
        followed = self._informers.watch(self._api, found, self._keys, within, sees=relevant_fields, required=False)
        self._watched[api] = followed
        self._informers.spawn(self._enqueue_when_synced(followed))

    async def _find(self, api: machine_apis.MachineApi) -> Resource[Unstructured] | None:
        for version in api.versions:
            found = await discovery.find_resource(self._api, f"{api.group}/{version}", "MachineSet")
            if found is not None:
                return found
        return None

    async def _enqueue_when_synced(self, followed: controller_runtime.WatchedResource[Unstructured]) -> None:
        await followed.informer.wait_synced()
        self._enqueue_all()
