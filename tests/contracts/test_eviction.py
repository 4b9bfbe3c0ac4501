"""Eviction: a deletion that disruption budgets can refuse, with all its odd cases."""

import asyncio
from typing import Any

import pytest

from tests.contracts import objects
from tests.contracts.api_client import BUDGETS, PODS, REPLICA_SETS, Api, Json, Reply, eventually

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}


async def _run(api: Api, *names: str, is_ready: bool = True, **spec: Any) -> None:
    """Pods that run on a node, as far as anyone can tell."""
    for name in names:
        (await api.create(PODS, objects.pod(name, **spec))).expect(201)
        (await api.bind(name, "some-node")).expect(201)
        conditions = [READY if is_ready else READY | {"status": "False"}]
        status = {"phase": "Running", "conditions": conditions}
        (await api.merge(PODS, name, {"status": status}, "status")).expect(200)


async def _budget(api: Api, name: str = "b", allowed: int | None = None, **spec: Any) -> Json:
    """A budget whose status is current; `allowed` says what it must have come to."""
    (await api.create(BUDGETS, objects.budget(name, **spec))).expect(201)
    return await _settled(api, name, allowed)


async def _settled(api: Api, name: str = "b", allowed: int | None = None) -> Json:
    async def check() -> bool:
        found = (await api.get(BUDGETS, name)).obj
        is_current = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        return is_current and allowed in (None, found["status"]["disruptionsAllowed"])

    await eventually(check)
    return (await api.get(BUDGETS, name)).obj


def _cause(reply: Reply) -> str:
    [cause] = reply.causes
    assert cause["reason"] == "DisruptionBudget"
    return str(cause["message"])


async def _is_evicted(api: Api, name: str) -> bool:
    reply = await api.get(PODS, name)
    return reply.code == 404 or "deletionTimestamp" in reply.metadata


