"""ClusterAutoscaler controller: watches, applies the plan, writes status, events and the ClusterOperator.

Steps run in order until the first one fails. An update replaces the whole spec, except server-assigned Service fields.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.controller_interface import Event
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import model, reconcile
from windlass.controllers.openshift.cluster_autoscaler.model import (
    ClusterAutoscalerSettings,
    DeleteObject,
    EnsureObject,
)
from windlass.controllers.openshift.cluster_autoscaler.reconcile import ready_conditions, reconcile_cluster_autoscaler
from windlass.kube import client, errors, events, request_builders
from windlass.kube.resources import Unstructured


def new_controller(
    context: controller_runtime.ControllerContext, settings: ClusterAutoscalerSettings
) -> "ClusterAutoscalerController":
    return ClusterAutoscalerController(context, settings)


def event_target(of: model.ClusterAutoscaler, namespace: str) -> events.InvolvedObject:
    return events.InvolvedObject(model.API_VERSION, model.KIND, of.name, namespace, of.uid)


Json = dict[str, Any]

_ACTION_BY_KIND = {
    model.SERVICE.kind: ("EnsureMonitoring", "monitoring"),
    model.SERVICE_MONITOR.kind: ("EnsureMonitoring", "monitoring"),
    model.PROMETHEUS_RULE.kind: ("EnsureMonitoring", "monitoring"),
    model.NETWORK_POLICY.kind: ("EnsureNetworkPolicies", "networkpolicies"),
}


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Outcome of applying steps."""

    failure: Event | None = None
    is_conflict: bool = False
    """The plan was made from stale objects."""


