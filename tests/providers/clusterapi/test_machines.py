"""What is kept of a Machine is what someone asks, and no more."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from windlass.kube import resources, store
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import machines

Json = dict[str, Any]

MARK = "cluster.x-k8s.io/delete-machine"
CONDITIONS = [
    {"type": f"Condition{number}", "status": "True", "reason": "AsItShouldBe", "message": "nothing to report" * 4,
     "lastTransitionTime": "2026-11-15T08:00:00Z"}
    for number in range(9)
]  # fmt: skip


def decode(number: int = 0, metadata: Json | None = None, spec: Json | None = None, **status: Any) -> Any:
    named = {
        "name": f"workload-md-0-7d9c5b8f6-{number:05x}",
        "namespace": "default",
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": f"{100_000 + number}",
        "labels": {f"label-{item}": "of no interest" for item in range(6)},
        "ownerReferences": [{"apiVersion": "v1", "kind": "MachineSet", "name": "ms", "uid": "u", "controller": True}],
    }
    body = {
        "metadata": {**named, **(metadata or {})},
        "spec": {"clusterName": "workload", "providerID": f"aws:///eu-central-1a/i-{number:017x}", **(spec or {})},
        "status": {"nodeRef": {"name": f"ip-10-0-0-{number}"}, "conditions": CONDITIONS, **status},
    }
    return resources.MACHINES.decode(msgspec.json.encode(body))


def keep(*arguments: Any, **more: Any) -> machines.Machine:
    return machines.narrow_machine(MARK)(decode(*arguments, **more))


def test_a_machine_in_good_health_is_its_name_its_owners_and_its_node() -> None:
    assert keep(7) == machines.Machine(
        "default",
        "workload-md-0-7d9c5b8f6-00007",
        "00000000-0000-4000-8000-000000000007",
        ("MachineSet/default/ms",),
        "aws:///eu-central-1a/i-00000000000000007",
        "ip-10-0-0-7",
    )


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("is_marked", {"metadata": {"annotations": {MARK: "long ago"}}}),
        ("is_deleting", {"metadata": {"deletionTimestamp": "2026-11-15T08:00:00Z"}}),
        ("pause", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}),
        ("pause", {"conditions": [{"type": "Paused", "status": "True"}]}),
        ("pause", {"v1beta2": {"conditions": [{"type": "Paused", "status": "True"}]}}),
        ("failure", {"failureMessage": "no such image"}),
        ("failure", {"deprecated": {"v1beta1": {"failureReason": "CreateError"}}}),
        ("failure", {"phase": "Failed"}),
        (
            "failure",
            {
                "spec": {"providerID": None},
                "conditions": [{"type": "InfrastructureReady", "status": "False", "severity": "Error"}],
                "phase": "Failed",
            },
        ),
    ],
)
def test_what_is_wrong_with_a_machine_is_kept(what: str, told: Json) -> None:
    assert not getattr(keep(), what)
    assert getattr(keep(**told), what)


def test_conditions_and_labels_that_nobody_asks_for_make_no_difference() -> None:
    busy = keep(0, {"labels": {"other": "label"}, "resourceVersion": "2"}, conditions=CONDITIONS[3:], phase="Running")

    assert busy == keep()


def test_a_machine_of_which_little_can_be_read_is_kept_with_that() -> None:
    partial = clusterapi.Machine(metadata=decode().metadata)

    assert machines.narrow_machine(MARK)(partial) == machines.Machine(
        "default", partial.meta.name or "", partial.meta.uid or "", ("MachineSet/default/ms",)
    )


def test_a_thousand_machines_are_kept_in_1300_bytes_each() -> None:
    held: store.Store[machines.Machine] = store.Store(
        {
            "owner": lambda machine: machine.owners,
            "id": lambda one: (one.provider_id,),
            "node": lambda one: (one.node_name,),
        },
        narrow=machines.narrow_machine(MARK, keeps_labels=True),
    )
    tracemalloc.start()
    try:
        for number in range(1000):
            found = decode(number)
            held.put(found.meta, found)
        del found
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert len(held) == 1000
    assert size / 1000 < 1300


def test_labels_are_kept_where_drain_rules_may_select_by_them_once_for_all_that_share_them() -> None:
    keep_labels = machines.narrow_machine(MARK, keeps_labels=True)
    first, second = keep_labels(decode(1)), keep_labels(decode(2))
    assert (first.cluster, first.labels[:4]) == ("workload", ("label-0", "of no interest", "label-1", "of no interest"))
    assert first.labels is second.labels
    assert first != keep_labels(decode(1, {"labels": {"other": "label"}}))
