"""ProvisioningRequests: whole loops of the real one, and which requests it handles and books room for."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conformance import objects
from tests.conformance.outcome import Json, Outcome, evaluate, read_sections
from tests.conformance.scenario_cluster import EPOCH_S, node_of
from windlass.autoscaler.capacity_apis import provisioning_requests
from windlass.autoscaler.options import flags
from windlass.autoscaler.readers import cluster_dump
from windlass.engine import loop, loop_memory
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model import node_groups, plan
from windlass.engine.model.provisioning import Condition, ProvisioningRequest
from windlass.engine.observation import Observation
from windlass.kube import scheme, time_formats
from windlass.kube.models import autoscaling, pods


def run(path: Path) -> Iterator[Outcome]:
    for section, _, case in read_sections(path):
        if section == "class_table":
            yield evaluate(case["name"], case["expect"], _classify(case))
        elif section == "book_table":
            yield evaluate(case["name"], case["expect"], _book(case))
        else:
            yield judge_loops(case)


def _classify(case: Json) -> Json:
    request = ProvisioningRequest("ns", "r", "u", case["class"], parameters=case.get("parameters") or {})
    instance = case["processor_instance"]
    return {
        "as_check_capacity": provisioning_request_queue.is_check_capacity(request, instance),
        "handled": provisioning_request_queue.is_handled_by(request, instance),
    }


def _book(case: Json) -> Json:
    conditions = tuple(Condition(kind, status, "X", "", 0.0) for kind, status in case["conditions"].items())
    return {
        "book": provisioning_request_queue.is_booked(
            ProvisioningRequest("ns", "r", "u", case["class"], conditions=conditions), ""
        )
    }


def judge_loops(case: Json) -> Outcome:
    """Every step of a case must agree."""
    given = {"behavior": "cluster-autoscaler", "enable-provisioning-requests": "true", **case["flags"]}
    settings, world, remembered = flags.parse_settings(given), World(case), loop_memory.LoopMemory()
    differences: list[str] = []
    for number, (step, expected) in enumerate(zip(case["steps"], case["expect"], strict=True)):
        observation, now_s = world.move_on(step), EPOCH_S + step["at_s"]
        decision = loop.decide(observation, remembered, settings, now_s)
        if refused := world.refuse(decision):
            decision = loop.decide(replace(observation, refused=refused), remembered, settings, now_s)
        remembered = decision.memory
        world.execute(decision)
        told = _report(decision, world, expected)
        wrong = [key for key in sorted({*expected, *told}) if expected.get(key) != told.get(key)]
        differences += [f"step {number}: {key}: expected {expected.get(key)}, found {told.get(key)}" for key in wrong]
    return Outcome(case["name"], int(not differences), 1, tuple(differences))


def _report(decision: loop.Decision, world: "World", expected: Json) -> Json:
    """The decision in the recording's words."""
    dealings, proposal = decision.story.requests, decision.story.scale_ups[0]
    up: Json = {"result": str(proposal.result)}
    if "error" in expected["scale_up"]:
        up["error"] = "internalError"
    grown = [instruction for instruction in decision.plan if isinstance(instruction, plan.Resize)]
    if grown:
        groups = [{"id": resize.group, "from": resize.from_size, "to": resize.to_size} for resize in grown]
        up["groups"] = sorted(groups, key=lambda one: str(one["id"]))
    helped = {**dealings.helped, **{key: 1 for key in world.snapshot.pods.keys(proposal.helped)}}
    if helped and proposal.result == "ScaleUpSuccessful":
        up["pods_triggered"] = helped
    ordinary = [row for alike in proposal.remaining for row in alike.rows]
    remaining = {**dealings.remaining, **{key: 1 for key in world.snapshot.pods.keys(ordinary)}}
    if remaining and "pods_remain" in expected["scale_up"]:
        up["pods_remain"] = remaining
    told: Json = {"scale_up": up, "conditions": world.tell_conditions(), "target_sizes": dict(world.sizes)}
    if dealings.booked:
        told["booked"] = dict(dealings.booked)
    if "unneeded_count" in expected:
        told["unneeded_count"] = len(decision.memory.durable.scale_down.since)
    return told


