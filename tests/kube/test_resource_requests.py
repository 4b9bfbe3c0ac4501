"""Sums were compared with component-helpers 0.36 on random pods; each table row keeps one rule."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import scheduler_releases
from windlass.kube import fields, resource_requests
from windlass.kube.models import pods

Json = dict[str, Any]
NANO = 10**9


def spec(json: Json) -> pods.PodSpec:
    return msgspec.convert(json, pods.PodSpec)


def status(json: Json) -> pods.PodStatus:
    return msgspec.convert(json, pods.PodStatus)


def asking(name: str = "c", *, restart: str | None = None, **amounts: object) -> Json:
    container: Json = {"name": name, "resources": {"requests": amounts}}
    return {**container, "restartPolicy": restart} if restart else container


def reported(name: str = "c", allocated: Json | None = None, **actuated: object) -> Json:
    return {"name": name, "resources": {"requests": actuated}, "allocatedResources": allocated}


def units(amounts: dict[str, int]) -> dict[str, float]:
    return {name: nano / NANO for name, nano in amounts.items()}


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]

WAITING: dict[str, tuple[Json, dict[str, float]]] = {
    "nothing": ({}, {}),
    "null everywhere": ({"containers": [{"name": "c", "resources": None}], "initContainers": None}, {}),
    "containers add up": (
        {"containers": [asking(cpu="500m"), asking(cpu=1, memory="1k")]},
        {"cpu": 1.5, "memory": 1e3},
    ),
    "an init container runs alone": ({"containers": [asking(cpu=1)], "initContainers": [asking(cpu=3)]}, {"cpu": 3}),
    "a small init container changes nothing": (
        {"containers": [asking(cpu=2), asking(cpu=2)], "initContainers": [asking(cpu=3)]},
        {"cpu": 4},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [asking(cpu=1)], "initContainers": [asking(cpu=2, restart="Always")]},
        {"cpu": 3},
    ),
    "an init container runs beside earlier sidecars": (
        {"containers": [asking(cpu=1)], "initContainers": [asking(cpu=2, restart="Always"), asking(cpu=4)]},
        {"cpu": 6},
    ),
    "an init container does not run beside later sidecars": (
        {"containers": [asking(cpu=1)], "initContainers": [asking(cpu=4), asking(cpu=2, restart="Always")]},
        {"cpu": 4},
    ),
    "another restart policy makes no sidecar": (
        {"containers": [asking(cpu=1)], "initContainers": [asking(cpu=2, restart="OnFailure")]},
        {"cpu": 2},
    ),
    "overhead comes on top of all": (
        {"containers": [asking(cpu=1)], "initContainers": [asking(cpu=3)], "overhead": {"cpu": "250m", "memory": 5}},
        {"cpu": 3.25, "memory": 5},
    ),
    "pod-level requests replace the sum": (
        {"containers": [asking(cpu=1, memory=7)], "resources": {"requests": {"cpu": 5}}, "overhead": {"cpu": 1}},
        {"cpu": 6, "memory": 7},
    ),
    "pod-level hugepages too": (
        {"containers": [], "resources": {"requests": {"hugepages-2Mi": "4Mi"}}},
        {"hugepages-2Mi": 4 * 2**20},
    ),
    "pod level knows no other resource": (
        {
            "containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": 1}}}],
            "resources": {"requests": {"ephemeral-storage": 9}},
        },
        {"ephemeral-storage": 1},
    ),
    "limits are no requests": ({"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}, {}),
}


@pytest.mark.parametrize("case", WAITING)
def test_what_a_waiting_pod_asks_for(case: str) -> None:
    json, expected = WAITING[case]

    assert units(resource_requests.pending_requests(spec(json))) == expected


CONTAINER = {"containers": [asking(cpu=2)]}
POD_LEVEL = {"containers": [asking(cpu=1)], "resources": {"requests": {"cpu": 2}}}

BOUND: dict[str, tuple[Json, Json, dict[str, float]]] = {
    "no status": (CONTAINER, {}, {"cpu": 2}),
    "what is actuated may be more": (CONTAINER, {"containerStatuses": [reported(cpu=3)]}, {"cpu": 3}),
    "what is allocated may be more": (CONTAINER, {"containerStatuses": [reported(allocated={"cpu": 4})]}, {"cpu": 4}),
    "what is wanted may be more": (CONTAINER, {"containerStatuses": [reported(cpu=1)]}, {"cpu": 2}),
    "allocated alone is not looked at": (
        CONTAINER,
        {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": 9}}]},
        {"cpu": 2},
    ),
    "of an infeasible resize, what is wanted does not count": (
        CONTAINER,
        {"containerStatuses": [reported(cpu=1, allocated={"cpu": "1500m"})], "conditions": INFEASIBLE},
        {"cpu": 1.5},
    ),
    "of an infeasible resize, nothing may be left": (
        CONTAINER,
        {"containerStatuses": [reported()], "conditions": INFEASIBLE},
        {},
    ),
    "a deferred resize counts": (
        CONTAINER,
        {"containerStatuses": [reported(cpu=1)], "conditions": DEFERRED},
        {"cpu": 2},
    ),
    "a container that the spec does not know": (CONTAINER, {"containerStatuses": [reported("x", cpu=9)]}, {"cpu": 2}),
    "sidecars are resized": (
        {"containers": [asking(cpu=1)], "initContainers": [asking("s", cpu=1, restart="Always")]},
        {"initContainerStatuses": [reported("s", cpu=3)]},
        {"cpu": 4},
    ),
    "init containers are not": (
        {"containers": [asking(cpu=1)], "initContainers": [asking("i", cpu=2)]},
        {"initContainerStatuses": [reported("i", cpu=3)]},
        {"cpu": 2},
    ),
    "the pod as a whole is resized": (POD_LEVEL, {"resources": {"requests": {"cpu": 3}}}, {"cpu": 3}),
    "by what is allocated too": (
        POD_LEVEL,
        {"resources": {"requests": {"cpu": 1}}, "allocatedResources": {"cpu": 5}},
        {"cpu": 5},
    ),
    "what is allocated to the pod counts only beside what is actuated": (
        POD_LEVEL,
        {"allocatedResources": {"cpu": 5}},
        {"cpu": 2},
    ),
    "an infeasible resize of the pod": (POD_LEVEL, {"resources": {}, "conditions": INFEASIBLE}, {"cpu": 0}),
}


@pytest.mark.parametrize("case", BOUND)
def test_what_a_pod_on_a_node_is_counted_with(case: str) -> None:
    json, reports, expected = BOUND[case]

    assert units(resource_requests.bound_requests(spec(json), status(reports))) == expected


@pytest.mark.parametrize("case", BOUND)
def test_a_pod_that_is_not_resizing_is_counted_with_its_spec(case: str) -> None:
    json, reports, _ = BOUND[case]

    if not resource_requests.is_resizing(resource_requests.spec_requests(spec(json)), status(reports)):
        assert resource_requests.bound_requests(spec(json), status(reports)) == resource_requests.pending_requests(
            spec(json)
        )


def test_a_status_that_repeats_the_spec_is_no_resize() -> None:
    reports = {"containerStatuses": [reported(cpu=2, allocated={"cpu": 2})], "resources": {"requests": {"cpu": 1}}}

    assert not resource_requests.is_resizing(resource_requests.spec_requests(spec(CONTAINER)), status(reports))


@pytest.mark.parametrize(
    ("json", "field", "found"),
    [
        ({"containers": [asking(cpu="1.5.3")]}, "spec.containers[0].resources.requests[cpu]", "1.5.3"),
        ({"containers": [asking(), asking(memory="-1")]}, "spec.containers[1].resources.requests[memory]", "-1"),
        ({"initContainers": [asking(cpu="1K")]}, "spec.initContainers[0].resources.requests[cpu]", "1K"),
        ({"overhead": {"cpu": "x"}}, "spec.overhead[cpu]", "x"),
        ({"resources": {"requests": {"cpu": -1}}}, "spec.resources.requests[cpu]", -1),
    ],
)
def test_an_amount_that_cannot_be_counted_is_named(json: Json, field: str, found: object) -> None:
    with pytest.raises(fields.InvalidField) as caught:
        resource_requests.pending_requests(spec(json))

    assert (caught.value.field, caught.value.found) == (field, found)


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi"]), st.integers(0, 5))
containers = st.lists(
    st.builds(lambda a, r: {"name": "c", "resources": {"requests": a}, "restartPolicy": r}, amounts, st.just(None)),
    max_size=3,
)
init_containers = st.lists(
    st.builds(
        lambda a, r: {"name": "i", "resources": {"requests": a}, "restartPolicy": r},
        amounts,
        st.sampled_from([None, "Always"]),
    ),
    max_size=4,
)


@given(containers, init_containers)
def test_at_every_moment_the_containers_that_run_fit_into_the_total(main: list[Json], init: list[Json]) -> None:
    total = units(resource_requests.pending_requests(spec({"containers": main, "initContainers": init})))
    sidecars: list[Json] = []
    moments: list[list[Json]] = []
    for container in init:
        moments.append([*sidecars, container])
        if container["restartPolicy"] == "Always":
            sidecars.append(container)
    moments.append([*sidecars, *main])

    for name in ("cpu", "memory", "hugepages-2Mi"):
        peaks = [sum(c["resources"]["requests"].get(name, 0) for c in moment) for moment in moments]
        assert total.get(name, 0) == max(peaks)


def bound(json: Json, status: Json, release: scheduler_releases.SchedulerRelease) -> dict[str, int]:
    pod_spec, state = spec(json), msgspec.convert(status, pods.PodStatus)
    if not resource_requests.is_resizing(resource_requests.spec_requests(pod_spec), state, release):
        assert resource_requests.bound_requests(pod_spec, state, release) == resource_requests.pending_requests(
            pod_spec
        )
    return {name: nano // NANO for name, nano in resource_requests.bound_requests(pod_spec, state, release).items()}


TRADE = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "3"}}},
                        {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}  # fmt: skip


def traded(**first: Any) -> Json:
    """The node still has the containers the other way round."""
    return {"containerStatuses": [
        {"name": "a", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}},
        {"name": "b", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}},
    ], **first}  # fmt: skip


def test_containers_that_trade_cpu_count_once_since_1_37() -> None:
    assert bound(TRADE, traded(), scheduler_releases.OLDEST_RELEASE) == {"cpu": 6}
    assert bound(TRADE, traded(), scheduler_releases.NEWEST_RELEASE) == {"cpu": 4}


def test_since_1_37_statuses_of_the_pod_stand_for_those_of_its_containers() -> None:
    whole = {"allocatedResources": {"cpu": "7"}, "resources": {"requests": {"cpu": "5"}}}
    assert bound(TRADE, traded(**whole), scheduler_releases.NEWEST_RELEASE) == {"cpu": 7}
    less = {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
    assert bound(TRADE, less, scheduler_releases.NEWEST_RELEASE) == {"cpu": 4}


def test_since_1_37_a_resize_that_is_infeasible_leaves_what_the_node_has() -> None:
    refused = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert bound(TRADE, {**traded(), **refused}, scheduler_releases.NEWEST_RELEASE) == {"cpu": 4}
    assert bound(TRADE, refused, scheduler_releases.NEWEST_RELEASE) == {}


def test_since_1_37_a_plain_init_container_counts_with_its_status() -> None:
    init = {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}], **TRADE}
    status = {"initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "9"}}}]}
    assert bound(init, status, scheduler_releases.OLDEST_RELEASE) == {"cpu": 4}
    assert bound(init, status, scheduler_releases.NEWEST_RELEASE) == {"cpu": 9}
