"""CapacityBuffers: namespaces reconciled, then pods injected, step by step, against objects as they were recorded."""

import copy
import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from tests.conformance.scenario_cluster import EPOCH_S
from windlass.autoscaler.capacity_apis import buffer_templates
from windlass.engine.capacity_apis import capacity_buffer
from windlass.engine.capacity_apis.capacity_buffer import (
    BufferStatus,
    CapacityBuffer,
    QuotaScope,
    ResourceQuota,
    SamplePod,
    ScalableRef,
)
from windlass.engine.model.provisioning import Condition
from windlass.kube import time_formats
from windlass.quantity import Quantity, parse_quantity

PLURALS = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
UNSCALED = {("apps", "DaemonSet"): "apps/v1, Resource=daemonsets", ("batch", "Job"): "batch/v1, Resource=jobs"}


def run(path: Path) -> Iterator[Outcome]:
    for _, _, case in read_sections(path):
        yield judge_case(case)


def judge_case(case: Json) -> Outcome:
    world, differences = World(case), list[str]()
    for number, (step, expected) in enumerate(zip(case["steps"], case["expect"], strict=True)):
        found = world.move_on(step)
        wrong = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
        differences += [f"step {number}: {key}: expected {expected.get(key)}, found {found.get(key)}" for key in wrong]
    return Outcome(case["name"], int(not differences), 1, tuple(differences))


