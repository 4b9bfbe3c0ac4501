"""Which nodes of one group may be considered for removal."""

from dataclasses import replace

from tests.conformance import loop, objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings


def _filter(case: Json, constants: Json) -> Json:
    options = constants | case["options"]
    nodes = [_node(json) for json in case["nodes"]]
    group = loop.make_group("group", nodes)  # of any size: the loop checks no node of a group at its minimum
    observation = loop.observe(nodes, [objects.pod(pod) for pod in case["pods"]], [group])
    checked = loop.probe(observation, _settings(options)).eligibility
    return {
        "eligible": checked.eligible,
        "unremovable": [{"node": kept.node_name, "reason": str(kept.reason)} for kept in checked.kept],
    }


def _settings(options: Json) -> Settings:
    settings = loop.PEER
    groups = replace(
        settings.groups,
        scale_down_utilization_threshold=options["scale_down_utilization_threshold"],
        ignore_daemonsets_utilization=options["ignore_daemonsets_utilization"],
    )
    scale_down = replace(settings.scale_down, scale_down_unready_enabled=options["scale_down_unready_enabled"])
    return replace(settings, groups=groups, scale_down=scale_down)


def _node(json: Json) -> facts.Node:
    """Marks are recorded by their age and, unlike on real nodes, may have no effect."""
    taints = [
        taint
        | {"effect": taint["effect"] or "NoSchedule"}
        | ({"value": str(int(loop.NOW_S - taint["marked_seconds_ago"]))} if "marked_seconds_ago" in taint else {})
        for taint in json["spec"].get("taints", ())
    ]
    return loop.complete(objects.node(json | {"spec": json["spec"] | {"taints": taints}}))


run = by_section({"filter": _filter})
