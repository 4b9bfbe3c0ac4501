"""Drawn clusters for scores: nodes that differ in all that the Score plugins of the default profile read.

`python -m tests.simulator.reference_scheduler.score_cases --seed 1 --cases 100` prints one case a line:
objects and pending pods, as a client would create them.
"""

import argparse
import json
import random
from typing import Any

Json = dict[str, Any]

ZONE, REGION, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
APPS = ("red", "green", "blue")
NAMESPACES = ("x", "y")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Draw:
    """One case."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.owners: dict[tuple[str, str, str], Json] = {}

    def is_likely(self, share: float) -> bool:
        return self.chance.random() < share

    def make(self, name: str) -> Json:
        nodes = [self._node(number) for number in range(self.chance.randint(2, 12))]
        running = [self._pod(f"r{number}", nodes) for number in range(self.chance.randint(0, 25))]
        pending = [self._pod(f"p{number}") for number in range(self.chance.randint(1, 4))]
        spaces = [self._namespace(namespace) for namespace in NAMESPACES]
        services = [self._service(number) for number in range(self.chance.choice((0, 0, 1, 2)))]
        return {"name": name, "objects": [*spaces, *nodes, *services, *self.owners.values(), *running],
                "pending": pending}  # fmt: skip

    def _namespace(self, name: str) -> Json:
        labels = {"team": self.chance.choice(("a", "b"))}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    def _node(self, number: int) -> Json:
        chance = self.chance
        labels = {"disk": chance.choice(("fast", "slow")), "size": str(chance.randint(1, 9))}
        if self.is_likely(0.95):
            labels[HOST] = f"n{number}"
        if self.is_likely(0.85):
            labels |= {ZONE: chance.choice("abc"), REGION: "here"}
        taints = [self._taint() for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3)))]
        unique = {(taint["key"], taint["effect"]): taint for taint in taints}
        has = {"cpu": chance.choice(("2", "4", "7910m", "16", "64")), "pods": "110"}
        has["memory"] = chance.choice(("4Gi", "7961084Ki", "32Gi", "65536000k", "256Gi"))
        if self.is_likely(0.2):
            has["nvidia.com/gpu"] = "4"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": labels},
            "spec": {"taints": list(unique.values())},
            "status": {"allocatable": has, "capacity": has},
        }

    def _taint(self) -> Json:
        soft = {"key": self.chance.choice(("spare", "old", "DeletionCandidateOfClusterAutoscaler")), "value": "1"}
        hard = {"key": "special", "value": "1", "effect": "NoSchedule"}
        return hard if self.is_likely(0.1) else {**soft, "effect": "PreferNoSchedule"}

    def _service(self, number: int) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"s{number}", "namespace": self.chance.choice(NAMESPACES)},
            "spec": {"selector": {"app": self.chance.choice(APPS)}, "ports": [{"port": 80}]},
        }

    # ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _pod(self, name: str, nodes: list[Json] | None = None) -> Json:
        chance = self.chance
        namespace, app = chance.choice(NAMESPACES), chance.choice(APPS)
        labels = {"app": app, "tier": chance.choice(("front", "back")), "version": chance.choice("12")}
        metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
        if self.is_likely(0.6):
            metadata["ownerReferences"] = [self._owned(namespace, app)]
        spec: Json = {"containers": [self._container(f"c{number}") for number in range(chance.choice((1, 1, 1, 2, 3)))]}
        if self.is_likely(0.15):
            spec["initContainers"] = [self._container("i0")]
            if self.is_likely(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if self.is_likely(0.1):
            spec["resources"] = {"requests": {"cpu": "5", **({"memory": "19Gi"} if self.is_likely(0.5) else {})}}
        if self.is_likely(0.25):
            spec["tolerations"] = [self._toleration() for _ in range(chance.randint(1, 2))]
        if self.is_likely(0.45):
            spec["affinity"] = self._affinity()
        if self.is_likely(0.25):
            spec["topologySpreadConstraints"] = self._constraints()
        status: Json = {}
        if nodes is not None:
            spec["nodeName"] = chance.choice(nodes)["metadata"]["name"]
            status["phase"] = "Running"
            if self.is_likely(0.1):
                metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}

    def _container(self, name: str) -> Json:
        asked: Json = {}
        if self.is_likely(0.8):
            asked["cpu"] = self.chance.choice(("0", "10m", "250m", "1", "1500m", f"{self.chance.randint(1, 900)}m"))
        if self.is_likely(0.8):
            asked["memory"] = self.chance.choice(("64Mi", "512Mi", "1Gi", f"{self.chance.randint(1, 3000)}M"))
        return {"name": name, "image": "registry.example/main:1", "resources": {"requests": asked}}

    def _owned(self, namespace: str, app: str) -> Json:
        version, kind = self.chance.choice(
            (("apps/v1", "ReplicaSet"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"),
             ("v1", "ReplicationController"), ("batch/v1", "Job"))
        )  # fmt: skip
        name = f"{kind.lower()}-{app}"
        if kind != "Job":
            self.owners.setdefault((namespace, kind, app), self._owner(version, kind, name, namespace, app))
        return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{namespace}-{name}", "controller": True}

    def _owner(self, version: str, kind: str, name: str, namespace: str, app: str) -> Json:
        labels = {"app": app}
        selector: Json = labels if kind == "ReplicationController" else {"matchLabels": labels}
        if kind == "ReplicaSet" and self.is_likely(0.3):
            selector["matchExpressions"] = [{"key": "tier", "operator": "In", "values": ["front"]}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        spec: Json = {"replicas": 1, "selector": selector, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = app
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}

    def _toleration(self) -> Json:
        key = self.chance.choice(("spare", "old", "special", "DeletionCandidateOfClusterAutoscaler"))
        found: Json = {"key": key, "operator": "Exists"}
        if self.is_likely(0.3):
            found = {"key": key, "operator": "Equal", "value": self.chance.choice(("1", "2"))}
        effect = self.chance.choice(("", "PreferNoSchedule", "NoSchedule"))
        return {**found, **({"effect": effect} if effect else {})}

    def _affinity(self) -> Json:
        chance = self.chance
        found: Json = {}
        if self.is_likely(0.5):
            found["nodeAffinity"] = {PREFERRED: [
                {"weight": chance.randint(1, 100), "preference": {"matchExpressions": [self._expression()]}}
                for _ in range(chance.randint(1, 3))
            ]}  # fmt: skip
        for kind in ("podAffinity", "podAntiAffinity"):
            if self.is_likely(0.4):
                weighted = [
                    {"weight": chance.randint(1, 100), "podAffinityTerm": self._term()}
                    for _ in range(chance.randint(1, 2))
                ]
                found[kind] = {PREFERRED: weighted}
        if self.is_likely(0.15):
            found.setdefault("podAffinity", {})[REQUIRED] = [self._term()]
        if self.is_likely(0.1):
            found.setdefault("podAntiAffinity", {})[REQUIRED] = [{**self._term(), "topologyKey": HOST}]
        return found

    def _expression(self) -> Json:
        return self.chance.choice(
            (
                {"key": "disk", "operator": "In", "values": ["fast"]},
                {"key": "size", "operator": "Gt", "values": ["4"]},
                {"key": ZONE, "operator": "Exists"},
                {"key": ZONE, "operator": "NotIn", "values": ["a", "b"]},
            )
        )

    def _term(self) -> Json:
        term: Json = {"topologyKey": self.chance.choice((ZONE, HOST, REGION)), "labelSelector": self._selector()}
        match self.chance.randint(0, 5):
            case 0:
                term["namespaces"] = [self.chance.choice(NAMESPACES)]
            case 1:
                term["namespaceSelector"] = {"matchLabels": {"team": self.chance.choice(("a", "b"))}}
            case 2:
                term["namespaceSelector"] = {}
        return term

    def _selector(self) -> Json:
        return self.chance.choice(
            ({"matchLabels": {"app": self.chance.choice(APPS)}}, {"matchLabels": {"tier": "front"}},
             {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["red"]}]})
        )  # fmt: skip

    def _constraints(self) -> list[Json]:
        keys = self.chance.sample((ZONE, HOST, REGION), self.chance.randint(1, 2))
        found = []
        for key in keys:
            hard = self.is_likely(0.25)
            item: Json = {"topologyKey": key, "maxSkew": self.chance.randint(1, 5), "labelSelector": self._selector()}
            item["whenUnsatisfiable"] = "DoNotSchedule" if hard else "ScheduleAnyway"
            if self.is_likely(0.3):
                item["nodeTaintsPolicy"] = "Honor"
            if self.is_likely(0.2):
                item["nodeAffinityPolicy"] = "Ignore"
            if self.is_likely(0.2):
                item["matchLabelKeys"] = ["version"]
            found.append(item)
        return found


def make_cases(seed: int, count: int) -> list[Json]:
    return [Draw(random.Random(f"{seed}/{number}")).make(f"score-{seed}-{number}") for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    options = parser.parse_args()
    for case in make_cases(options.seed, options.cases):
        print(json.dumps(case, separators=(",", ":")))


if __name__ == "__main__":
    main()
