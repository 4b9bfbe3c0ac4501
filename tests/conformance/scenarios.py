"""Whole loops of the real Cluster Autoscaler, step by step: what it did, marked and gave as reasons."""

import copy
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_lines
from tests.conformance.scenario_cluster import EPOCH_S, World
from windlass.autoscaler.options import flags
from windlass.engine import loop, loop_memory, taints
from windlass.engine.cluster_state import backoff
from windlass.engine.model import decision_record, node_groups, plan, scale_up_status
from windlass.engine.model.decision_record import NOT_ACTIONABLE
from windlass.engine.model.plan import PlanResult as Outcomes
from windlass.engine.model.scale_down_state import UnremovableNode
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.kube.events import InvolvedObject
from windlass.observability import decision_events

_STATUS = InvolvedObject("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system")
_Reasons = tuple[tuple[str, tuple[str, ...]], ...]
"""(group, reasons)."""
_NUMBER = re.compile(r"-\d+(-r\d+)?$")


def run(path: Path) -> Iterator[Outcome]:
    for scenario in read_lines(path):
        yield judge_scenario(scenario)


def judge_scenario(scenario: Json) -> Outcome:
    """Every step of a scenario; each counts."""
    settings = flags.parse_settings({"behavior": "cluster-autoscaler", **scenario["flags"]})
    world = World(scenario)
    remembered = loop_memory.LoopMemory()
    differences: list[str] = []
    agreed = 0
    for number, step in enumerate(scenario["steps"]):
        observation = world.move_on(step)
        now_s = EPOCH_S + step["at_s"]
        decision = loop.decide(observation, remembered, settings, now_s)
        if refused := _refuse(decision, world):
            decision = loop.decide(replace(observation, refused=refused), remembered, settings, now_s)
        remembered = decision.memory
        told = report(decision, world, observation, settings, now_s)
        if "expect" in step:
            expected, found = _prune(step["expect"], step), _prune(told, step)
        else:
            expected, found = step["expect_counts"], count(told)
        wrong = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
        differences += [
            f"step {number}: {key}: expected {expected.get(key)!r}, found {found.get(key)!r}" for key in wrong
        ]
        agreed += not wrong
    return Outcome(scenario["name"], agreed, len(scenario["steps"]), tuple(differences))


def _refuse(decision: loop.Decision, world: World) -> dict[str, node_groups.InstanceError]:
    """What the recorded provider refuses of a plan: it raises groups one after another, up to the first refusal."""
    for instruction in decision.plan:
        if isinstance(instruction, plan.Resize) and world.groups[instruction.group].get("fault") == "api_error":
            return {instruction.group: node_groups.InstanceError("Other", "cloudProviderError")}
    return {}


def report(decision: loop.Decision, world: World, observation: Observation, settings: Settings, now_s: float) -> Json:
    """A decision in the recording's words."""
    story = decision.story
    told: Json = {
        "scale_up": tell_scale_up(story.scale_ups[0], observation),
        "scale_down": tell_scale_down(decision, observation),
    }
    backoffs = decision.memory.durable.health.backoffs
    waiting = {
        group: current for group in backoffs if (current := backoff.find_backoff(backoffs, group, now_s)) is not None
    }
    optional: Json = {
        "scale_up_more": [tell_scale_up(proposal, observation) for proposal in story.scale_ups[1:]],
        "backoff": {group: found.error.code for group, found in waiting.items()},
        "upcoming": dict(story.upcoming),
        "unhealthy_groups": list(story.unhealthy),
        "events": tell_events(decision, observation, settings, now_s),
        **tell_marks(decision, world),
    }
    told |= {key: value for key, value in optional.items() if value}
    told["target_sizes"] = tell_sizes(decision, observation)
    if not story.health.verdict.is_healthy and story.repairs.stop not in NOT_ACTIONABLE:
        told["cluster_healthy"] = False
    if story.repairs.stop is decision_record.LoopStop.REFUSED:
        told["error"] = "cloudProviderError"
    return told


def tell_sizes(decision: loop.Decision, observation: Observation) -> dict[str, int]:
    """Sizes after the loop: what the repairs led to, and what was raised. Nodes that drain are still there."""
    sizes = {group: size.target for group, size in decision.story.repairs.sizes.items()}
    for instruction in decision.plan:
        if isinstance(instruction, plan.Resize):
            sizes[instruction.group] = instruction.to_size
    return sizes


