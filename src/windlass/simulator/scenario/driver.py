"""Scenario driver: applies workloads, arrivals and timeline steps to the simulated cluster, API faults included.

`FaultInjector` is a transport that fails some requests and delays others during a `trouble` step.
"""

import functools
import math
import random
from typing import Any

import msgspec

from windlass import clock
from windlass.kube import errors, transport
from windlass.simulator.cluster import api_objects, node_groups
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.scenario import manifests, model


class FaultInjector:
    """Transport that fails or delays requests of another transport."""

    def __init__(self, inner: transport.Transport, clock_: clock.Clock, rng: random.Random) -> None:
        self._inner, self._clock, self._rng = inner, clock_, rng
        self.error_rate = 0.0
        self.delay_s = 0.0

    async def send(self, request: transport.Request) -> transport.Response:
        if self.delay_s:
            await self._clock.sleep(min(self.delay_s, request.timeout_s))
            if self.delay_s >= request.timeout_s:
                raise errors.CallTimedOut(request.call, f"no answer within {request.timeout_s:g} s")
        if self.error_rate and self._rng.random() < self.error_rate:
            raise errors.ConnectFailed(request.call, "the API server does not answer")
        return await self._inner.send(request)


Json = dict[str, Any]

_DAY_S = 86400.0

_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


