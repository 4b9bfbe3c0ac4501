"""A cluster in the middle of the night: full groups, a pod too large, nodes that could go and nodes that cannot.

`python -m tests.explain.samples` writes the sample outputs of docs/explain.md; a test holds the page to them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.engine.loop import builders
from windlass.engine import loop, loop_memory
from windlass.engine.model import durable_memory, facts, node_groups, well_known
from windlass.engine.model.cluster_health import Backoff, HealthMemory
from windlass.engine.model.drains import DrainProgress, EvictionProgress
from windlass.engine.model.scale_down_state import ScaleActivity
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import cluster, explain_context, groups, nodes, pods, render_cluster, render_pods

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"
NOW_S = 1_793_934_600.0  # 2026-11-06T03:10:00Z
GIB = 2**30
SHOP = facts.Owner("apps/v1", "ReplicaSet", "shop", "uid-shop")
TRAIN = facts.Owner("batch/v1", "Job", "train", "uid-train")
ANYTHING = (facts.Toleration("", "Exists", "", ""),)
DATABASE = facts.Taint("dedicated", "database", "NoSchedule")


def _node(name: str, zone: str, cpu: int, memory_gib: int, **changes: Any) -> facts.Node:
    labels = {facts.ZONE: zone, **changes.pop("labels", {})}
    made = builders.node(name, cpu, memory_gib * GIB, labels=labels, **changes)
    ready = (facts.Condition("Ready", "True", NOW_S - 86_400.0),)
    return replace(made, created_s=NOW_S - 3 * 86_400.0, conditions=ready)


def _pod(
    name: str, on: str = "", cpu: int = 500, memory_gib: int = 1, age_s: float = 7200.0, **fields: Any
) -> facts.Pod:
    given = {"namespace": "shop", "owner": SHOP, "created_s": NOW_S - age_s, **fields}
    if on:
        return builders.running(name, on, cpu, memory_gib * GIB, **given)
    return builders.pending(name, cpu, memory_gib * GIB, **{"unschedulable_since_s": NOW_S - age_s, **given})


def _agent(on: str) -> facts.Pod:
    owner = facts.Owner("apps/v1", "DaemonSet", "agent", "uid-agent")
    spec = {"tolerations": ANYTHING}
    return _pod(f"agent-{on}", on, 100, 0, namespace="kube-system", owner=owner, spec=spec)


def _group(id: str, members: list[facts.Node], most: int, template: facts.Node, **fields: Any) -> node_groups.NodeGroup:
    made = builders.group(id, members, 1, most, fields.pop("target", len(members)), template)
    return replace(made, **fields)


def observe() -> Observation:
    """Five groups: one with room to grow, one that is full, one that backs off, one for databases, one empty."""
    a = [_node(f"zone-a-{number}", "a", 4000, 16) for number in range(4)]
    marked = facts.Taint(facts.TO_BE_DELETED, str(int(NOW_S - 40)), "NoSchedule")
    a[3] = replace(a[3], taints=(marked,), unschedulable=True)
    b = [_node(f"zone-b-{number}", "b", 4000, 16) for number in range(2)]
    data = [_node("database-0", "a", 8000, 64, taints=(DATABASE,))]
    pods_on = [_agent(node.name) for node in (*a, *b, *data)]
    pods_on += [_pod(f"shop-{number}", "zone-a-0", 1000, 3) for number in range(3)]
    pods_on += [_pod("shop-3", "zone-a-1", 500, 2), _pod("shop-4", "zone-a-2", 300, 1)]
    pods_on += [_pod("shop-7", "zone-a-3", 500, 1)]
    pods_on += [_pod("keep-me", "zone-a-2", 200, 1, annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "false"})]
    pods_on += [_pod(f"shop-{number}", f"zone-b-{number - 5}", 3500, 12) for number in (5, 6)]
    pods_on += [_pod("postgres-0", "database-0", 6000, 40, spec={"tolerations": ANYTHING})]
    waiting = [_pod("warehouse", cpu=20_000, memory_gib=48, age_s=900.0)]
    waiting += [_pod("report", cpu=4000, memory_gib=8, age_s=200.0)]
    waiting += [_pod(f"train-{number}", cpu=3500, memory_gib=6, age_s=45.0, owner=TRAIN) for number in range(12)]
    waiting += [_pod("in-zone-b", cpu=1000, memory_gib=2, age_s=90.0, spec={"node_selector": ((facts.ZONE, "b"),)})]
    template = _node("template", "c", 8000, 32, provider_id="")
    agent = replace(_agent("template"), node_name="", name="agent")
    found = [
        _group("zone-a", a, 10, a[0], price_per_hour=0.2),
        _group("zone-b", b, 2, b[0], price_per_hour=0.2),
        _group("zone-c", [], 10, template, min_size=0, price_per_hour=0.45),
        _group("database", data, 3, data[0]),
        _group("spot", [], 20, _node("spot", "a", 16000, 64, provider_id=""), min_size=0, price_per_hour=0.3),
    ]
    daemons = (node_groups.DaemonSet("kube-system", "agent", "uid-agent", agent),)
    return builders.observe(found, [*a, *b, *data], [*pods_on, *waiting], daemon_sets=daemons)


def remember() -> loop_memory.LoopMemory:
    """Spot failed a while ago; nothing was added lately."""
    error = node_groups.InstanceError("OutOfResources", "InsufficientInstanceCapacity", "no m7i.4xlarge left in a")
    backoffs = {"spot": Backoff(NOW_S + 172.0, 300.0, NOW_S - 128.0, error)}
    durable = durable_memory.DurableMemory(
        loop=412,
        health=HealthMemory(backoffs=backoffs),
        drains={"zone-a-3": _leave()},
        activities={"zone-a": ScaleActivity(added_s=NOW_S - 5400.0, deleted_s=NOW_S - 1800.0)},
    )
    return loop_memory.LoopMemory(durable)


def _leave() -> durable_memory.StartedDrain:
    said = "Cannot evict pod as it would violate the pod's disruption budget: shop needs 7 healthy pods and has 7"
    refused = {"uid-shop-7": said}
    evicting = EvictionProgress(NOW_S - 35.0, frozenset({"uid-shop-7"}), since_s=NOW_S - 35.0, refused=refused,
                        tried={"uid-shop-7": NOW_S - 5.0})  # fmt: skip
    progress = DrainProgress(NOW_S - 40.0, NOW_S - 40.0, evicting)
    places = {"uid-shop-7": "zone-a-2"}
    return durable_memory.StartedDrain("zone-a", NOW_S - 40.0, False, places, "uid-zone-a-3", progress=progress)


def settings() -> Settings:
    chosen = builders.choose(Settings(), "scale_up", expander=("price", "least-waste"))
    return builders.choose(chosen, "groups", scale_down_utilization_threshold=0.5)


def take(later_s: float = 240.0) -> explain_context.ExplainContext:
    """The loop some minutes after nodes were first found unneeded."""
    observation, chosen = observe(), settings()
    quiet = replace(observation)
    first = loop.decide(quiet, remember(), chosen, NOW_S - later_s)
    durable = replace(remember().durable, scale_down=first.memory.durable.scale_down)
    return explain_context.evaluate(observation, loop_memory.LoopMemory(durable, first.memory.volatile), chosen, NOW_S)


def samples() -> Iterator[tuple[str, list[str]]]:
    """Command lines, and what they print."""
    at = take()

    def pod(name: str) -> list[str]:
        row = at.find_pod("shop", name)
        assert row is not None
        return list(render_pods.render_pod(pods.explain_pod(at, row)))

    yield "windlass explain pod warehouse -n shop", pod("warehouse")
    yield "windlass explain pod report -n shop", pod("report")
    yield "windlass explain pod train-0 -n shop", pod("train-0")
    yield "windlass explain pod in-zone-b -n shop", pod("in-zone-b")
    for name in ("zone-a-1", "zone-a-2", "zone-a-3", "zone-b-0"):
        yield f"windlass explain node {name}", list(render_cluster.render_node(nodes.explain_node(at, name)))
    for group in ("spot", "zone-c"):
        yield f"windlass explain group {group}", list(render_cluster.render_group(groups.explain_group(at, group)))
    yield "windlass status", list(render_cluster.render_cluster_explanation(cluster.explain_cluster(at)))


def block(command: str, lines: list[str]) -> str:
    """A sample as the page shows it."""
    return "\n".join(("```console", f"$ {command}", *lines, "```", ""))


def rewrite(page: str) -> str:
    """The page with every sample as it is printed now; each is found by its command."""
    for command, lines in samples():
        before, found, rest = page.partition(f"```console\n$ {command}\n")
        if found:
            page = before + block(command, lines) + rest.partition("```\n")[2]
    return page


if __name__ == "__main__":
    PAGE.write_text(rewrite(PAGE.read_text()))
