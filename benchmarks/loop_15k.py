"""15,000 nodes, 450,000 pods, 2,000 of them pending in 100 shapes, 500 nodes removable: a large cluster, loop by loop.

Nodes are of 15 groups in three zones. Each runs eight DaemonSet pods, as their controller writes them (`daemon_pods`),
and about 22 pods of 500 apps, all different; every pod has a label of its own and every app a budget. A tenth of the
apps spread over zones, a tenth keep apart on hostnames. 500 nodes run six pods that fit elsewhere, 150 others one that
must not be moved. Pending pods need one of five groups that have no nodes yet.

`seconds` is the first decision, nothing remembered. Then nodes are marked and groups raised as the plan says, 1 % of
the pods are replaced by others elsewhere: `changed_seconds`. Then plans are carried out until there is none any more,
and what is decided 10 s later, nothing having changed, takes `unchanged_seconds`. The same at 1,000 and 5,000 nodes,
everything in proportion, gives `growth`: the exponent with which the first decision's seconds grow with nodes.
"""

import dataclasses
import gc
import resource
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import clusters, daemon_pods, loops
from windlass.autoscaler import app
from windlass.engine import loop
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot

NODES, PODS_PER_NODE, PENDING, REMOVABLE, BLOCKED = 15_000, 30, 2_000, 500, 150
GROUPS, POOLS, APPS, PENDING_SHAPES, FEW_PODS = 15, 5, 500, 100, 6
SMALLER = (1_000, 5_000)
CREATED_S = loops.NOW_S - 3_600
INTERVAL_S = 10.0


def settings() -> Settings:
    """All nodes that can go are found and marked in one loop."""
    chosen = Settings()
    limits = dataclasses.replace(
        chosen.scale_down,
        max_scale_down_parallelism=REMOVABLE,
        max_drain_parallelism=REMOVABLE,
        max_bulk_soft_taint_count=2 * REMOVABLE,
    )
    return dataclasses.replace(chosen, scale_down=limits)


