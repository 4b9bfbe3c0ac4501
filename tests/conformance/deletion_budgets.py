"""How many of the nodes that may go are let go now."""

from tests.conformance.outcome import Json, by_section
from windlass.engine.model import node_groups, scale_down_state
from windlass.engine.model.settings import ScaleDownSettings, Settings
from windlass.engine.scale_down import deletion_budgets


def _crop(case: Json, constants: Json) -> Json:
    groups = {
        name: node_groups.NodeGroup(
            name, 0, 1000, group["target_size"], options=node_groups.GroupOptions(zero_or_max=group["all_or_nothing"])
        )
        for name, group in case["groups"].items()
    }
    empty, drain, other = (_names(case[field]) for field in ("empty", "drain", "other_nodes"))
    group_of = {name: groups[_group(name)] for name in (*empty, *drain, *other)}
    registered: dict[str, int] = {}
    for group in group_of.values():
        registered[group.id] = registered.get(group.id, 0) + 1
    in_progress = deletion_budgets.DeletionsInProgress(
        frozenset(f"empty-{i}" for i in range(case["empty_in_progress"])),
        frozenset(f"drain-{i}" for i in range(case["drain_in_progress"])),
    )
    limits = ScaleDownSettings(
        max_scale_down_parallelism=constants["max_scale_down_parallelism"],
        max_drain_parallelism=constants["max_drain_parallelism"],
    )
    started = deletion_budgets.crop_nodes(empty, drain, group_of, registered, in_progress, Settings(scale_down=limits))
    return {"drain": _describe(started.drain), "empty": _describe(started.empty)}


def _names(buckets: list[Json]) -> list[str]:
    """Nodes are recorded by number within their group."""
    return [f"{bucket['group']}/{number}" for bucket in buckets for number in bucket["nodes"]]


def _group(name: str) -> str:
    return name.partition("/")[0]


def _describe(buckets: tuple[scale_down_state.NodeGroupView, ...]) -> list[Json]:
    return [
        {"group": bucket.group, "nodes": [int(name.partition("/")[2]) for name in bucket.nodes]} for bucket in buckets
    ]


run = by_section({"crop": _crop})