def tell_marks(decision: loop.Decision, world: World) -> Json:
    """Marks on nodes after the loop."""
    keys = {"to_be_deleted": taints.TO_BE_DELETED_KEY, "deletion_candidate": taints.DELETION_CANDIDATE_KEY}
    marks = {
        mark: {
            name
            for name, node in world.nodes.items()
            if any(taint["key"] == key for taint in node["spec"].get("taints", ()))
        }
        for mark, key in keys.items()
    }
    marks["cordoned"] = {name for name, node in world.nodes.items() if node["spec"].get("unschedulable")}
    for instruction in decision.plan:
        match instruction:
            case plan.SetTaint(node, key):
                marks[next(mark for mark, known in keys.items() if known == key)].add(node)
            case plan.RemoveTaint(node, key):
                marks[next(mark for mark, known in keys.items() if known == key)].discard(node)
            case plan.Cordon(node, cordoned):
                (marks["cordoned"].add if cordoned else marks["cordoned"].discard)(node)
            case plan.Drain(node):
                marks["to_be_deleted"].add(node)
                marks["cordoned"].add(node)
    return {mark: sorted(nodes) for mark, nodes in marks.items()}


def tell_events(decision: loop.Decision, observation: Observation, settings: Settings, now_s: float) -> Json:
    """Events that pods and nodes get, if all goes well. The recorded nodes were marked in the loop that chose them."""
    marks = [
        plan.SetTaint(instruction.node, taints.TO_BE_DELETED_KEY, "", "")
        for instruction in decision.plan
        if isinstance(instruction, plan.Drain)
    ]
    marked = decision_events.node_references(observation, tuple(marks))
    view = DecisionView(decision)
    doing = decision_events.scaling_plan_context(view, settings)
    done = Outcomes((*decision.plan, *marks))
    told = decision_events.scaling_events(view, settings, _STATUS, now_s)
    outcome = decision_events.plan_result_events(replace(doing, nodes={**doing.nodes, **marked}), done, _STATUS)
    said = Counter(
        (f"{event.about.kind}/{event.reason}", _class_of(f"{event.about.namespace}/{event.about.name}"))
        for event in (*told.after, *decision_events.raised_group_events(told, done))
    )
    found: Json = {}
    for (kind, pods), number in said.items():
        found.setdefault(kind, {})[pods] = number
    for occurrence in outcome:
        if occurrence.about.kind == "Node":
            found.setdefault(f"Node/{occurrence.reason}", []).append(occurrence.about.name)
    return {kind: sorted(told) if isinstance(told, list) else told for kind, told in found.items()}


def count(told: Json) -> Json:
    """What is recorded of a step in which the real one's runs differed in which nodes, but not in how many."""
    up, down = told["scale_up"], told["scale_down"]
    deleting = Counter(item["group"] for item in down.get("deleting", ()))
    counted: Json = {
        "target_sizes": told["target_sizes"],
        "scale_up": {key: up[key] for key in ("result", "groups") if key in up},
        "scale_down": {
            "result": down["result"],
            "unneeded_count": len(down.get("unneeded", ())),
            "deleting_per_group": dict(deleting),
        },
    }
    return counted


def tell_scale_up(proposal: scale_up_status.ScaleUpProposal, observation: Observation) -> Json:
    told: Json = {"result": str(proposal.result)}
    if proposal.result is scale_up_status.ScaleUpResult.ERROR:
        told["error"] = "cloudProviderError"
    if proposal.increases:
        told["groups"] = sorted(
            (
                {
                    "id": increase.group.id,
                    "from": increase.group.size,
                    "to": increase.new_size,
                    "max": increase.group.max_size,
                }
                for increase in proposal.increases
            ),
            key=lambda group: str(group["id"]),
        )
    if proposal.helped:
        told["pods_triggered"] = _count(proposal.helped, observation)
    if proposal.awaiting:
        told["pods_await"] = _count(proposal.awaiting, observation)
    if proposal.remaining:
        told["pods_remain"] = _tell_remaining(proposal)
    return told


