"""Group backoff over a list of operations: until when, and whether a group is backed off."""

from tests.conformance.outcome import Json, by_section
from windlass.engine.cluster_state import backoff
from windlass.engine.model import cluster_health, node_groups, settings

ERROR = node_groups.InstanceError("Other", "recorded")


def _generated(case: Json, constants: Json) -> list[Json]:
    limits = settings.HealthSettings(
        initial_node_group_backoff_duration_s=case["initial_s"],
        max_node_group_backoff_duration_s=case["max_s"],
        node_group_backoff_reset_timeout_s=case["reset_s"],
    )
    backoffs: cluster_health.Backoffs = {}
    answers: list[Json] = []
    for operation in case["ops"]:
        answer: Json = {}
        group, now_s = operation["group"], operation["at_s"]
        match operation["op"]:
            case "fail":
                backoffs = backoff.back_off_group(backoffs, group, ERROR, now_s, limits)
                answer = {"until_s": backoffs[group].until_s}
            case "status":
                answer = {"backed_off": backoff.find_backoff(backoffs, group, now_s) is not None}
            case "remove":
                # Cluster Autoscaler offers this, and calls it nowhere; the loop has no such step.
                backoffs = {other: backoff for other, backoff in backoffs.items() if other != group}
            case "expire":
                backoffs = backoff.remove_stale_backoffs(backoffs, now_s, limits)
        answers.append(answer)
    return answers


run = by_section({"generated": _generated})