class World:
    """Objects by kind, namespace and name, and what stands in for the API server."""

    def __init__(self, case: Json) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.statuses: dict[str, BufferStatus] = {}
        self.scales: list[Json] = case.get("scales", [])
        for item in case["objects"]:
            self._put(item)

    def move_on(self, step: Json) -> Json:
        now_s = EPOCH_S + step["at_s"]
        for item in step.get("delete", ()):
            self.objects.pop((item["kind"], item["namespace"], item["name"]), None)
        for item in step.get("apply", ()):
            self._put(item)
        again = self._reconcile(now_s)
        told = {}
        for item in self._buffers():
            injected = capacity_buffer.inject_buffer(item, functools.partial(self._generation, item.namespace), now_s)
            self.statuses[item.key] = injected.status
            told[item.key] = self._tell(item, injected)
        return {"buffers": told, **({"requeue_namespaces": again} if again else {})}

    def _reconcile(self, now_s: float) -> list[str]:
        again = []
        for namespace in sorted({buffer.namespace for buffer in self._buffers()}):
            buffers = [one for one in self._buffers() if one.namespace == namespace]
            what = {one.key: kept for one in buffers if one.is_ours and (kept := self._resolve(one)) is not None}
            reconciled = capacity_buffer.reconcile_buffers(buffers, what, self._quotas(namespace), now_s)
            self.statuses |= reconciled.statuses
            again += [namespace] if reconciled.try_again else []
        return again

    # What buffers keep room for

    def _resolve(self, buffer: CapacityBuffer) -> capacity_buffer.ResolvedTemplate | str | None:
        if buffer.template is not None:
            source = self.objects.get(("PodTemplate", buffer.namespace, buffer.template))
            if source is None:
                return f'capacity buffer client can\'t get pod template: podtemplates "{buffer.template}" not found'
            return self._keep(buffer, _completed(source["template"]), None)
        if buffer.scalable is None:
            return None
        scale, live_fault = self._scale(buffer.namespace, buffer.scalable)
        if scale is not None:
            pods = self._pods(buffer.namespace, scale["selector"])
            if pods:
                newest = max(pods, key=lambda pod: time_formats.parse_time(pod["metadata"]["creationTimestamp"]))
                spec = {key: value for key, value in newest["spec"].items() if key != "nodeName"}
                return self._keep(buffer, {"metadata": _told(newest["metadata"]), "spec": spec}, scale["replicas"])
        own, own_fault = self._own(buffer.namespace, buffer.scalable)
        if own is None:
            return capacity_buffer.unresolved_message(buffer.scalable, live_fault, own_fault)
        replicas = own["spec"].get("parallelism" if own["kind"] == "Job" else "replicas")
        return self._keep(buffer, _completed(own["spec"]["template"]), replicas)

    def _scale(self, namespace: str, wanted: ScalableRef) -> tuple[Json | None, str]:
        before = "failed to get scale object: "
        for scale in self.scales:
            if (scale["namespace"], scale["group"], scale["kind"], scale["name"]) == (
                namespace, wanted.group, wanted.kind, wanted.name
            ):  # fmt: skip
                return scale, ""
        if wanted.group == "core":
            return None, f'{before}no matches for kind "{wanted.kind}" in version "core/"'
        before += "failed to get scale sub resource: "
        if (wanted.group, wanted.kind) in UNSCALED:
            kind = UNSCALED[wanted.group, wanted.kind]
            return None, f"{before}could not find scale subresource for {kind} in discovery information"
        found = self.objects.get((wanted.kind, namespace, wanted.name))
        if found is None:
            plural = PLURALS.get(wanted.kind, f"{wanted.kind.lower()}s")
            return (
                None,
                f'{before}{".".join(part for part in (plural, wanted.group) if part)} "{wanted.name}" not found',
            )
        selector = found["spec"].get("selector") or {}
        labels = selector.get("matchLabels", selector if wanted.kind == "ReplicationController" else {})
        text = ",".join(f"{key}={value}" for key, value in labels.items())
        return {"replicas": found.get("status", {}).get("replicas", 0), "selector": text}, ""

    def _own(self, namespace: str, wanted: ScalableRef) -> tuple[Json | None, str]:
        if (wanted.group, wanted.kind) not in capacity_buffer.SUPPORTED_WORKLOADS:
            return None, ""
        found = self.objects.get((wanted.kind, namespace, wanted.name))
        group = "" if wanted.group == "core" else f".{wanted.group}"
        name = f'{wanted.kind.lower()}{group} "{wanted.name}" not found'
        return found, f"failed to get Deployment: failed to get {wanted.kind}: {name}"

    def _pods(self, namespace: str, selector: str) -> list[Json]:
        wanted = dict(part.split("=") for part in selector.split(",") if part)
        return [
            pod
            for (kind, where, _), pod in self.objects.items()
            if kind == "Pod" and where == namespace and wanted.items() <= pod["metadata"].get("labels", {}).items()
        ]

    def _keep(self, buffer: CapacityBuffer, template: Json, replicas: int | None) -> capacity_buffer.ResolvedTemplate:
        """Write the buffer's own template, and say what is in it."""
        key = ("PodTemplate", buffer.namespace, capacity_buffer.pod_template_name(buffer))
        known, before = self.objects.get(key), None
        if known is None:
            metadata = {"name": key[2], "namespace": buffer.namespace, "generation": 1}
            known = self.objects[key] = {"kind": "PodTemplate", "metadata": metadata, "template": template}
        elif known["template"] != template:
            before = buffer_templates.read_sample(known["template"]["spec"])
            known["template"] = template
            known["metadata"]["generation"] += 1
        return capacity_buffer.ResolvedTemplate(
            buffer_templates.read_sample(template["spec"]), known["metadata"]["generation"], replicas, before
        )

    # Reading and telling

    def _buffers(self) -> list[CapacityBuffer]:
        buffers = [_read_buffer(item) for (kind, _, _), item in self.objects.items() if kind == "CapacityBuffer"]
        return [replace(buffer, status=self.statuses.get(buffer.key, buffer.status)) for buffer in buffers]

    def _quotas(self, namespace: str) -> list[ResourceQuota]:
        return [
            _read_quota(item)
            for (kind, where, _), item in sorted(self.objects.items())
            if kind == "ResourceQuota" and where == namespace
        ]

    def _generation(self, namespace: str, name: str) -> int | None:
        found = self.objects.get(("PodTemplate", namespace, name))
        return None if found is None else found["metadata"].get("generation", 0)

    def _put(self, one: Json) -> None:
        metadata = one["metadata"]
        key = (one["kind"], metadata["namespace"], metadata["name"])
        made, before = copy.deepcopy(one), self.objects.get(key)
        if one["kind"] == "CapacityBuffer":
            old = 0 if before is None else before["metadata"]["generation"]
            changed = before is None or before["spec"] != one["spec"]
            made["metadata"]["generation"] = metadata.get("generation") or old + changed
            if before is None:
                self.statuses.pop(f"{key[1]}/{key[2]}", None)
        self.objects[key] = made

    def _tell(self, buffer: CapacityBuffer, injected: capacity_buffer.InjectionResult) -> Json:
        status = injected.status
        told: Json = {
            "conditions": [_tell_condition(condition) for condition in status.conditions],
            "fake_pods": injected.pods,
        }
        optional = {
            "pod_template": status.pod_template,
            "pod_template_generation": status.pod_template_generation,
            "provisioning_strategy": status.strategy,
            "replicas": status.replicas,
        }
        told |= {key: value for key, value in optional.items() if value is not None}
        if injected.pods:
            template = self.objects["PodTemplate", buffer.namespace, status.pod_template or ""]["template"]
            told["fake_pod_requests"] = _tell_amounts(buffer_templates.read_sample(template["spec"]))
        return told


