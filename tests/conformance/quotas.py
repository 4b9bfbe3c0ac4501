"""Quotas: what a tracker allows and leaves, and what a CapacityQuota object says and enforces."""

from dataclasses import replace

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass import quantity, selectors
from windlass.engine import resource_quotas
from windlass.engine.model import facts, scale_up_status
from windlass.selectors import EVERYTHING, LabelSelector, Operator, Requirement

NOTHING = LabelSelector((Requirement("no-node-has-this", Operator.EXISTS),))


def _check(case: Json, constants: Json) -> object:
    tracker = _make_tracker(case)
    return _describe(tracker.check("group", _make_node(case), case["add_nodes"]))


def _consume(case: Json, constants: Json) -> object:
    tracker = _make_tracker(case)
    answer = tracker.consume("group", _make_node(case), case["add_nodes"])
    return {**_describe(answer), "left": {room.quota.id: room.left for room in tracker.headrooms}}


def _make_tracker(case: Json) -> resource_quotas.QuotaTracker:
    return resource_quotas.QuotaTracker(
        resource_quotas.Headroom(
            scale_up_status.Quota(quota["name"], quota["left"], EVERYTHING if quota["applies"] else NOTHING),
            quota["left"],
        )
        for quota in case["quotas"]
    )


def _make_node(case: Json) -> facts.Node:
    return objects.node({"metadata": {"name": "n"}, "status": {"capacity": case["node"], "allocatable": case["node"]}})


def _describe(answer: resource_quotas.QuotaCheck) -> Json:
    exceeded = {exceeded.quota: list(exceeded.resources) for exceeded in answer.exceeded}
    return {"allowed": answer.allowed, "exceeded": exceeded}


def _tracker(case: Json, constants: Json) -> object:
    nodes = [objects.node(node) for node in case["nodes"]]
    rules = [
        scale_up_status.Quota(
            quota["id"], quota["limits"], selectors.parse_label_selector(_make_selector(quota.get("selector")))
        )
        for quota in case["quotas"]
    ]
    groups = case["group_of"]
    tracker = resource_quotas.make_tracker(
        resource_quotas.QuotaBound(case["mode"]), rules, [(node, groups.get(node.name)) for node in nodes]
    )
    return [_operate(tracker, op) for op in case["ops"]]


def _operate(tracker: resource_quotas.QuotaTracker, op: Json) -> Json:
    ask = tracker.consume if op["op"] == "consume" else tracker.check
    try:
        return _describe(ask(op["group"], objects.node(op["node"]), op["delta"]))
    except ValueError:
        return {"error": "negative nodeDelta received"}


def _make_selector(written: Json | None) -> selectors.UnparsedLabelSelector:
    written = written or {}
    expressions = tuple(
        selectors.MatchExpression(item["key"], item["operator"], tuple(item.get("values") or ()))
        for item in written.get("matchExpressions") or ()
    )
    return selectors.UnparsedLabelSelector(written.get("matchLabels") or {}, expressions)


def _capacity_quota(case: Json, constants: Json) -> object:
    written = case["quota"]
    quota = resource_quotas.CapacityQuota(
        written["metadata"]["name"],
        _read_amounts(written["spec"]["limits"]["resources"]),
        _make_selector(written["spec"]["selector"]) if "selector" in written["spec"] else None,
        written["metadata"]["generation"],
    )
    nodes = [
        resource_quotas.QuotaNode(
            node["metadata"]["name"], node["metadata"]["labels"], _read_amounts(node["status"]["capacity"])
        )
        for node in case["nodes"]
    ]
    status = resource_quotas.update_status(quota, nodes, lambda whole: quantity.parse_quantity(str(whole)), 0.0)
    rule = resource_quotas.make_enforced_quota(replace(quota, status=status))
    facts_of = {node["metadata"]["name"]: objects.node(node) for node in case["nodes"]}
    found: Json = {
        "conditions": [_describe_condition(condition) for condition in status.conditions],
        "enforced": [
            {
                "applies_to": [name for name, node in facts_of.items() if rule.applies_to(node)],
                "id": rule.id,
                "limits": rule.limits,
            }
            for rule in [rule]
            if rule is not None
        ],
        "observed_generation": status.observed_generation,
    }
    if status.used is not None:
        found["used"] = {name: str(amount) for name, amount in status.used.items()}
    return found


def _describe_condition(condition: resource_quotas.QuotaCondition) -> Json:
    return {
        "message": condition.message,
        "observed_generation": condition.observed_generation,
        "reason": condition.reason,
        "status": condition.status,
        "type": condition.type,
    }


def _read_amounts(written: dict[str, str]) -> dict[str, quantity.Quantity]:
    return {name: quantity.parse_quantity(text) for name, text in written.items()}


run = by_section({"check": _check, "consume": _consume, "tracker": _tracker, "capacity_quota": _capacity_quota})