class ScenarioDriver:
    """Applies a scenario's workloads and timeline to the simulated cluster."""

    def __init__(self, scenario: model.Scenario, cluster: SimulatedCluster, troubled: FaultInjector) -> None:
        self._scenario, self._cluster, self._troubled = scenario, cluster, troubled
        self._api, self._event_loop = cluster.api, cluster.event_loop
        self._rng = cluster.random_streams.for_component("workloads")
        self._workloads = {workload.name: workload for workload in scenario.workloads}
        self._jobs = 0
        self.excused: set[tuple[str, int]] = set()
        """Sizes of MachineDeployments that the scenario has set, by key."""

    def start(self) -> None:
        """Create the initial workloads, and schedule timers for arrivals and timeline steps."""
        namespaces = {workload.namespace for workload in self._scenario.workloads}
        for name in sorted(namespaces - {"default", "kube-system"}):
            self._api.post(api_objects.NAMESPACES, {"metadata": {"name": name}})
        classes = {
            manifests.priority_class_name(one): one for one in self._scenario.workloads if one.priority is not None
        }
        for workload in classes.values():
            self._api.post(api_objects.PRIORITY_CLASSES, manifests.make_priority_class(workload))
        for workload in self._scenario.workloads:
            self._create_workload(workload)
        for buffer in self._scenario.buffers:
            self._api.post(
                api_objects.CAPACITY_BUFFERS, manifests.make_buffer(self._workloads[buffer.workload], buffer)
            )
        for step in self._scenario.timeline:
            self._event_loop.call_later(step.at, functools.partial(self._apply_step, step))

    def _create_workload(self, workload: model.Workload) -> None:
        budget = manifests.make_budget(workload)
        if budget is not None:
            self._api.post(api_objects.BUDGETS, budget)
        if workload.kind == "Job":
            if workload.arrivals is not None:
                self._await_arrival(workload, workload.arrivals)
            return
        replicas = workload.replicas if workload.daily is None else self._size_now(workload.daily)
        self._api.post(manifests.WORKLOAD_KINDS[workload.kind], manifests.make_workload(workload, replicas))
        if workload.daily is not None:
            self._event_loop.call_later(workload.daily.every, lambda: self._scale_daily(workload))

    # ── Arrivals ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _size_now(self, daily: model.Daily) -> int:
        """Replicas on a cosine between low and high, with the high at the peak's time of day."""
        phase = 2 * math.pi * (self._event_loop.wall_s() - daily.peak) / _DAY_S
        size = daily.low + (daily.high - daily.low) * (1 + math.cos(phase)) / 2
        if daily.noise:
            size *= max(1 + self._rng.gauss(0.0, daily.noise), 0.0)
        return round(size)

    def _scale_daily(self, workload: model.Workload) -> None:
        assert workload.daily is not None
        self._scale(workload, self._size_now(workload.daily))
        self._event_loop.call_later(workload.daily.every, lambda: self._scale_daily(workload))

    def _await_arrival(self, workload: model.Workload, arrivals: model.Arrivals) -> None:
        if arrivals.per_hour <= 0:
            return
        wait_s = round(self._rng.expovariate(arrivals.per_hour / 3600), 3)
        if arrivals.until is None or self._event_loop.now_s() + wait_s <= arrivals.until:
            self._event_loop.call_later(wait_s, lambda: self._arrive(workload, arrivals))

    def _arrive(self, workload: model.Workload, arrivals: model.Arrivals) -> None:
        self._create_jobs(workload, 1)
        self._await_arrival(workload, arrivals)

    def _create_jobs(self, workload: model.Workload, count: int, **changes: Any) -> None:
        """Create Jobs of a workload; `changes`: fields that differ from the workload's."""
        if changes:
            workload = msgspec.structs.replace(workload, **changes)
        for _ in range(count):
            self._jobs += 1
            job = manifests.make_job(workload, f"{workload.name}-{self._jobs}")
            if workload.provisioning is None:
                self._api.post(api_objects.JOBS, job)
            else:
                self._cluster.queue.submit(job, f"{workload.provisioning}.autoscaling.x-k8s.io")

    def _scale(self, workload: model.Workload, to: int) -> None:
        found = self._find(workload)
        if found is not None and found["spec"].get("replicas") != to:
            self._api.update_spec(manifests.WORKLOAD_KINDS[workload.kind], found, replicas=to)

    def _find(self, workload: model.Workload) -> Json | None:
        return self._api.find(manifests.WORKLOAD_KINDS[workload.kind], f"{workload.namespace}/{workload.name}")

    # ── The timeline ─────────────────────────────────────────────────────────────────────────────────────────────

    def _apply_step(self, step: model.AnyStep) -> None:
        cloud, later = self._cluster.cloud, self._event_loop.call_later
        match step:
            case model.Scale():
                self._scale(self._workloads[step.workload], step.to)
            case model.Jobs():
                self._burst(step, step.times)
            case model.Rollout():
                self._roll_out(self._workloads[step.workload])
            case model.Remove():
                self._remove(self._workloads[step.workload])
            case model.Upgrade():
                self._for_each_zone(step.group, self._upgrade)
            case model.Resize():
                self._for_each_zone(step.group, lambda name: self._resize(name, step.to))
            case model.Outage():
                cloud.fail_zone(step.zone)
                later(step.lasts, lambda: cloud.recover_zone(step.zone))
            case model.StockOut():
                self._for_each_zone(step.group, cloud.exhaust_capacity)
                later(step.lasts, lambda: self._for_each_zone(step.group, cloud.restore_capacity))
            case model.Vanish():
                for instance in cloud.pick(step.group, step.count):
                    cloud.vanish(instance)
            case model.Unready():
                for instance in cloud.pick(step.group, step.count):
                    cloud.take_down(instance)
                    later(step.lasts, functools.partial(cloud.bring_back, instance))
            case model.Trouble():
                self._inject_faults(step.errors, step.delay)
                later(step.lasts, lambda: self._inject_faults(0.0, 0.0))

    def _burst(self, step: model.Jobs, left: int) -> None:
        changes = {"replicas": step.pods, "run": step.run}
        given = {name: value for name, value in changes.items() if value is not None}
        self._create_jobs(self._workloads[step.workload], step.count, **given)
        if left > 1 and step.every is not None:
            self._event_loop.call_later(step.every, lambda: self._burst(step, left - 1))

    def _roll_out(self, workload: model.Workload) -> None:
        found = self._find(workload)
        if found is not None:
            template = api_objects.with_annotation(found["spec"]["template"], _RESTARTED_AT, self._api.now())
            self._api.update_spec(api_objects.DEPLOYMENTS, found, template=template)

    def _remove(self, workload: model.Workload) -> None:
        path = self._api.path_of(manifests.WORKLOAD_KINDS[workload.kind], workload.namespace)
        if self._find(workload) is not None:
            self._api.request("DELETE", f"{path}/{workload.name}", propagationPolicy="Background")

    def _for_each_zone(self, group: str, act: Any) -> None:
        """Apply an action to a group, in all its zones."""
        for node_group in self._cluster.cloud.groups.values():
            if group in (node_group.name, node_group.machine_type):
                act(node_group.name)

    def _upgrade(self, name: str) -> None:
        found = self._api.list_objects(api_objects.MACHINE_DEPLOYMENTS)[f"{node_groups.NAMESPACE}/{name}"]
        template = found["spec"]["template"]
        spec = {**template["spec"], "version": template["spec"]["version"] + "-next"}
        self._api.update_spec(api_objects.MACHINE_DEPLOYMENTS, found, template={**template, "spec": spec})

    def _resize(self, name: str, to: int) -> None:
        key = f"{node_groups.NAMESPACE}/{name}"
        self.excused.add((key, to))
        self._api.update_spec(
            api_objects.MACHINE_DEPLOYMENTS,
            self._api.list_objects(api_objects.MACHINE_DEPLOYMENTS)[key],
            replicas=to,
        )

    def _inject_faults(self, error_rate: float, delay_s: float) -> None:
        self._troubled.error_rate, self._troubled.delay_s = error_rate, delay_s