class World:
    """What the recorded loops looked at."""

    def __init__(self, case: Json) -> None:
        self.groups: dict[str, Json] = {group["id"]: group for group in case["groups"]}
        self.sizes = {group["id"]: group["initial_nodes"] for group in case["groups"]}
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.nodes: dict[str, Json] = {}
        for group in case["groups"]:
            for number in range(group["initial_nodes"]):
                self._add_node(f"{group['id']}-{number}")
        for item in case["objects"]:
            self._put(item)

    def move_on(self, step: Json) -> Observation:
        env = step.get("env", {})
        for name in env.get("nodes_added", ()):
            self._add_node(name, step["at_s"])
        for name in env.get("nodes_removed", ()):
            self.nodes.pop(name)
            self.sizes[name.rpartition("-")[0]] -= 1
        for item in step.get("delete", ()):
            self.objects.pop((item["kind"], item["namespace"], item["name"]), None)
        for item in step.get("apply", ()):
            self._put(item)
        for item in env.get("pods_bound", ()):
            pod = self.objects["Pod", *item["pod"].split("/")]
            pod["spec"]["nodeName"], pod["status"] = item["node"], {"phase": "Running"}
        return self._observe()

    def _observe(self) -> Observation:
        seen = [item for (kind, _, _), item in self.objects.items() if kind == "Pod"]
        cluster_objects = cluster_dump.read_objects([*self.nodes.values(), *seen])
        if cluster_objects.set_aside:
            raise AssertionError(cluster_objects.set_aside)
        self.snapshot = cluster_dump.build_snapshot(cluster_objects)
        known = {
            pod_template.meta.key: pod_template
            for pod_template in (scheme.decode_as(pods.PodTemplate, entry) for entry in self._of_kind("PodTemplate"))
        }
        requests = tuple(
            provisioning_requests.make_pods(
                provisioning_requests.read_request(scheme.decode_as(autoscaling.ProvisioningRequest, one)), known
            )
            for one in self._of_kind("ProvisioningRequest")
        )
        groups = tuple(self._group(group) for group in self.groups.values())
        return Observation(self.snapshot, groups, controllers={}, requests=requests)

    def _group(self, group: Json) -> node_groups.NodeGroup:
        ident = group["id"]
        instances = [
            node_groups.Instance(node["spec"]["providerID"])
            for name, node in self.nodes.items()
            if name.rpartition("-")[0] == ident
        ]
        template = copy.deepcopy(group["template"])
        template["metadata"]["name"] = f"{ident}-template"
        return node_groups.NodeGroup(
            ident, group["min"], group["max"], self.sizes[ident], tuple(instances), objects.node(template)
        )

    def refuse(self, decision: loop.Decision) -> dict[str, node_groups.InstanceError]:
        """Groups are raised one after another, up to the first that refuses."""
        for instruction in decision.plan:
            if isinstance(instruction, plan.Resize) and self.groups[instruction.group].get("fault"):
                return {instruction.group: node_groups.InstanceError("Other", "cloudProviderError")}
        return {}

    def execute(self, decision: loop.Decision) -> None:
        for instruction in decision.plan:
            match instruction:
                case plan.Resize():
                    self.sizes[instruction.group] = instruction.to_size
                case plan.SetConditions():
                    request = self.objects["ProvisioningRequest", instruction.namespace, instruction.name]
                    request["status"] = {"conditions": [_to_text(condition) for condition in instruction.conditions]}
                case plan.DeleteRequest():
                    del self.objects["ProvisioningRequest", instruction.namespace, instruction.name]

    def tell_conditions(self) -> Json:
        found = {}
        for item in self._of_kind("ProvisioningRequest"):
            metadata = item["metadata"]
            request = provisioning_requests.read_request(scheme.decode_as(autoscaling.ProvisioningRequest, item))
            found[f"{metadata['namespace']}/{metadata['name']}"] = [
                _tell_condition(condition) for condition in request.conditions
            ]
        return {key: said for key, said in found.items() if said is not None}

    def _of_kind(self, kind: str) -> list[Json]:
        return [item for (found, _, _), item in self.objects.items() if found == kind]

    def _put(self, one: Json) -> None:
        metadata = one["metadata"]
        self.objects[one["kind"], metadata["namespace"], metadata["name"]] = copy.deepcopy(one)

    def _add_node(self, name: str, at_s: float = 0.0) -> None:
        group, _, number = name.rpartition("-")
        self.nodes[name] = node_of(self.groups[group], int(number))


def _to_text(condition: Condition) -> Json:
    spelled: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": time_formats.format_time(condition.since_s),
    }
    return spelled | (
        {} if condition.observed_generation is None else {"observedGeneration": condition.observed_generation}
    )


def _tell_condition(condition: Condition) -> Json:
    told: Json = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "since_s": condition.since_s - EPOCH_S,
    }
    return told | ({} if not condition.observed_generation else {"observed_generation": condition.observed_generation})