def _completed(template: Json) -> Json:
    return {
        "metadata": _told(template.get("metadata", {})),
        "spec": buffer_templates.default_pod_spec(template["spec"]),
    }


def _told(metadata: Json) -> Json:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}


def _tell_amounts(sample: SamplePod) -> Json:
    """As canonical text: which of several spellings is the API server's business."""
    return {name: _to_text(amount) for name, amount in sample.requests.items()}


def _to_text(amount: Quantity) -> object:
    return _Amount(amount.nano)


class _Amount:
    """Equal to every text that means the same."""

    def __init__(self, nano: int) -> None:
        self._nano = nano

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and parse_quantity(other).nano == self._nano

    def __hash__(self) -> int:
        return hash(self._nano)

    def __repr__(self) -> str:
        return str(Quantity(self._nano))


def _read_buffer(one: Json) -> CapacityBuffer:
    metadata, spec, status = one["metadata"], one.get("spec", {}), one.get("status", {})
    scalable = spec.get("scalableRef")
    limits = spec.get("limits")
    return CapacityBuffer(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("generation", 0),
        time_formats.parse_time(metadata["creationTimestamp"]),
        spec.get("provisioningStrategy"),
        (spec.get("podTemplateRef") or {}).get("name"),
        ScalableRef(scalable.get("apiGroup", ""), scalable["kind"], scalable["name"]) if scalable else None,
        spec.get("replicas"),
        spec.get("percentage"),
        None if limits is None else {name: parse_quantity(str(text)) for name, text in limits.items()},
        BufferStatus(
            (status.get("podTemplateRef") or {}).get("name"),
            status.get("podTemplateGeneration"),
            status.get("replicas"),
            status.get("provisioningStrategy"),
            tuple(_read_condition(item) for item in status.get("conditions", ())),
        ),
    )


def _read_condition(one: Json) -> Condition:
    since_s = time_formats.parse_time(one["lastTransitionTime"])
    return Condition(
        one["type"], one["status"], one["reason"], one.get("message", ""), since_s, one.get("observedGeneration")
    )


def _tell_condition(condition: Condition) -> Json:
    told: Json = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "since_s": condition.since_s - EPOCH_S,
    }
    return told | ({"observed_generation": condition.observed_generation} if condition.observed_generation else {})


def _read_quota(one: Json) -> ResourceQuota:
    spec, status = one["spec"], one.get("status", {})
    scopes = [QuotaScope(name) for name in spec.get("scopes") or ()]
    scopes += [
        QuotaScope(item["scopeName"], item["operator"], tuple(item.get("values") or ()))
        for item in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    amounts = {
        part: {name: parse_quantity(str(text)) for name, text in (status.get(part) or {}).items()}
        for part in ("hard", "used")
    }
    return ResourceQuota(one["metadata"]["name"], amounts["hard"], amounts["used"], tuple(scopes))