def _tell_remaining(proposal: scale_up_status.ScaleUpProposal) -> list[Json]:
    counted: Counter[tuple[str, _Reasons, _Reasons]] = Counter()
    for alike in proposal.remaining:
        rejected, skipped = sorted(alike.rejected.items()), sorted(proposal.skipped_for(alike).items())
        counted[_class_of(alike.pod.key), tuple(rejected), tuple(skipped)] += len(alike.rows)
    return sorted(
        (
            {
                "pod": pod,
                "count": count,
                "rejected": {group: list(reasons) for group, reasons in rejected},
                "skipped": {group: list(reasons) for group, reasons in skipped},
            }
            for (pod, rejected, skipped), count in counted.items()
        ),
        key=lambda one: str(one["pod"]),
    )


def tell_scale_down(decision: loop.Decision, observation: Observation) -> Json:
    story = decision.story.scale_down
    told: Json = {"result": str(story.result)}
    since = decision.memory.durable.scale_down.since
    if since:
        told["unneeded"] = [{"node": name, "since_s": since[name] - EPOCH_S} for name in sorted(since)]
    kept = [*(story.look.kept if story.look else ()), *(story.choice.kept if story.choice else ())]
    if kept:
        told["unremovable"] = [_tell_kept(item, observation) for item in kept]
    if story.look is not None and story.look.eligibility.measured:
        told["utilization"] = {
            name: node_utilization.utilization
            for name in story.look.eligibility.measured
            if (node_utilization := story.look.eligibility.utilization_of(name)) is not None
        }
    drains = [instruction for instruction in decision.plan if isinstance(instruction, plan.Drain)]
    if drains:
        told["deleting"] = sorted(
            ({"node": drain.node, "group": drain.group, "evict": sorted(drain.evict)} for drain in drains), key=str
        )
    return told


def _tell_kept(unremovable: UnremovableNode, observation: Observation) -> Json:
    told: Json = {"node": unremovable.node_name, "reason": str(unremovable.reason)}
    blocking = unremovable.removal.moves.blocking if unremovable.removal else None
    if blocking is not None:
        told["blocking_pod"] = observation.snapshot.pod(blocking.pod).key
        told["blocking_reason"] = str(blocking.outcome.reason)
    return told


def _prune(told: Json, step: Json) -> Json:
    """Without what differed between runs of the real one, in an order of our own, and without what is no decision:
    which pods of a class triggered the scale-up, what became of earlier deletions, how used a deleted node was.
    """
    left = copy.deepcopy(told)
    for path in step.get("unstable", ()):
        _drop(left, path)
    up, down = left.get("scale_up", {}), left.get("scale_down", {})
    for item in (up, *left.get("scale_up_more", ())):
        item.pop("pods_triggered_names", None)
        _sort(item, "groups", "id")
        _sort(item, "pods_remain", "pod")
    down.pop("finished_deletions", None)
    if "utilization" in down:
        down["utilization"] = {name: math.floor(value * 1e6 + 0.5) for name, value in down["utilization"].items()}
    for item in down.get("deleting", ()):
        item.pop("utilization", None)
        item["evict"] = sorted(item.get("evict", ()))
    for key in ("unremovable", "deleting", "unneeded"):
        _sort(down, key, "node")
    for key in ("to_be_deleted", "deletion_candidate", "cordoned"):
        if key in left:
            left[key] = sorted(left[key])
    return left


def _drop(told: Json, path: str) -> None:
    """Take off what a path names: `scale_down.utilization`, `scale_down.unremovable[].blocking_pod`."""
    part, _, key = path.partition(".")
    within = told.get(part, {})
    listed, _, inner = key.partition("[].")
    if inner:
        for item in within.get(listed, ()):
            item.pop(inner, None)
            if inner == "blocking_pod":
                item.pop("blocking_reason", None)  # what stands with an unstable pod is not recorded either
    else:
        within.pop(listed, None)
        if not within:
            told.pop(part, None)


def _sort(told: Json, key: str, by: str) -> None:
    if key in told:
        told[key] = sorted(told[key], key=lambda one: str(one[by]))


def _count(rows: Iterable[int], observation: Observation) -> dict[str, int]:
    return dict(Counter(_class_of(observation.snapshot.pods.key(row)) for row in rows))


def _class_of(key: str) -> str:
    return _NUMBER.sub("", key)
