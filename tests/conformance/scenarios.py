"""Whole loops of the real Cluster Autoscaler, step by step: what it did, marked and gave as reasons."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_lines
from tests.conformance.scenario_world import EPOCH_S, World
from windlass.autoscaler import flags
from windlass.engine import backoff, decide, facts, memory, plan
from windlass.engine.observation import Observation
from windlass.engine.scale_up import proposing

_NUMBER = re.compile(r"-\d+(-r\d+)?$")


def run(path: Path) -> Iterator[Outcome]:
    for scenario in read_lines(path):
        yield judge_scenario(scenario)


def judge_scenario(scenario: Json) -> Outcome:
    """Every step of a scenario; each counts."""
    settings = flags.read_flags({"behavior": "cluster-autoscaler", **scenario["flags"]})
    world = World(scenario)
    remembered = memory.Memory()
    differences: list[str] = []
    agreed = 0
    for number, step in enumerate(scenario["steps"]):
        seen = world.move_on(step)
        now_s = EPOCH_S + step["at_s"]
        decision = decide.decide(seen, remembered, settings, now_s)
        if refused := _refuse(decision, world):
            decision = decide.decide(replace(seen, refused=refused), remembered, settings, now_s)
        remembered = decision.memory
        expected, found = _prune(step.get("expect", {}), step), _prune(tell(decision, seen, now_s), step)
        wrong = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
        wrong = [key for key in wrong if key in COMPARED]
        if wrong and "expect" in step:
            differences += [
                f"step {number}: {key}: expected {expected.get(key)!r}, found {found.get(key)!r}" for key in wrong
            ]
        else:
            agreed += 1
    return Outcome(scenario["name"], agreed, len(scenario["steps"]), tuple(differences))


def _refuse(decision: decide.Decision, world: World) -> dict[str, facts.InstanceError]:
    """What the recorded provider refuses of a plan: it raises groups one after another, up to the first refusal."""
    for one in decision.plan:
        if isinstance(one, plan.Resize) and world.groups[one.group].get("fault") == "api_error":
            return {one.group: facts.InstanceError("Other", "cloudProviderError")}
    return {}


COMPARED = ("scale_up", "scale_up_more", "scale_down", "backoff", "upcoming", "unhealthy_groups", "cluster_healthy")


def tell(decision: decide.Decision, seen: Observation, now_s: float) -> Json:
    """A decision in the recording's words."""
    story = decision.story
    told: Json = {"scale_up": tell_scale_up(story.scale_ups[0]), "scale_down": tell_scale_down(decision, seen)}
    if story.scale_ups[1:]:
        told["scale_up_more"] = [tell_scale_up(one) for one in story.scale_ups[1:]]
    backoffs = decision.memory.durable.health.backoffs
    waiting = {group: found for group in backoffs if (found := backoff.find(backoffs, group, now_s)) is not None}
    if waiting:
        told["backoff"] = {group: found.error.code for group, found in waiting.items()}
    if story.upcoming:
        told["upcoming"] = dict(story.upcoming)
    if story.unhealthy:
        told["unhealthy_groups"] = list(story.unhealthy)
    if not story.health.verdict.is_healthy:
        told["cluster_healthy"] = False
    return told


def tell_scale_up(proposal: proposing.Proposal) -> Json:
    told: Json = {"result": str(proposal.result)}
    if proposal.result is proposing.Result.ERROR:
        told["error"] = "cloudProviderError"
    if proposal.increases:
        told["groups"] = sorted(
            (
                {"id": one.group.id, "from": one.group.size, "to": one.new_size, "max": one.group.max_size}
                for one in proposal.increases
            ),
            key=lambda group: str(group["id"]),
        )
    if proposal.helped:
        told["pods_triggered"] = _count(proposal.helped)
    if proposal.awaiting:
        told["pods_await"] = _count(proposal.awaiting)
    if proposal.remaining:
        told["pods_remain"] = _tell_remaining(proposal)
    return told


def _tell_remaining(proposal: proposing.Proposal) -> list[Json]:
    counted: Counter[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]] = Counter()
    for alike in proposal.remaining:
        counted[_class_of(alike.pods[0].key), tuple(sorted(alike.rejected.items()))] += len(alike.pods)
    skipped = {group: list(reasons) for group, reasons in proposal.skipped.items()}
    return sorted(
        (
            {
                "pod": pod,
                "count": count,
                "rejected": {group: list(reasons) for group, reasons in rejected},
                "skipped": skipped,
            }
            for (pod, rejected), count in counted.items()
        ),
        key=lambda one: str(one["pod"]),
    )


def tell_scale_down(decision: decide.Decision, seen: Observation) -> Json:
    story = decision.story.scale_down
    told: Json = {"result": str(story.result)}
    since = decision.memory.durable.scale_down.since
    if since:
        told["unneeded"] = [{"node": name, "since_s": since[name] - EPOCH_S} for name in sorted(since)]
    kept = [*(story.look.kept if story.look else ()), *(story.choice.kept if story.choice else ())]
    if kept:
        told["unremovable"] = sorted(({"node": one.node_name, "reason": str(one.reason)} for one in kept), key=str)
    drains = [one for one in decision.plan if isinstance(one, plan.Drain)]
    if drains:
        told["deleting"] = sorted(
            ({"node": one.node, "group": one.group, "evict": sorted(one.evict)} for one in drains), key=str
        )
    return told


def _prune(told: Json, step: Json) -> Json:
    """Without what differed between runs of the real one, and without what is not compared."""
    left = {key: dict(value) if isinstance(value, dict) else value for key, value in told.items()}
    for path in step.get("unstable", ()):
        part, _, key = path.partition(".")
        if isinstance(left.get(part), dict):
            left[part].pop(key.split("[")[0], None)
    up, down = left.get("scale_up", {}), left.get("scale_down", {})
    up.pop("pods_triggered_names", None)
    if "groups" in up:
        up["groups"] = sorted(up["groups"], key=lambda group: str(group["id"]))
    if "pods_remain" in up:
        up["pods_remain"] = sorted(up["pods_remain"], key=lambda one: str(one["pod"]))
    down.pop("utilization", None)
    down.pop("finished_deletions", None)
    if "unremovable" in down:
        down["unremovable"] = sorted(
            ({"node": one["node"], "reason": one["reason"]} for one in down["unremovable"]), key=str
        )
    if "deleting" in down:
        down["deleting"] = sorted(
            ({"node": one["node"], "group": one["group"], "evict": sorted(one["evict"])} for one in down["deleting"]),
            key=str,
        )
    if "unneeded" in down:
        down["unneeded"] = sorted(down["unneeded"], key=lambda one: str(one["node"]))
    return left


def _count(pods: Iterable[facts.Pod]) -> dict[str, int]:
    return dict(Counter(_class_of(pod.key) for pod in pods))


def _class_of(key: str) -> str:
    return _NUMBER.sub("", key)