class ObjectApplier:
    """Creates, replaces and deletes objects of one namespace."""

    def __init__(self, api: client.Client, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def apply(self, steps: tuple[EnsureObject | DeleteObject, ...]) -> ApplyResult:
        """Execute steps in order, until the first error."""
        conflicts = (errors.Conflict, errors.AlreadyExists)
        result = await controller_runtime.execute_steps(steps, self._execute, conflicts, stop_at_error=True)
        event = next((_failure_event(step, error) for step, error in result.failures), None)
        return ApplyResult(event, result.is_conflict)

    async def _execute(self, step: EnsureObject | DeleteObject) -> None:
        if isinstance(step, DeleteObject):
            try:
                await self._api.delete(
                    step.resource, step.name, self._namespace, request_builders.DeleteOptions(uid=step.uid)
                )
            except errors.NotFound:
                return
        elif step.live is None:
            await self._api.create(step.resource, step.body, self._namespace)
        else:
            await self._api.update(step.resource, merge_into_live(step))


def merge_into_live(step: EnsureObject) -> Json:
    """The live object with the desired spec.

    The whole spec is replaced, so that fields of earlier versions or other writers go. A Service keeps its addresses.
    """
    live, desired = dict(step.live or {}), step.body
    metadata = dict(live.get("metadata") or {})
    for name in ("labels", "annotations"):
        if name in desired["metadata"]:
            metadata[name] = {**(metadata.get(name) or {}), **desired["metadata"][name]}
    metadata["ownerReferences"] = desired["metadata"]["ownerReferences"]
    spec = desired["spec"]
    if step.resource.kind == model.SERVICE.kind:
        spec = {**(live.get("spec") or {}), **spec}
    return {**live, "metadata": metadata, "spec": spec}


def _failure_event(step: EnsureObject | DeleteObject, error: errors.KubeError) -> Event:
    if step.resource.kind in _ACTION_BY_KIND:
        action, what = _ACTION_BY_KIND[step.resource.kind]
        message = f"Error ensuring ClusterAutoscaler {what}: {step.resource.kind} {step.name}: {error}"
        return Event("Warning", model.FAILED_CREATE, message, action)
    if isinstance(step, EnsureObject) and step.live is None:
        message = f"Error creating ClusterAutoscaler deployment: {error}"
        return Event("Warning", model.FAILED_CREATE, message, "CreateDeployment")
    message = f"Error updating cluster-autoscaler deployment: {error}"
    return Event("Warning", model.FAILED_UPDATE, message, "UpdateDeployment")


CLUSTER_OPERATOR_KEY = "/the operator itself"
"""Queue key of the ClusterOperator. Not the key of a ClusterAutoscaler, whose key has no slash."""


class ClusterAutoscalerWatches:
    """Informers of the ClusterAutoscaler and of the objects that it owns or depends on."""

    def __init__(
        self,
        context: controller_runtime.ControllerContext,
        settings: ClusterAutoscalerSettings,
        at: controller_runtime.InformerSet,
    ) -> None:
        self._settings = settings
        follow = at.watch
        within = request_builders.ListOptions(settings.namespace)
        self._own = follow(
            context.api, model.CLUSTER_AUTOSCALERS, lambda body: [body["metadata"]["name"], CLUSTER_OPERATOR_KEY]
        )
        self._owned: dict[str, controller_runtime.WatchedResource[Unstructured]] = {
            resource.kind: follow(context.api, resource, self._owner_keys, within) for resource in model.OWNED
        }
        self._operators = follow(context.api, model.CLUSTER_OPERATORS, self._operator_keys)
        self._gates = follow(context.api, machine_apis.FEATURE_GATES, self._all_keys)
        self._infrastructures = follow(context.api, machine_apis.INFRASTRUCTURES, self._all_keys)
        self._versions: controller_runtime.WatchedResource[Unstructured] | None = None
        if not settings.release_version:
            self._versions = follow(
                context.api, machine_apis.CLUSTER_VERSIONS, self._all_keys, sees=machine_apis.parse_release_version
            )
        self._machine_autoscalers = follow(
            context.api, machine_apis.MACHINE_AUTOSCALERS, lambda _: [CLUSTER_OPERATOR_KEY], within
        )

    @property
    def settings(self) -> ClusterAutoscalerSettings:
        """The settings, with the cluster's version where none is set."""
        if self._versions is None:
            return self._settings
        found = self._versions.store.get(machine_apis.CLUSTER_VERSION_SINGLETON)
        return dataclasses.replace(self._settings, release_version=machine_apis.parse_release_version(found))

    @property
    def gates(self) -> machine_apis.FeatureGates:
        found = (
            self._gates.store.get(machine_apis.CLUSTER_SINGLETON),
            self._infrastructures.store.get(machine_apis.CLUSTER_SINGLETON),
        )
        return machine_apis.parse_feature_gates(*found, self.settings.release_version)

    def get(self, key: str) -> model.ClusterAutoscaler | None:
        body = self._own.store.get(key)
        return None if body is None else model.parse_cluster_autoscaler(body)

    def observe(self, autoscaler: model.ClusterAutoscaler) -> model.ObservedClusterAutoscaler:
        """Facts for one reconcile: live objects with the autoscaler's names."""
        begins = model.deployment_name(autoscaler.name)
        live = {
            (kind, body["metadata"]["name"]): body
            for kind, followed in self._owned.items()
            for body in self._named(followed, begins)
        }
        trouble = self._owned[model.DEPLOYMENT.kind].sync_error
        return model.ObservedClusterAutoscaler(autoscaler, self.gates, live, trouble)

    def observe_operators(self) -> model.ObservedClusterOperators:
        name = self._settings.name
        key = f"{self._settings.namespace}/{model.deployment_name(name)}"
        return model.ObservedClusterOperators(
            own=self._operators.store.get(model.AUTOSCALER),
            machine_api=self._operators.store.get(model.MACHINE_API_OPERATOR),
            has_autoscaler=self._own.store.get(name) is not None,
            deployment=self._owned[model.DEPLOYMENT.kind].store.get(key),
            targets=tuple(self._targets()),
        )

    def _targets(self) -> Iterable[tuple[str, str, str]]:
        for key in self._machine_autoscalers.store.keys():  # noqa: SIM118
            reference = ((self._machine_autoscalers.store.get(key) or {}).get("spec") or {}).get("scaleTargetRef") or {}
            api = machine_apis.find_machine_api(reference.get("apiVersion") or "")
            if api is not None and reference.get("kind") == "MachineSet" and reference.get("name"):
                yield api.group, api.namespace, reference["name"]

    def _named(self, followed: controller_runtime.WatchedResource[Unstructured], begins: str) -> Iterable[Unstructured]:
        prefix = f"{self._settings.namespace}/{begins}"
        for key in followed.store.keys():  # noqa: SIM118
            body = followed.store.get(key) if key.startswith(prefix) else None
            if body is not None:
                yield body

    def _owner_keys(self, body: Any) -> list[str]:
        """Keys of the owning ClusterAutoscalers, also of the one that the name implies."""
        metadata = body["metadata"]
        owners = [item["name"] for item in metadata.get("ownerReferences") or () if item.get("kind") == model.KIND]
        expected = model.deployment_name(self._settings.name)
        if metadata["name"] == expected or metadata["name"].startswith(f"{expected}-"):
            owners.append(self._settings.name)
        return [*dict.fromkeys(owners), CLUSTER_OPERATOR_KEY] if owners else []

    def _operator_keys(self, body: Any) -> list[str]:
        desired = (model.AUTOSCALER, model.MACHINE_API_OPERATOR)
        return [CLUSTER_OPERATOR_KEY] if body["metadata"]["name"] in desired else []

    def _all_keys(self, _: Any) -> list[str]:
        return [*self._own.store.keys(), CLUSTER_OPERATOR_KEY]


class ClusterAutoscalerController:
    """Reconciles the ClusterAutoscaler and the operator's ClusterOperator."""

    name = "cluster_autoscaler"

    def __init__(self, context: controller_runtime.ControllerContext, settings: ClusterAutoscalerSettings) -> None:
        self._context = context
        self._settings = settings
        self._api = context.api.with_field_manager(machine_apis.OPERATOR_MANAGER)
        self._applier = ObjectApplier(self._api, settings.namespace)
        self._pruned_conditions = controller_runtime.PrunedConditions()
        self._degraded_history = reconcile.DegradedHistory()
        self._loop = controller_runtime.ReconcileLoop(context, self.name)

    def check_ready(self) -> str:
        return self._loop.check_ready()

    async def run(self) -> None:
        """Run until cancelled."""
        watched = ClusterAutoscalerWatches(self._context, self._settings, self._loop.informers)
        # A plan contains new events only, so that none needs correlation.
        recorder = events.EventRecorder(self._context.api, machine_apis.OPERATOR_MANAGER, window_s=0.0)
        self._loop.informers.spawn(recorder.run())
        self._loop.queue.add(CLUSTER_OPERATOR_KEY)
        await self._loop.run(lambda key: self._reconcile(key, watched, recorder))

    async def _reconcile(
        self, key: str, watched: ClusterAutoscalerWatches, recorder: events.EventRecorder
    ) -> float | None:
        if key == CLUSTER_OPERATOR_KEY:
            return await self._report_operator(watched)
        cluster_autoscaler = watched.get(key)
        if cluster_autoscaler is None:
            return None
        autoscaler = self._restore_conditions(cluster_autoscaler)
        plan = reconcile_cluster_autoscaler(
            watched.observe(autoscaler), watched.settings, self._context.api.clock.now_s()
        )
        outcome = await self._applier.apply(plan.steps)
        if outcome.is_conflict:
            return controller_runtime.CONFLICT_REQUEUE_S
        if outcome.failure is not None:
            await self._report_failure(autoscaler, outcome.failure, recorder)
        if not await self._write_status(autoscaler, plan.conditions):
            return controller_runtime.CONFLICT_REQUEUE_S
        self._record_events(autoscaler, plan.events, recorder)
        if plan.failure:
            raise controller_interface.RequeueError(plan.failure)
        return self._settings.resync_s

    async def _report_failure(
        self, autoscaler: model.ClusterAutoscaler, failure: Event, recorder: events.EventRecorder
    ) -> None:
        """Record the failure and retry with backoff."""
        self._record_events(autoscaler, (failure,), recorder)
        now_s = self._context.api.clock.now_s()
        await self._write_status(autoscaler, ready_conditions(autoscaler, False, model.FAILED, failure.message, now_s))
        raise controller_interface.RequeueError(failure.message)

    # Status of the ClusterAutoscaler

    def _restore_conditions(self, cluster_autoscaler: model.ClusterAutoscaler) -> model.ClusterAutoscaler:
        conditions = self._pruned_conditions.restore(cluster_autoscaler.uid, cluster_autoscaler.conditions)
        return model.ClusterAutoscaler(
            cluster_autoscaler.name,
            cluster_autoscaler.uid,
            cluster_autoscaler.resource_version,
            cluster_autoscaler.is_deleting,
            cluster_autoscaler.spec,
            conditions,
        )

    async def _write_status(self, autoscaler: model.ClusterAutoscaler, conditions: tuple[model.Json, ...]) -> bool:
        """Write the status if it changed; False on a conflict."""
        patch = reconcile.conditions_patch(autoscaler.conditions, conditions)
        if not patch:
            return True
        body = {**patch, "metadata": {"resourceVersion": autoscaler.resource_version}}
        try:
            kept = await self._api.merge_patch(model.CLUSTER_AUTOSCALERS, autoscaler.name, body, subresource="status")
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        self._pruned_conditions.record(autoscaler.uid, conditions, (kept.get("status") or {}).get("conditions"))
        return True

    def _record_events(
        self, of: model.ClusterAutoscaler, recorded: tuple[Event, ...], recorder: events.EventRecorder
    ) -> None:
        """Record events in the autoscaler's namespace: a ClusterAutoscaler is cluster-scoped."""
        about = event_target(of, self._settings.namespace)
        for event in recorded:
            controller_runtime.record_event(recorder, about, event)

    # ClusterOperator

    async def _report_operator(self, watched: ClusterAutoscalerWatches) -> float:
        observed = watched.observe_operators()
        report = reconcile.report_cluster_operator(
            observed, self._degraded_history, watched.settings.version, self._context.api.clock.now_s()
        )
        self._degraded_history = report.memory
        patch = reconcile.cluster_operator_patch(
            observed.own, report, reconcile.related_objects(observed, self._settings.namespace)
        )
        if patch:
            await self._write_operator_status(observed.own, patch)
        return reconcile.STATUS_INTERVAL_S

    async def _write_operator_status(self, own: model.Json | None, patch: dict[str, object]) -> None:
        resource = model.CLUSTER_OPERATORS
        try:
            if own is None:
                named = {"apiVersion": resource.api_version, "kind": resource.kind}
                own = await self._api.create(resource, {**named, "metadata": {"name": model.AUTOSCALER}, "spec": {}})
            body = {**patch, "metadata": {"resourceVersion": own["metadata"]["resourceVersion"]}}
            await self._api.merge_patch(resource, model.AUTOSCALER, body, subresource="status")
        except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
            return  # the watch enqueues the key again
