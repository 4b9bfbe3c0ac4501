"""ClusterAutoscaler controller: watches, applies the plan, writes status, events and the ClusterOperator.

Steps run in order until the first one fails. An update replaces the whole spec, except server-assigned Service fields.
"""

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
    site: controller_runtime.ControllerContext, settings: ClusterAutoscalerSettings
) -> "ClusterAutoscalerController":
    return ClusterAutoscalerController(site, settings)


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
    """What came of steps."""

    failure: Event | None = None
    is_conflict: bool = False
    """Someone else was faster: the steps were made from what is no longer the case."""


class ObjectApplier:
    """Writes objects of one namespace."""

    def __init__(self, api: client.Client, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def apply(self, steps: tuple[EnsureObject | DeleteObject, ...]) -> ApplyResult:
        """Until the first that fails."""
        for step in steps:
            try:
                await self._execute(step)
            except (errors.Conflict, errors.AlreadyExists):
                return ApplyResult(is_conflict=True)
            except errors.KubeError as error:
                return ApplyResult(_failure_event(step, error))
        return ApplyResult()

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
    """What is there, with the spec that is wanted in place of its own.

    Fields that a former version of us, or someone else, put into the spec go. Addresses of a Service are the server's.
    """
    live, wanted = dict(step.live or {}), step.body
    metadata = dict(live.get("metadata") or {})
    for name in ("labels", "annotations"):
        if name in wanted["metadata"]:
            metadata[name] = {**(metadata.get(name) or {}), **wanted["metadata"][name]}
    metadata["ownerReferences"] = wanted["metadata"]["ownerReferences"]
    spec = wanted["spec"]
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
"""No object's key: ClusterAutoscalers have no namespace."""


class ClusterAutoscalerWatches:
    """What is known."""

    def __init__(
        self,
        site: controller_runtime.ControllerContext,
        settings: ClusterAutoscalerSettings,
        at: controller_runtime.InformerSet,
    ) -> None:
        self._settings = settings
        follow = at.watch
        within = request_builders.ListOptions(settings.namespace)
        self._own = follow(
            site.api, model.CLUSTER_AUTOSCALERS, lambda body: [body["metadata"]["name"], CLUSTER_OPERATOR_KEY]
        )
        self._owned: dict[str, controller_runtime.WatchedResource[Unstructured]] = {
            resource.kind: follow(site.api, resource, self._owner_keys, within) for resource in model.OWNED
        }
        self._operators = follow(site.api, model.CLUSTER_OPERATORS, self._operator_keys)
        self._gates = follow(site.api, machine_apis.FEATURE_GATES, self._all_keys)
        self._infrastructures = follow(site.api, machine_apis.INFRASTRUCTURES, self._all_keys)
        self._machine_autoscalers = follow(
            site.api, machine_apis.MACHINE_AUTOSCALERS, lambda _: [CLUSTER_OPERATOR_KEY], within
        )

    @property
    def gates(self) -> machine_apis.FeatureGates:
        found = (
            self._gates.store.get(machine_apis.CLUSTER_SINGLETON),
            self._infrastructures.store.get(machine_apis.CLUSTER_SINGLETON),
        )
        return machine_apis.parse_feature_gates(*found, self._settings.release_version)

    def get(self, key: str) -> model.ClusterAutoscaler | None:
        body = self._own.store.get(key)
        return None if body is None else model.parse_cluster_autoscaler(body)

    def observe(self, autoscaler: model.ClusterAutoscaler) -> model.ObservedClusterAutoscaler:
        """What is there of an autoscaler, by the names that it would have."""
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
        """Whose it is, and whoever's it should be by its name."""
        metadata = body["metadata"]
        owners = [each["name"] for each in metadata.get("ownerReferences") or () if each.get("kind") == model.KIND]
        expected = model.deployment_name(self._settings.name)
        if metadata["name"] == expected or metadata["name"].startswith(f"{expected}-"):
            owners.append(self._settings.name)
        return [*dict.fromkeys(owners), CLUSTER_OPERATOR_KEY] if owners else []

    def _operator_keys(self, body: Any) -> list[str]:
        wanted = (model.AUTOSCALER, model.MACHINE_API_OPERATOR)
        return [CLUSTER_OPERATOR_KEY] if body["metadata"]["name"] in wanted else []

    def _all_keys(self, _: Any) -> list[str]:
        return [*self._own.store.keys(), CLUSTER_OPERATOR_KEY]


class ClusterAutoscalerController:
    """Runs the autoscaler as the ClusterAutoscaler says, and says how the operator fares."""

    name = "cluster_autoscaler"

    def __init__(self, site: controller_runtime.ControllerContext, settings: ClusterAutoscalerSettings) -> None:
        self._context = site
        self._settings = settings
        self._api = site.api.with_field_manager(machine_apis.OPERATOR_MANAGER)
        self._applier = ObjectApplier(self._api, settings.namespace)
        self._pruned_conditions = controller_runtime.PrunedConditions()
        self._degraded_history = reconcile.DegradedHistory()
        self._loop = controller_runtime.ReconcileLoop(site, self.name)

    def check_ready(self) -> str:
        return self._loop.check_ready()

    async def run(self) -> None:
        """Until cancelled."""
        watched = ClusterAutoscalerWatches(self._context, self._settings, self._loop.informers)
        # Plans tell what is new, and nothing twice: each event is worth being written.
        recorder = events.EventRecorder(self._context.api, machine_apis.OPERATOR_MANAGER, window_s=0.0)
        self._loop.informers.spawn(recorder.run())
        self._loop.queue.add(CLUSTER_OPERATOR_KEY)
        await self._loop.run(lambda key: self._reconcile(key, watched, recorder))

    async def _reconcile(
        self, key: str, watched: ClusterAutoscalerWatches, recorder: events.EventRecorder
    ) -> float | None:
        if key == CLUSTER_OPERATOR_KEY:
            return await self._report_operator(watched)
        found = watched.get(key)
        if found is None:
            return None
        autoscaler = self._restore_conditions(found)
        plan = reconcile_cluster_autoscaler(
            watched.observe(autoscaler), self._settings, self._context.api.clock.now_s()
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
        """What could not be done is said, and tried again later, and later each time."""
        self._record_events(autoscaler, (failure,), recorder)
        now_s = self._context.api.clock.now_s()
        await self._write_status(autoscaler, ready_conditions(autoscaler, False, model.FAILED, failure.message, now_s))
        raise controller_interface.RequeueError(failure.message)

    # What is said of a ClusterAutoscaler

    def _restore_conditions(self, found: model.ClusterAutoscaler) -> model.ClusterAutoscaler:
        conditions = self._pruned_conditions.restore(found.uid, found.conditions)
        return model.ClusterAutoscaler(
            found.name, found.uid, found.resource_version, found.is_deleting, found.spec, conditions
        )

    async def _write_status(self, autoscaler: model.ClusterAutoscaler, said: tuple[model.Json, ...]) -> bool:
        """Say what is the case; whether it was said, or need not be any longer."""
        patch = reconcile.conditions_patch(autoscaler.conditions, said)
        if not patch:
            return True
        body = {**patch, "metadata": {"resourceVersion": autoscaler.resource_version}}
        try:
            kept = await self._api.merge_patch(model.CLUSTER_AUTOSCALERS, autoscaler.name, body, subresource="status")
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        self._pruned_conditions.record(autoscaler.uid, said, (kept.get("status") or {}).get("conditions"))
        return True

    def _record_events(
        self, of: model.ClusterAutoscaler, told: tuple[Event, ...], recorder: events.EventRecorder
    ) -> None:
        """In the namespace of the autoscaler: the ClusterAutoscaler has none."""
        about = event_target(of, self._settings.namespace)
        for event in told:
            controller_runtime.record_event(recorder, about, event)

    # What the operator says of itself

    async def _report_operator(self, watched: ClusterAutoscalerWatches) -> float:
        seen = watched.observe_operators()
        said = reconcile.report_cluster_operator(
            seen, self._degraded_history, self._settings.version, self._context.api.clock.now_s()
        )
        self._degraded_history = said.memory
        patch = reconcile.cluster_operator_patch(
            seen.own, said, reconcile.related_objects(seen, self._settings.namespace)
        )
        if patch:
            await self._write_operator_status(seen.own, patch)
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
            return  # it changed, which wakes us
