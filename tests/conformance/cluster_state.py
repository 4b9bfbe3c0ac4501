"""Group sizes: the acceptable range, the range after a resize, wrong sizes, and suspended nodes."""

from collections.abc import Mapping

from tests.conformance.outcome import Json, by_section
from windlass.engine.cluster_state import health, readiness, scale_requests
from windlass.engine.model import cluster_health, facts

NOW_S = 1_000_000.0
FIELDS = {
    "Ready": "ready",
    "Unready": "unready",
    "NotStarted": "not_started",
    "Suspended": "suspended",
    "Deleted": "deleted",
    "Unregistered": "unregistered",
    "LongUnregistered": "long_unregistered",
    "Registered": "ready",
}
"""`Registered` alone says nothing of the nodes' states."""


def _readiness(counts: Mapping[str, int]) -> cluster_health.Readiness:
    return cluster_health.Readiness(**{FIELDS[name]: tuple(map(str, range(count))) for name, count in counts.items()})


def _range(acceptable_range: cluster_health.AcceptableRange) -> Json:
    return {"min": acceptable_range.min, "max": acceptable_range.max, "target": acceptable_range.target}


def _under_way(increases: Mapping[str, int], shrinking: list[str]) -> cluster_health.ScaleRequests:
    under_way = cluster_health.ScaleRequests()
    for group, increase in increases.items():
        under_way = scale_requests.register_scale_up(under_way, group, increase, NOW_S, 60.0)
    for number, group in enumerate(shrinking):
        under_way = scale_requests.register_scale_down(under_way, group, f"n{number}", NOW_S)
    return under_way


def _acceptable_range(case: Json, constants: Json) -> Json:
    readinesses = {group: _readiness(counts) for group, counts in case["readiness"].items()}
    under_way = _under_way(case["scale_up_requests"], case["scaled_down_groups"])
    ranges = health.find_ranges(case["target_sizes"], readinesses, under_way)
    return {group: _range(acceptable_range) for group, acceptable_range in ranges.items()}


def _range_after_resize(case: Json, constants: Json) -> Json:
    targets, readinesses = {"g": case["new_target"]}, {"g": _readiness(case["readiness"])}
    increase = case["scale_up_increase"]
    under_way = _under_way({} if increase is None else {"g": increase}, [])
    upcoming = health.find_upcoming(targets, readinesses, under_way.scale_ups, {}, NOW_S)
    return {
        "range": _range(health.find_ranges(targets, readinesses, under_way)["g"]),
        "upcoming": upcoming["g"].nodes if "g" in upcoming else 0,
    }


def _wrong_size(case: Json, constants: Json) -> Json:
    ranges = {group: cluster_health.AcceptableRange(**item) for group, item in case["ranges"].items()}
    readinesses = {group: _readiness(counts) for group, counts in case["registered"].items()}
    before = {
        group: cluster_health.IncorrectSize(entry["current"], entry["expected"], NOW_S + entry["first_observed_s"])
        for group, entry in case["before"].items()
    }
    wrong = health.find_wrong_sizes(ranges, readinesses, before, NOW_S)
    return {
        group: {
            "current": incorrect_size.current,
            "expected": incorrect_size.expected,
            "first_observed_s": incorrect_size.since_s - NOW_S,
        }
        for group, incorrect_size in wrong.items()
    }


def _suspended(case: Json, constants: Json) -> bool:
    conditions = tuple(facts.Condition(item["type"], item["status"]) for item in case["conditions"])
    return readiness.is_suspended(facts.Node("n", conditions=conditions))


run = by_section(
    {
        "acceptable_range": _acceptable_range,
        "range_after_resize": _range_after_resize,
        "wrong_size": _wrong_size,
        "suspended": _suspended,
    }
)