class Cluster:
    """The cluster at one size, and what happens to it."""

    def __init__(self, nodes: int) -> None:
        self._random = clusters.generator()
        self._scale = nodes / NODES
        self._nodes = nodes
        self._made = 0
        self._daemons = daemon_pods.DaemonPods()
        self._running: list[tuple[str, int]] = []
        self._specs = [_app_spec(number) for number in range(APPS)]
        self._owners = [facts.Owner("apps/v1", "ReplicaSet", f"app-{n}", f"uid-app-{n}") for n in range(APPS)]
        gc.disable()  # nothing made here is garbage: looking for some takes as long again
        members = [loops.member(n, f"group-{n % GROUPS:02d}", 16_000, 64 * clusters.GIB) for n in range(nodes)]
        self.snapshot = cluster_snapshot.build_snapshot(members, self._pods())
        gc.enable()
        groups = [
            loops.group(f"group-{n:02d}", members[n::GROUPS], members[n], nodes)
            for n in range(GROUPS)
        ]  # fmt: skip
        pools = [clusters.node(n, 16_000, 64 * clusters.GIB, pool=f"pool-{n}") for n in range(POOLS)]
        groups += [loops.group(template.labels["pool"], [], template, nodes) for template in pools]
        self.seen = Observation(
            self.snapshot,
            tuple(groups),
            daemon_pods.daemon_sets(),
            tuple(
                facts.PodDisruptionBudget(_namespace(app), f"app-{app}", clusters.app_selector(f"app-{app}"), 100)
                for app in range(APPS)
            ),
            {
                (controller.kind, controller.namespace, controller.name): controller
                for controller in self._controllers()
            },
        )

    def _controllers(self) -> Iterator[facts.Controller]:
        for number in range(APPS):
            yield facts.Controller("ReplicaSet", _namespace(number), f"app-{number}", f"uid-app-{number}", 800)
        for daemon_set in daemon_pods.daemon_sets():
            yield facts.Controller("DaemonSet", daemon_set.namespace, daemon_set.name, daemon_set.uid, self._nodes)

    def _pods(self) -> Iterator[facts.Pod]:
        """All pods, node by node; a node's pods are of different apps."""
        few = round((REMOVABLE + BLOCKED) * self._scale)
        pending = round(PENDING * self._scale)
        left = self._nodes * (PODS_PER_NODE - daemon_pods.COUNT) - pending - few * FEW_PODS
        starts = self._random.integers(APPS, size=self._nodes).tolist()
        for number in range(self._nodes):
            name = f"node-{number:05d}"
            yield from self._daemons.on(name)
            busy = number - few
            count = FEW_PODS if busy < 0 else (left + busy) // (self._nodes - few)
            for place in range(count):
                is_stuck = place == 0 and REMOVABLE * self._scale <= number < few
                yield self._pod((starts[number] + 17 * place) % APPS, name, is_stuck)
        for number in range(pending):
            yield self._pending(number % PENDING_SHAPES)

    def _pod(self, app: int, node_name: str, is_stuck: bool = False) -> facts.Pod:
        self._made += 1
        name = f"app-{app}-{self._made}"
        uid = f"00000000-0000-4000-8000-{self._made:012d}"
        self._running.append((uid, app))
        return facts.Pod(
            _namespace(app),
            name,
            uid,
            {"app": f"app-{app}", "tier": "web", "pod-name": name},
            {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"} if is_stuck else {},
            self._owners[app],
            self._specs[app],
            digest=f"digest-{app}",
            node_name=node_name,
            phase="Running",
            created_s=CREATED_S + self._made / 1000,
        )

    def _pending(self, shape: int) -> facts.Pod:
        self._made += 1
        spec = facts.PodSpec(
            requests=clusters.requests(500 + 35 * shape, clusters.GIB // 2 * (1 + shape % 7)),
            node_selector=(("pool", f"pool-{shape % POOLS}"),),
        )
        made = next(clusters.pods_of(f"batch-{shape}", 1, spec, first=self._made))
        return loops.pending(made)

    def replace_pods(self, share: float) -> int:
        """As many running pods as are this share of all pods go, and others of the same apps come elsewhere."""
        count = round(share * len(self.snapshot.pods))
        few = round((REMOVABLE + BLOCKED) * self._scale)
        chosen = self._random.choice(len(self._running), count, replace=False).tolist()
        homes = self._random.integers(few, self._nodes, size=count).tolist()
        for place, home in zip(sorted(chosen, reverse=True), homes, strict=True):
            uid, app = self._running.pop(place)
            self.snapshot.remove_pod(uid)
            self.snapshot.add_pod(self._pod(app, f"node-{home:05d}"))
        return count

    def execute(self, instructions: plan.Plan) -> None:
        """Groups are raised and nodes are marked; machines and drains take longer than what is measured."""
        sizes = {
            instruction.group: instruction.to_size
            for instruction in instructions
            if isinstance(instruction, plan.Resize)
        }
        groups = tuple(
            dataclasses.replace(group, target_size=sizes.get(group.id, group.target_size)) for group in self.seen.groups
        )
        self.seen = dataclasses.replace(self.seen, groups=groups)
        for one in instructions:
            if isinstance(one, plan.SetTaint | plan.RemoveTaint):
                node = self.snapshot.nodes.facts[self.snapshot.nodes.rows[one.node]]
                kept = tuple(taint for taint in node.taints if taint.key != one.key)
                added = (facts.Taint(one.key, one.value, one.effect),) if isinstance(one, plan.SetTaint) else ()
                self.snapshot.add_node(dataclasses.replace(node, taints=kept + added))


def _namespace(app: int) -> str:
    return f"team-{app % 20}"


def _app_spec(number: int) -> facts.PodSpec:
    app = f"app-{number}"
    requests = clusters.requests(250 + number // 2, (1 + number % 5) * clusters.GIB // 4)
    match number % 10:
        case 0:
            return facts.PodSpec(requests=requests, spread=clusters.spread_over(app, facts.ZONE, 5))
        case 1:
            apart = clusters.near_or_apart(app, facts.HOSTNAME, _namespace(number))
            return facts.PodSpec(requests=requests, anti_affinity=apart)
        case _:
            return facts.PodSpec(requests=requests, priority=number % 3)


def first_decision(nodes: int) -> tuple[Cluster, float, float, loop.Decision]:
    """The cluster, the seconds and the CPU seconds of the decision, and the decision."""
    gc.unfreeze()
    gc.collect()  # the cluster before this one
    cluster = Cluster(nodes)
    app.freeze_garbage_collector()  # as the live process does, once it has seen everything
    cpu_s = time.process_time()
    seconds, decision = loops.decide_once(cluster.seen, settings())
    return cluster, seconds, time.process_time() - cpu_s, decision


def run() -> dict[str, float]:
    first_decision(300)  # imports and the like
    growing = {nodes: first_decision(nodes)[1] for nodes in SMALLER}
    cluster, seconds, cpu_seconds, decision = first_decision(NODES)
    growing[NODES] = seconds
    removable = len(decision.memory.durable.scale_down.since)
    helped = sum(len(proposal.helped) for proposal in decision.story.scale_ups)
    now_s, chosen = loops.NOW_S, settings()

    def decide_next() -> float:
        nonlocal decision, now_s
        now_s += INTERVAL_S
        taken_s, decision = loops.decide_once(cluster.seen, chosen, decision.memory, now_s)
        return taken_s

    cluster.execute(decision.plan)
    started = time.perf_counter()
    changed = cluster.replace_pods(0.01)
    ingest_seconds = time.perf_counter() - started
    cpu_s = time.process_time()
    changed_seconds = decide_next()
    changed_cpu_seconds = time.process_time() - cpu_s
    while decision.plan:
        cluster.execute(decision.plan)
        decide_next()
    unchanged_seconds = decide_next()
    sizes = np.log(list(growing))
    exponent = float(np.polyfit(sizes, np.log(list(growing.values())), 1)[0])
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "changed_seconds": changed_seconds,
        "changed_cpu_seconds": changed_cpu_seconds,
        "changed_ingest_seconds": ingest_seconds,
        "changed_pods": changed,
        "unchanged_seconds": unchanged_seconds,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "removable": removable,
        "helped": helped,
        **{f"seconds_{nodes}": taken_s for nodes, taken_s in growing.items()},
        "growth": exponent,
        "pods": len(cluster.snapshot.pods),
        "daemonsets": daemon_pods.COUNT,
        "kinds": len(cluster.snapshot.pods.template_keys),
        "shapes": len(cluster.snapshot.shapes),
    }
