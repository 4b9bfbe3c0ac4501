"""Decisions about a MachineAutoscaler: what holds whatever is there."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import Json, MachineSetPair
from windlass.controllers.openshift.machine_autoscaler import model
from windlass.controllers.openshift.machine_autoscaler.model import FINALIZER
from windlass.controllers.openshift.machine_autoscaler.reconcile import reconcile_machine_autoscaler

NOW_S = 1_800_000_000.0
ME, OTHER = "ns/me", "ns/other"
keys = (
    machine_apis.OWNER_ANNOTATION,
    *(key for api in machine_apis.MACHINE_APIS for key in (api.min_size, api.max_size)),
)
owners = st.sampled_from([ME, OTHER, "ns/gone", "elsewhere/one", "not an owner"])
annotations = st.dictionaries(st.sampled_from(keys), owners | st.sampled_from(["1", "12"]))
statuses = st.sampled_from(["MachineAPI", "ClusterAPI", "Migrating", ""])


@st.composite
def machine_sets(draw: st.DrawFn, name: str) -> Json | None:
    if draw(st.booleans()):
        return None
    metadata = {"name": name, "uid": "u", "resourceVersion": "7", "annotations": draw(annotations)}
    return {
        "metadata": metadata,
        "spec": {"authoritativeAPI": "MachineAPI"},
        "status": {"authoritativeAPI": draw(statuses)},
    }


@st.composite
def seen(draw: st.DrawFn) -> model.ObservedMachineAutoscaler:
    references = st.builds(
        model.TargetReference,
        st.sampled_from(["machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2", "apps/v1"]),
        st.just("MachineSet"),
        st.just("set"),
    )
    last = draw(
        st.none() | references | st.just(model.TargetReference("cluster.x-k8s.io/v1beta1", "MachineSet", "old"))
    )
    autoscaler = model.MachineAutoscaler(
        "ns",
        "me",
        is_deleting=draw(st.booleans()),
        finalizers=(FINALIZER,) if draw(st.booleans()) else (),
        min=draw(st.integers(-1, 3)),
        max=draw(st.integers(-1, 12)),
        target=draw(references),
        status=model.MachineAutoscalerStatus(last),
    )
    other = model.MachineAutoscaler("ns", "other", created="2020", max=1, target=draw(references))
    return model.ObservedMachineAutoscaler(
        autoscaler,
        draw(
            st.sampled_from([frozenset(machine_apis.MACHINE_APIS), frozenset({machine_apis.MACHINE_API}), frozenset()])
        ),
        MachineSetPair("set", draw(machine_sets("set")), draw(machine_sets("set"))),
        MachineSetPair("old", draw(machine_sets("old")), draw(machine_sets("old")))
        if last and last.name == "old"
        else None,
        {OTHER: other} if draw(st.booleans()) else {},
    )


@given(seen())
def test_only_what_holds_and_is_supported_is_written_to(observed: model.ObservedMachineAutoscaler) -> None:
    plan = reconcile_machine_autoscaler(observed, NOW_S)
    pairs = {"set": observed.target, "old": observed.last}
    for step in (plan.release, plan.target):
        if step is not None:
            pair = pairs[step.name]
            assert pair is not None
            assert step.api is pair.holder
            assert step.api in observed.supported
            assert pair.get(step.api) is not None


@given(seen())
def test_nothing_of_anothers_is_touched(observed: model.ObservedMachineAutoscaler) -> None:
    plan = reconcile_machine_autoscaler(observed, NOW_S)
    if plan.release is not None:
        pair = observed.target if plan.release.name == "set" else observed.last
        assert pair is not None
        body = pair.get(plan.release.api) or {}
        assert body["metadata"]["annotations"][machine_apis.OWNER_ANNOTATION] == ME
    if plan.target is not None:
        body = observed.target.get(plan.target.api) or {}
        owner = body["metadata"]["annotations"].get(machine_apis.OWNER_ANNOTATION)
        assert owner in (None, ME, "ns/gone") or (owner == OTHER and OTHER not in observed.others)


@given(seen())
def test_ready_says_so_only_when_the_bounds_are_on_the_set_or_about_to_be(
    observed: model.ObservedMachineAutoscaler,
) -> None:
    plan = reconcile_machine_autoscaler(observed, NOW_S)
    if observed.autoscaler.is_deleting:
        assert plan.target is None
        return
    (ready,) = plan.status.conditions
    if ready["status"] != "True":
        assert plan.target is None
        return
    holder = observed.target.holder
    assert holder is not None
    body = observed.target.get(holder) or {}
    after = {**body["metadata"]["annotations"], **(plan.target.annotations if plan.target else {})}
    assert after[machine_apis.OWNER_ANNOTATION] == ME
    assert (int(after[holder.min_size]), int(after[holder.max_size])) == (
        observed.autoscaler.min,
        observed.autoscaler.max,
    )


@given(seen())
def test_what_is_deleted_keeps_its_finalizer_only_while_something_of_its_is_on_a_set(
    observed: model.ObservedMachineAutoscaler,
) -> None:
    plan = reconcile_machine_autoscaler(observed, NOW_S)
    if not observed.autoscaler.is_deleting or not observed.autoscaler.finalizers:
        return
    if plan.finalizers is None:
        held = [pair for pair in (observed.target, observed.last) if pair is not None]
        bodies = [pair.get(api) for pair in held for api in machine_apis.MACHINE_APIS]
        assert any(
            ((body or {}).get("metadata") or {}).get("annotations", {}).get(machine_apis.OWNER_ANNOTATION) == ME
            for body in bodies
        )
