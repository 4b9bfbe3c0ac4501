"""The world of a recorded scenario: objects, nodes and groups, moved on step by step as the recording says.

Nothing here decides. What the autoscaler did to nodes (taints, cordons) and to sizes is taken from what the next loop
was recorded to have seen, so that one step that differs does not make all later ones differ.
"""

import copy
from dataclasses import replace
from typing import Any

from tests.conformance import objects
from tests.conformance.outcome import Json
from windlass.autoscaler import priority_expander_config
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.expanders import priority
from windlass.engine.model import facts, node_groups
from windlass.engine.observation import Observation

EPOCH_S = 946_684_800.0
"""2000-01-01T00:00:00Z, where every scenario's clock starts."""

TO_BE_DELETED, CANDIDATE = "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"
LONG_AGO = "1999-12-31T23:00:00Z"
TOLERATED_BY_DAEMONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class World:
    """The API objects and groups of one scenario at its present step."""

    def __init__(self, scenario: Json) -> None:
        self.groups: dict[str, Json] = {group["id"]: copy.deepcopy(group) for group in scenario["groups"]}
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.nodes: dict[str, Json] = {}
        self.group_of: dict[str, str] = {}
        for item in scenario["objects"]:
            self._put(item)
        for group in scenario["groups"]:
            for number in range(group["initial_nodes"]):
                self._add_node(node_of(group, number), group["id"])

    def move_on(self, step: Json) -> Observation:
        """Apply what happened before this step's loop; return what the loop sees."""
        env = step["env"]
        for item in env.get("nodes_added", ()):
            self._add_node(copy.deepcopy(item), _group_of(item))
        for item in env.get("pods_added", ()):
            self._put(item)
        for key in env.get("pods_removed", ()):
            self.objects.pop(("Pod", *key.split("/")), None)
        for item in env.get("objects_added", ()):
            self._put(item)
        for item in env.get("objects_removed", ()):
            self.objects.pop((item["kind"], item.get("namespace", ""), item["name"]), None)
        for item in env.get("pods_terminating", ()):
            pod = self.objects.get(("Pod", *item["pod"].split("/")))
            if pod is not None:
                pod["metadata"]["deletionTimestamp"] = item["deletionTimestamp"]
        for patch in env.get("node_patches", ()):
            if patch["name"] in self.nodes:
                _patch(self.nodes[patch["name"]], patch, patch.get("at_s", step["at_s"]))
        for item in env.get("nodes_ready", ()):
            if item["name"] in self.nodes:
                _set_ready(self.nodes[item["name"]], True, item["at_s"])
        for name in env.get("nodes_removed", ()):
            self.nodes.pop(name, None)
        for key, allowed in env.get("pdb_allowed", {}).items():
            self.objects["PodDisruptionBudget", *key.split("/")]["status"]["disruptionsAllowed"] = allowed
        for item in step.get("apply", ()):
            self._put(item)
        for item in step.get("delete", ()):
            self.objects.pop((item["kind"], item["namespace"], item["name"]), None)
        for item in env.get("pods_bound", ()):
            pod = self.objects.get(("Pod", *item["pod"].split("/")))
            if pod is not None:
                pod["spec"]["nodeName"] = item["node"]
                pod["status"] = {"phase": "Running"}
        for patch in step.get("node_patches", ()):
            if patch["name"] in self.nodes:
                _patch(self.nodes[patch["name"]], patch, step["at_s"])
        for change in step.get("groups", ()):
            group = self.groups[change["id"]]
            group.update({key: value for key, value in change.items() if not key.startswith("external")})
        return self._observe(step)

    def _observe(self, step: Json) -> Observation:
        seen = step["observed"]
        for flags in seen.get("nodes", ()):
            _mark(self.nodes[flags["name"]], flags, step["at_s"])
        names = {flags["name"] for flags in seen.get("nodes", ())}
        for name in [name for name in self.nodes if name not in names]:
            del self.nodes[name]
        cluster_objects = cluster_dump.read_objects([*self.nodes.values(), *self.objects.values()])
        if cluster_objects.set_aside:
            raise AssertionError(cluster_objects.set_aside)
        return Observation(
            snapshot=cluster_dump.build_snapshot(cluster_objects),
            groups=tuple(self._group(group, seen) for group in self.groups.values()),
            daemon_sets=tuple(_daemon_set(item) for item in self._of_kind("DaemonSet")),
            budgets=tuple(cluster_objects.budgets),
            controllers={
                (controller.kind, controller.namespace, controller.name): controller
                for controller in cluster_objects.controllers
            },
            priorities=self._priorities(),
        )

    def _group(self, group: Json, seen: Json) -> node_groups.NodeGroup:
        ident = group["id"]
        registered = [name for name in self.nodes if self.group_of[name] == ident]
        instances = [node_groups.Instance(f"oracle://{ident}/{name}") for name in registered]
        for item in seen.get("unregistered", ()):
            if item["group"] == ident:
                error = item.get("error")
                instances.append(
                    node_groups.Instance(
                        f"oracle://{ident}/{item['name']}",
                        item["state"],
                        node_groups.InstanceError(error["class"], error["code"]) if error else None,
                    )
                )
        template = copy.deepcopy(group["template"])
        template["metadata"]["name"] = f"{ident}-template"
        return node_groups.NodeGroup(
            ident,
            group["min"],
            group["max"],
            seen["target_sizes"][ident],
            tuple(instances),
            None if group.get("no_template") else replace(objects.node(template), csi_node=_csi_node(group)),
            node_groups.GroupOptions(**group.get("options", {})),
        )

    def _priorities(self) -> tuple[priority.PriorityRule, ...]:
        for item in self._of_kind("ConfigMap"):
            if item["metadata"]["name"] == "cluster-autoscaler-priority-expander":
                return priority_expander_config.parse_priorities(item["data"]["priorities"])
        return ()

    def _of_kind(self, kind: str) -> list[Json]:
        return [item for (found, _, _), item in self.objects.items() if found == kind]

    def _put(self, one: Json) -> None:
        metadata = one["metadata"]
        self.objects[one["kind"], metadata.get("namespace", ""), metadata["name"]] = copy.deepcopy(one)

    def _add_node(self, node: Json, group: str) -> None:
        name = node["metadata"]["name"]
        self.nodes[name], self.group_of[name] = node, group


