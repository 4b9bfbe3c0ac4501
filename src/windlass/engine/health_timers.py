"""When health changes by itself: the time until which looking again at the same things shows the same.

Everything here passes with time alone: nodes that are given time to start, instances to register, requests to be
fulfilled, wrong sizes to right themselves, groups that back off, and failures to be forgotten.
"""

import math
from collections.abc import Collection, Iterator, Mapping

from windlass.engine import facts, settings
from windlass.engine.health import Health


def find_next_change_s(
    found: Health,
    nodes: Collection[facts.Node],
    groups: Collection[facts.NodeGroup],
    group_of: Mapping[str, facts.NodeGroup],
    chosen: settings.Settings,
    now_s: float,
) -> float:
    """Up to this time nothing about health, requests and repairs changes by itself; infinity if it never does."""
    times = (*_starting(found, nodes, group_of, chosen), *_waiting(found, groups, chosen), *_remembering(found, chosen))
    return min((time_s for time_s in times if time_s >= now_s), default=math.inf)


def _starting(
    found: Health, nodes: Collection[facts.Node], group_of: Mapping[str, facts.NodeGroup], chosen: settings.Settings
) -> Iterator[float]:
    starting = set(found.total.not_started)
    for node in nodes:
        if node.name in starting:
            group = group_of.get(node.name)
            limits = chosen.groups if group is None else settings.for_group(chosen, group.options)
            yield node.created_s + limits.max_node_startup_time_s


def _waiting(found: Health, groups: Collection[facts.NodeGroup], chosen: settings.Settings) -> Iterator[float]:
    for group in groups:
        time_s = settings.for_group(chosen, group.options).max_node_provision_time_s
        for instance in group.instances:
            if instance.provider_id in found.memory.unregistered_since:
                yield found.memory.unregistered_since[instance.provider_id] + time_s
        if group.id in found.memory.wrong_sizes:
            yield found.memory.wrong_sizes[group.id].since_s + time_s


def _remembering(found: Health, chosen: settings.Settings) -> Iterator[float]:
    for request in found.memory.requests.scale_ups.values():
        yield request.expected_by_s
    for deletion in found.memory.requests.scale_downs:
        yield deletion.expected_by_s
    for backoff in found.memory.backoffs.values():
        yield backoff.until_s
        yield backoff.failed_s + chosen.health.node_group_backoff_reset_timeout_s
