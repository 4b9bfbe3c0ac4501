"""Playing a scenario: its workloads, what they do by themselves, and the timeline, step by step."""

import functools
import math
from typing import Any

from windlass.simulator.scenario import model, workloads
from windlass.simulator.scenario.trouble import Troubled
from windlass.simulator.world import edit, groups, kinds
from windlass.simulator.world.world import World

Json = dict[str, Any]

_DAY_S = 86400.0
_RESTARTED = "kubectl.kubernetes.io/restartedAt"


class Driver:
    """Does to the world what the story says."""

    def __init__(self, scenario: model.Scenario, world: World, troubled: Troubled) -> None:
        self._scenario, self._world, self._troubled = scenario, world, troubled
        self._api, self._pulse = world.api, world.pulse
        self._chance = world.dice.for_part("workloads")
        self._workloads = {workload.name: workload for workload in scenario.workloads}
        self._jobs = 0
        self.excused: set[tuple[str, int]] = set()
        """Sizes of MachineDeployments that the story itself has set, by key."""

    def start(self) -> None:
        """Make the workloads as they are at the beginning, and put the rest on the agenda."""
        namespaces = {workload.namespace for workload in self._scenario.workloads}
        for name in sorted(namespaces - {"default", "kube-system"}):
            self._api.post(kinds.NAMESPACES, {"metadata": {"name": name}})
        classes = {workloads.class_name(one): one for one in self._scenario.workloads if one.priority is not None}
        for workload in classes.values():
            self._api.post(kinds.PRIORITY_CLASSES, workloads.make_class(workload))
        for workload in self._scenario.workloads:
            self._introduce(workload)
        for buffer in self._scenario.buffers:
            self._api.post(kinds.CAPACITY_BUFFERS, workloads.make_buffer(self._workloads[buffer.workload], buffer))
        for step in self._scenario.timeline:
            self._pulse.later(step.at, functools.partial(self._take, step))

    def _introduce(self, workload: model.Workload) -> None:
        budget = workloads.make_budget(workload)
        if budget is not None:
            self._api.post(kinds.BUDGETS, budget)
        if workload.kind == "Job":
            if workload.arrivals is not None:
                self._await_arrival(workload, workload.arrivals)
            return
        replicas = workload.replicas if workload.daily is None else self._size_now(workload.daily)
        self._api.post(workloads.KINDS[workload.kind], workloads.make_workload(workload, replicas))
        if workload.daily is not None:
            self._pulse.later(workload.daily.every, lambda: self._breathe(workload))

    # ── By themselves ────────────────────────────────────────────────────────────────────────────────────────────

    def _size_now(self, daily: model.Daily) -> int:
        """On a cosine between low and high, the high at the peak's time of day."""
        phase = 2 * math.pi * (self._pulse.wall_s() - daily.peak) / _DAY_S
        size = daily.low + (daily.high - daily.low) * (1 + math.cos(phase)) / 2
        if daily.noise:
            size *= max(1 + self._chance.gauss(0.0, daily.noise), 0.0)
        return round(size)

    def _breathe(self, workload: model.Workload) -> None:
        assert workload.daily is not None
        self._scale(workload, self._size_now(workload.daily))
        self._pulse.later(workload.daily.every, lambda: self._breathe(workload))

    def _await_arrival(self, workload: model.Workload, arrivals: model.Arrivals) -> None:
        if arrivals.per_hour <= 0:
            return
        wait_s = round(self._chance.expovariate(arrivals.per_hour / 3600), 3)
        if arrivals.until is None or self._pulse.now_s() + wait_s <= arrivals.until:
            self._pulse.later(wait_s, lambda: self._arrive(workload, arrivals))

    def _arrive(self, workload: model.Workload, arrivals: model.Arrivals) -> None:
        self._hand_in(workload, 1)
        self._await_arrival(workload, arrivals)

    def _hand_in(self, workload: model.Workload, count: int) -> None:
        for _ in range(count):
            self._jobs += 1
            job = workloads.make_job(workload, f"{workload.name}-{self._jobs}")
            if workload.provisioning is None:
                self._api.post(kinds.JOBS, job)
            else:
                self._world.queue.submit(job, f"{workload.provisioning}.autoscaling.x-k8s.io")

    def _scale(self, workload: model.Workload, to: int) -> None:
        found = self._find(workload)
        if found is not None and found["spec"].get("replicas") != to:
            self._api.respec(workloads.KINDS[workload.kind], found, replicas=to)

    def _find(self, workload: model.Workload) -> Json | None:
        return self._api.find(workloads.KINDS[workload.kind], f"{workload.namespace}/{workload.name}")

    # ── The timeline ─────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, step: model.AnyStep) -> None:
        cloud, later = self._world.cloud, self._pulse.later
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
                self._each(step.group, self._upgrade)
            case model.Resize():
                self._each(step.group, lambda name: self._resize(name, step.to))
            case model.Outage():
                cloud.darken(step.zone)
                later(step.lasts, lambda: cloud.lighten(step.zone))
            case model.StockOut():
                self._each(step.group, cloud.sell_out)
                later(step.lasts, lambda: self._each(step.group, cloud.restock))
            case model.Vanish():
                for instance in cloud.pick(step.group, step.count):
                    cloud.vanish(instance)
            case model.Unready():
                for instance in cloud.pick(step.group, step.count):
                    cloud.take_down(instance)
                    later(step.lasts, functools.partial(cloud.bring_back, instance))
            case model.Trouble():
                self._trouble(step.errors, step.delay)
                later(step.lasts, lambda: self._trouble(0.0, 0.0))

    def _burst(self, step: model.Jobs, left: int) -> None:
        self._hand_in(self._workloads[step.workload], step.count)
        if left > 1 and step.every is not None:
            self._pulse.later(step.every, lambda: self._burst(step, left - 1))

    def _roll_out(self, workload: model.Workload) -> None:
        found = self._find(workload)
        if found is not None:
            template = edit.with_annotation(found["spec"]["template"], _RESTARTED, self._api.now())
            self._api.respec(kinds.DEPLOYMENTS, found, template=template)

    def _remove(self, workload: model.Workload) -> None:
        path = self._api.path_of(workloads.KINDS[workload.kind], workload.namespace)
        if self._find(workload) is not None:
            self._api.request("DELETE", f"{path}/{workload.name}", propagationPolicy="Background")

    def _each(self, group: str, act: Any) -> None:
        """Do something to a group, in all its zones if it has several."""
        for found in self._world.cloud.groups.values():
            if group in (found.name, found.machine_type):
                act(found.name)

    def _upgrade(self, name: str) -> None:
        found = self._api.all(kinds.MACHINE_DEPLOYMENTS)[f"{groups.NAMESPACE}/{name}"]
        template = found["spec"]["template"]
        spec = {**template["spec"], "version": template["spec"]["version"] + "-next"}
        self._api.respec(kinds.MACHINE_DEPLOYMENTS, found, template={**template, "spec": spec})

    def _resize(self, name: str, to: int) -> None:
        key = f"{groups.NAMESPACE}/{name}"
        self.excused.add((key, to))
        self._api.respec(kinds.MACHINE_DEPLOYMENTS, self._api.all(kinds.MACHINE_DEPLOYMENTS)[key], replicas=to)

    def _trouble(self, error_rate: float, delay_s: float) -> None:
        self._troubled.error_rate, self._troubled.delay_s = error_rate, delay_s