def _csi_node(group: Json) -> facts.CSINode | None:
    """Of the group's template, where it has one."""
    return facts.CSINode(f"{group['id']}-template", tuple(group["csi"].items())) if "csi" in group else None


def _group_of(node: Json) -> str:
    return str(node["spec"]["providerID"].split("/")[2])


def node_of(group: Json, number: int) -> Json:
    name = f"{group['id']}-{number}"
    node: Json = copy.deepcopy(group["template"])
    node.update(apiVersion="v1", kind="Node")
    labels = {**node["metadata"].get("labels", {}), facts.HOSTNAME: name}
    node["metadata"] = {**node["metadata"], "name": name, "labels": labels, "creationTimestamp": LONG_AGO}
    node["spec"] = {**node.get("spec", {}), "providerID": f"oracle://{group['id']}/{name}"}
    node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]
    return node


def _stamp(at_s: float) -> str:
    minutes, seconds = divmod(int(at_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"2000-01-{1 + hours // 24:02d}T{hours % 24:02d}:{minutes:02d}:{seconds:02d}Z"


def _set_ready(node: Json, ready: bool, at_s: float) -> None:
    status = "True" if ready else "False"
    for condition in node["status"]["conditions"]:
        if condition["type"] == "Ready" and condition["status"] != status:
            condition.update(status=status, lastTransitionTime=_stamp(at_s))


def _patch(node: Json, patch: Json, at_s: float) -> None:
    metadata, spec = node["metadata"], node["spec"]
    metadata.setdefault("annotations", {}).update(patch.get("annotations", {}))
    metadata.setdefault("labels", {}).update(patch.get("labels", {}))
    if "ready" in patch:
        _set_ready(node, patch["ready"], at_s)
    if "unschedulable" in patch:
        spec["unschedulable"] = patch["unschedulable"]
    for part in ("allocatable", "capacity"):
        for resource, amount in patch.get(part, {}).items():
            if amount is None:
                node["status"][part].pop(resource, None)
            else:
                node["status"][part][resource] = amount
    removed = set(patch.get("taints_remove", ()))
    kept = [taint for taint in spec.get("taints", ()) if taint["key"] not in removed]
    spec["taints"] = kept + patch.get("taints_add", [])


def _mark(node: Json, flags: Json, at_s: float) -> None:
    """Bring a node's marks to what the loop was recorded to have seen."""
    _set_ready(node, flags.get("ready", False), at_s)
    spec = node["spec"]
    if flags.get("cordoned", False) != bool(spec.get("unschedulable", False)):
        spec["unschedulable"] = flags.get("cordoned", False)
    for key, flag, effect in (
        (TO_BE_DELETED, "to_be_deleted", "NoSchedule"),
        (CANDIDATE, "deletion_candidate", "PreferNoSchedule"),
    ):
        taints: list[dict[str, Any]] = spec.setdefault("taints", [])
        has = any(taint["key"] == key for taint in taints)
        if flags.get(flag) and not has:
            taints.append({"key": key, "value": str(int(EPOCH_S + at_s)), "effect": effect})
        elif not flags.get(flag) and has:
            spec["taints"] = [taint for taint in taints if taint["key"] != key]


def _daemon_set(one: Json) -> node_groups.DaemonSet:
    metadata, template = one["metadata"], copy.deepcopy(one["spec"]["template"])
    template.setdefault("metadata", {}).update(namespace=metadata["namespace"], name=metadata["name"])
    spec = template["spec"]
    spec.setdefault("tolerations", []).extend(
        {"key": key, "operator": "Exists", "effect": effect} for key, effect in TOLERATED_BY_DAEMONS
    )
    template["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
    ]
    critical = spec.get("priorityClassName") == "system-node-critical" and spec.get("preemptionPolicy") != "Never"
    return node_groups.DaemonSet(
        metadata["namespace"], metadata["name"], metadata["uid"], objects.pod(template), critical
    )
