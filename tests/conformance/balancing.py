"""Balancing: sizes of similar groups after new nodes are shared between them."""

from tests.conformance.outcome import Json, by_section
from windlass.engine.model import scale_up_status
from windlass.engine.scale_up import balancing


def _generated(case: Json, constants: Json) -> object:
    groups = [scale_up_status.SizedGroup(group["id"], group["target_size"], group["max"]) for group in case["groups"]]
    shared = balancing.balance_increase(groups, case["new_nodes"])
    return {"sizes": {increase.group.id: increase.new_size for increase in shared}}


run = by_section({"generated": _generated})
