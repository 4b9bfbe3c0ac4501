"""Proactive scale-up: copies made up for controllers that want more pods than they have, and the limit to them."""

from collections import Counter

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.capacity_apis import proactive_pods
from windlass.engine.model import facts


def _inject(case: Json, constants: Json) -> Json:
    parallel = [item for item in case["stateful_sets"] if item["spec"].get("podManagementPolicy") == "Parallel"]
    wanted = {entry["metadata"]["uid"]: _desired(entry) for entry in (*case["replica_sets"], *parallel)}
    wanted |= {one["metadata"]["uid"]: _desired_of_job(one) for one in case["jobs"]}
    pending = [_read(one) for one in case["pending"]]
    missing = proactive_pods.find_missing_pods(wanted, [*(_read(one) for one in case["pods"]), *pending])
    made_up = sum(len(missing_pods.names) for missing_pods in missing)
    rows = range(len(pending) + made_up)
    injected = Counter({one.like.owner.name: len(one.names) for one in missing if one.like.owner})
    return {
        "injected": dict(injected),
        "pods_before_limit": len(rows),
        "pods_after_limit": len(proactive_pods.limit_fake_pods(rows, len(pending), case["limit"])),
    }


def _read(one: Json) -> facts.Pod:
    return objects.pod(one)


def _desired(one: Json) -> int:
    return int(one.get("spec", {}).get("replicas") or 0)


def _desired_of_job(one: Json) -> int:
    spec = one.get("spec", {})
    succeeded = one.get("status", {}).get("succeeded") or 0
    return proactive_pods.desired_job_pods(spec.get("parallelism"), spec.get("completions"), succeeded)


run = by_section({"generated": _inject})
