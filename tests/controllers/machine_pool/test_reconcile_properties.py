"""What holds of every decision, whatever a pool is given."""

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.machine_pool.builders import CLUSTER, CONFIG, INFRA, NOW_S, external, pool
from tests.controllers.machine_pool.test_conversion import STATUS
from windlass.controllers.machine_pool import model
from windlass.controllers.machine_pool.model import MachinePoolSettings
from windlass.controllers.machine_pool.reconcile import reconcile_machine_pool

IDS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=4)
PROVIDER_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "ready": st.booleans(),
        "replicas": st.integers(0, 3),
        "dataSecretName": st.sampled_from(["", "s", "t"]),
        "initialization": st.fixed_dictionaries(
            {}, optional={"provisioned": st.booleans(), "dataSecretCreated": st.booleans()}
        ),
        "failureReason": st.just("Broken"),
        "infrastructureMachineKind": st.sampled_from(["", "NewMachine"]),
        "conditions": st.just([{"type": "Ready", "status": "False", "reason": "Slow"}]),
    },
)


def externals(reference: model.ObjectReference) -> st.SearchStrategy[model.ProviderObject | model.MissingObject]:
    there = st.builds(lambda ids, status: external(reference, {"providerIDList": ids}, status), IDS, PROVIDER_STATUS)
    going = there.map(lambda provider_object: dataclasses.replace(provider_object, is_deleting=True))
    gone = st.builds(model.MissingObject, st.just(reference), st.sampled_from(["", "definition"]))
    return there | going | gone


NODES = st.lists(
    st.builds(
        model.Node,
        name=st.sampled_from(["x", "y", "z"]),
        uid=st.sampled_from(["1", "2"]),
        provider_id=st.sampled_from(["a", "b", ""]),
        is_ready=st.booleans(),
        ready_since_s=st.none() | st.sampled_from([NOW_S - 100, NOW_S - 1]),
        is_deleting=st.booleans(),
        kubelet_version=st.sampled_from(["", "v1.36.3"]),
    ),
    max_size=3,
    unique_by=lambda node: node.name,
).map(tuple)


@st.composite
def seen(draw: st.DrawFn) -> model.ObservedMachinePool:
    given_pool = pool(
        replicas=draw(st.none() | st.integers(0, 3)),
        provider_ids=tuple(draw(st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2))),
        data_secret_name=draw(st.sampled_from([None, "", "own"])),
        is_secret_copied=draw(st.booleans()),
        bootstrap_ref=draw(st.sampled_from([None, CONFIG])),
        min_ready_s=draw(st.sampled_from([0, 10])),
        deleted_s=draw(st.sampled_from([None, None, NOW_S - 5])),
        node_deletion_timeout_s=draw(st.sampled_from([None, 0.0, 1.0, 10.0])),
    )
    given_pool = dataclasses.replace(given_pool, status=draw(STATUS))
    there: Any = draw(NODES | st.just(model.UnreachableCluster("Down", "refused")))
    return model.ObservedMachinePool(
        given_pool,
        draw(st.sampled_from([CLUSTER, CLUSTER, None])),
        draw(externals(CONFIG)) if given_pool.bootstrap_ref else None,
        draw(externals(INFRA)),
        there,
        older_pools=draw(st.sampled_from([{}, {"a": "default/older"}])),
        younger_pools=draw(st.sampled_from([{}, {"b": "default/younger"}])),
    )


@given(seen(), st.booleans())
def test_a_pool_that_is_as_decided_stays_so_and_nothing_is_told_twice(
    observed: model.ObservedMachinePool, rotate: bool
) -> None:
    settings = MachinePoolSettings(rotate_bootstrap_secret=rotate)
    once = reconcile_machine_pool(observed, settings, NOW_S)
    copied = once.pool.data_secret_name != observed.pool.data_secret_name or observed.pool.is_secret_copied
    settled = dataclasses.replace(observed, pool=dataclasses.replace(once.pool, is_secret_copied=copied))
    twice = reconcile_machine_pool(settled, settings, NOW_S)
    assert twice.pool == settled.pool
    assert [event for event in twice.events if event.type == "Normal"] == []


@given(seen())
def test_no_node_is_deleted_that_a_pool_still_names_or_that_another_one_does(
    observed: model.ObservedMachinePool,
) -> None:
    made = reconcile_machine_pool(observed, MachinePoolSettings(), NOW_S)
    by_name = {node.name: node for node in (observed.nodes if isinstance(observed.nodes, tuple) else ())}
    for step in made.steps:
        if isinstance(step, model.DeleteNode):
            node = by_name[step.name]
            assert node.provider_id not in {**observed.older_pools, **observed.younger_pools}
            assert step.uid == node.uid
            assert observed.pool.is_deleting or node.provider_id not in made.pool.provider_ids


@given(seen())
def test_the_finalizer_goes_last(observed: model.ObservedMachinePool) -> None:
    made = reconcile_machine_pool(observed, MachinePoolSettings(), NOW_S)
    if model.FINALIZER in observed.pool.finalizers and model.FINALIZER not in made.pool.finalizers:
        assert observed.pool.is_deleting
        assert not isinstance(observed.infrastructure, model.ProviderObject)
        assert not isinstance(observed.bootstrap, model.ProviderObject)
        assert made.steps == ()


@given(seen())
def test_spec_replicas_is_nobodys_but_the_users(observed: model.ObservedMachinePool) -> None:
    assert reconcile_machine_pool(observed, MachinePoolSettings(), NOW_S).pool.replicas == observed.pool.replicas


@given(seen())
def test_a_failure_never_goes_away(observed: model.ObservedMachinePool) -> None:
    made = reconcile_machine_pool(observed, MachinePoolSettings(), NOW_S)
    if observed.pool.status.is_failed:
        assert made.pool.status.is_failed
        before, after = observed.pool.status, made.pool.status
        assert not before.failure_reason or after.failure_reason == before.failure_reason