async def test_without_a_budget_a_pod_is_evicted(api: Api) -> None:
    await _run(api, "p")
    reply = (await api.evict("p")).expect(201)
    assert (reply.obj["kind"], reply.obj["status"]) == ("Status", "Success")
    found = (await api.get(PODS, "p")).expect(200)
    assert found.metadata["deletionGracePeriodSeconds"] == 30
    [condition] = [c for c in found.obj["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"


async def test_a_budget_is_charged_at_once(api: Api) -> None:
    await _run(api, "p1", "p2", "p3")
    await _budget(api, allowed=1, minAvailable=2)
    (await api.evict("p1")).expect(201)
    assert (await api.get(BUDGETS, "b")).obj["status"]["disruptionsAllowed"] == 0
    reply = (await api.evict("p2")).expect(429)
    assert (reply.reason, reply.message) == ("TooManyRequests", VIOLATES)


async def test_a_budget_that_is_used_up_refuses(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, "bud", allowed=0, minAvailable=2)
    reply = (await api.evict("p1")).expect(429)
    assert (reply.reason, reply.message) == ("TooManyRequests", VIOLATES)
    assert _cause(reply) == "The disruption budget bud needs 2 healthy pods and has 2 currently"
    assert "retry-after" not in reply.headers
    assert not await _is_evicted(api, "p1")


async def test_a_budget_whose_status_is_behind_asks_to_come_again(api: Api) -> None:
    await _run(api, "p1", "p2", "p3")
    found = await _budget(api, "bud", allowed=2, minAvailable=1)
    stale = {"status": {"observedGeneration": found["metadata"]["generation"] - 1}}
    refused: list[Reply] = []
    while not refused:
        # The real server's controller brings the status up to date again within milliseconds.
        asked = [api.merge(BUDGETS, "bud", stale, "status"), *(api.evict("p1", dryRun=["All"]) for _ in range(4))]
        refused = [reply for reply in await asyncio.gather(*asked) if reply.code == 429]
    reply = refused[0]
    assert _cause(reply) == "The disruption budget bud is still being processed by the server."
    assert reply.headers["retry-after"] == "10"
    assert reply.obj["details"]["retryAfterSeconds"] == 10


async def test_pods_without_a_controller_are_never_evicted_under_max_unavailable(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, "bud", allowed=0, maxUnavailable=1)
    reply = (await api.evict("p1")).expect(429)
    assert _cause(reply) == "The disruption budget bud does not allow evicting pods currently"


async def test_two_budgets_are_one_too_many(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, "b1", minAvailable=0)
    await _budget(api, "b2", minAvailable=0)
    reply = (await api.evict("p1")).expect(500)
    assert reply.reason == ""
    assert reply.message == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_do_not_run_are_evicted_whatever_the_budget_says(api: Api, phase: str) -> None:
    (await api.create(PODS, objects.pod("p"))).expect(201)
    if phase != "Pending":
        (await api.bind("p", "some-node")).expect(201)
        (await api.merge(PODS, "p", {"status": {"phase": phase}}, "status")).expect(200)
    await _budget(api, allowed=0, minAvailable=1)
    (await api.evict("p")).expect(201)
    (await api.get(PODS, "p")).expect(404)


async def test_a_terminating_pod_can_be_evicted_again(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, allowed=0, minAvailable=2)
    (await api.delete(PODS, "p1")).expect(200)
    (await api.evict("p1")).expect(201)


async def test_a_pod_that_is_not_ready_is_charged(api: Api) -> None:
    await _run(api, "p1", is_ready=False)
    await _budget(api, "bud", allowed=0, minAvailable=1)
    reply = (await api.evict("p1")).expect(429)
    assert _cause(reply) == "The disruption budget bud needs 1 healthy pods and has 0 currently"


async def test_unless_the_budget_lets_unhealthy_pods_go(api: Api) -> None:
    await _run(api, "p1", is_ready=False)
    await _budget(api, allowed=0, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    (await api.evict("p1")).expect(201)


async def test_an_unhealthy_pod_may_go_while_the_budget_is_met(api: Api) -> None:
    await _run(api, "p1")
    await _run(api, "p2", is_ready=False)
    await _budget(api, allowed=0, minAvailable=1)
    (await api.evict("p2")).expect(201)
    assert (await api.get(BUDGETS, "b")).obj["status"]["disruptionsAllowed"] == 0


async def test_an_absent_pod_is_not_found(api: Api) -> None:
    (await api.evict("nobody")).expect(404)


async def test_a_wrong_uid_conflicts(api: Api) -> None:
    await _run(api, "p")
    reply = (await api.evict("p", preconditions={"uid": "wrong"})).expect(409)
    assert "the UID in the precondition (wrong) does not match the UID in record" in reply.message
    assert not await _is_evicted(api, "p")


async def test_the_names_must_agree(api: Api) -> None:
    await _run(api, "p")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    reply = (await api.call("POST", api.path(PODS, "p", "eviction"), body)).expect(400)
    assert reply.message == "name in URL does not match name in Eviction object"


async def test_a_dry_run_asks_without_charging(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, allowed=1, minAvailable=1)
    (await api.evict("p1", dryRun=["All"])).expect(201)
    assert not await _is_evicted(api, "p1")
    assert (await api.get(BUDGETS, "b")).obj["status"]["disruptionsAllowed"] == 1
    (await api.evict("p1")).expect(201)
    (await api.evict("p2", dryRun=["All"])).expect(429)


async def test_the_grace_period_of_an_eviction_may_be_longer_than_the_pods(api: Api) -> None:
    await _run(api, "p")
    (await api.evict("p", gracePeriodSeconds=600)).expect(201)
    assert (await api.get(PODS, "p")).metadata["deletionGracePeriodSeconds"] == 600
    (await api.evict("p", gracePeriodSeconds=5)).expect(201)
    assert (await api.get(PODS, "p")).metadata["deletionGracePeriodSeconds"] == 5
    (await api.evict("p", gracePeriodSeconds=900)).expect(201)
    assert (await api.get(PODS, "p")).metadata["deletionGracePeriodSeconds"] == 5


async def test_without_grace_a_pod_is_gone_at_once(api: Api) -> None:
    await _run(api, "p")
    (await api.evict("p", gracePeriodSeconds=0)).expect(201)
    (await api.get(PODS, "p")).expect(404)


async def test_a_plain_deletion_ignores_budgets(api: Api) -> None:
    await _run(api, "p1")
    await _budget(api, allowed=0, minAvailable=1)
    (await api.delete(PODS, "p1")).expect(200)


async def test_eviction_leaves_no_trace_in_managed_fields(api: Api) -> None:
    await _run(api, "p")
    before = (await api.get(PODS, "p")).managed
    (await api.evict("p")).expect(201)
    assert (await api.get(PODS, "p")).managed == before


# ── The budgets' status ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_budgets_status_counts_its_pods(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _run(api, "p3", is_ready=False)
    found = await _budget(api, allowed=1, minAvailable=1)
    status = found["status"]
    assert status["expectedPods"] == 3
    assert status["currentHealthy"] == 2
    assert status["desiredHealthy"] == 1
    [condition] = status["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "True")
    assert condition["reason"] == "SufficientPods"


async def test_a_budgets_status_follows_its_pods(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, allowed=1, minAvailable=1)
    (await api.delete(PODS, "p1", {"gracePeriodSeconds": 0})).expect(200)
    await _settled(api, allowed=0)
    await _run(api, "p3", "p4")
    found = await _settled(api, allowed=2)
    assert found["status"]["expectedPods"] == 3


async def test_a_changed_budget_is_computed_anew(api: Api) -> None:
    await _run(api, "p1", "p2")
    await _budget(api, allowed=1, minAvailable=1)
    (await api.merge(BUDGETS, "b", {"spec": {"minAvailable": 2}})).expect(200)
    found = await _settled(api, allowed=0)
    assert found["status"]["observedGeneration"] == 2
    [condition] = found["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")


async def test_percentages_count_what_the_controller_wants(api: Api) -> None:
    spec = objects.deployment()["spec"] | {"replicas": 4}
    made = (await api.create(REPLICA_SETS, {"metadata": {"name": "rs"}, "spec": spec})).expect(201)
    for name in ("p1", "p2", "p3"):
        pod = objects.pod(name)
        pod["metadata"]["ownerReferences"] = [objects.owner(made.obj, controller=True)]
        (await api.create(PODS, pod)).expect(201)
        (await api.bind(name, "some-node")).expect(201)
        status = {"phase": "Running", "conditions": [READY]}
        (await api.merge(PODS, name, {"status": status}, "status")).expect(200)
    found = await _budget(api, allowed=1, minAvailable="50%")
    assert found["status"]["expectedPods"] == 4
    assert found["status"]["desiredHealthy"] == 2
    (await api.scale(REPLICA_SETS, "rs", 6)).expect(200)
    # What the controller wants is looked at again when a pod changes.
    (await api.merge(PODS, "p1", {"metadata": {"annotations": {"a": "b"}}})).expect(200)

    async def is_counted() -> bool:
        return bool((await api.get(BUDGETS, "b")).obj["status"]["expectedPods"] == 6)

    await eventually(is_counted)
    assert (await api.get(BUDGETS, "b")).obj["status"]["desiredHealthy"] == 3


async def test_max_unavailable_is_taken_from_what_the_controller_wants(api: Api) -> None:
    spec = objects.deployment()["spec"] | {"replicas": 2}
    made = (await api.create(REPLICA_SETS, {"metadata": {"name": "rs"}, "spec": spec})).expect(201)
    for name in ("p1", "p2"):
        pod = objects.pod(name)
        pod["metadata"]["ownerReferences"] = [objects.owner(made.obj, controller=True)]
        (await api.create(PODS, pod)).expect(201)
        (await api.bind(name, "some-node")).expect(201)
        status = {"phase": "Running", "conditions": [READY]}
        (await api.merge(PODS, name, {"status": status}, "status")).expect(200)
    await _budget(api, allowed=1, maxUnavailable=1)
    (await api.evict("p1")).expect(201)

    async def is_counted() -> bool:
        return bool((await api.get(BUDGETS, "b")).obj["status"]["currentHealthy"] == 1)

    await eventually(is_counted)
    reply = (await api.evict("p2")).expect(429)
    assert _cause(reply) == "The disruption budget b needs 1 healthy pods and has 1 currently"


async def test_min_and_max_exclude_each_other(api: Api) -> None:
    reply = (await api.create(BUDGETS, objects.budget(minAvailable=1, maxUnavailable=1))).expect(422)
    assert "minAvailable and maxUnavailable cannot be both set" in reply.message
