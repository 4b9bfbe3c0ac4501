"""Every process on a real API server, with exactly the rights that it declares, through all that it does.

What it asked for is read from the server's audit log: nothing may be refused, and no right may be left unused.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed import api, objects
from testbed.bed import Bed
from tests.testbed.rbac import audit_log, conftest, options_scenario, scaling_scenario, service_accounts
from tools import rbac
from windlass.autoscaler import rbac as autoscaler_rbac
from windlass.controllers import rbac as lattice
from windlass.controllers.lattice import model
from windlass.kube import rbac as kube_rbac
from windlass.kube.rbac import PolicyRule, RbacProfile, RoleGrant, ServiceAccount


def by(user: ServiceAccount | None, asked: list[audit_log.Asked]) -> list[audit_log.Asked]:
    assert user is not None
    askeds = [one for one in asked if one.user == user.user]
    assert askeds != []
    return askeds


def test_the_autoscaler_is_refused_nothing_and_uses_all_that_it_may(
    asked: list[audit_log.Asked], unserved: set[str]
) -> None:
    askeds = by(autoscaler_rbac.AUTOSCALER.account, asked)
    assert audit_log.find_refused(askeds) == []
    assert audit_log.find_unused(askeds, scaling_scenario.CORE, unserved) == []
    assert audit_log.find_too_wide(askeds, scaling_scenario.CORE) == []
    assert [one for one in askeds if one.resource.startswith("secrets")] == []


def test_shadow_mode_is_refused_nothing_uses_all_that_it_may_and_writes_nothing(
    asked: list[audit_log.Asked], unserved: set[str]
) -> None:
    askeds = by(autoscaler_rbac.SHADOW.account, asked)
    assert audit_log.find_refused(askeds) == []
    assert audit_log.find_unused(askeds, [autoscaler_rbac.SHADOW], unserved) == []
    assert {one.verb for one in askeds} == {"list", "watch"}


def test_plan_is_refused_nothing_and_uses_all_that_it_may(asked: list[audit_log.Asked], unserved: set[str]) -> None:
    askeds = by(scaling_scenario.VIEWER, asked)
    assert audit_log.find_refused(askeds) == []
    assert audit_log.find_unused(askeds, [autoscaler_rbac.VIEWER], unserved) == []
    assert {one.verb for one in askeds} == {"get", "list", "watch"}


def test_options_are_refused_nothing_and_use_all_that_they_may(asked_with_options: list[audit_log.Asked]) -> None:
    askeds = by(autoscaler_rbac.AUTOSCALER.account, asked_with_options)
    assert audit_log.find_refused(askeds) == []
    assert audit_log.find_unused(askeds, options_scenario.LISTS) == []
    assert audit_log.find_too_wide(askeds, options_scenario.LISTS) == []
    assert [asked for asked in askeds if asked.resource.startswith("secrets")] == []


@pytest.mark.parametrize("controller", conftest.CONTROLLERS)
def test_a_controller_is_refused_nothing_and_uses_all_that_it_may(
    controller: str, asked: list[audit_log.Asked]
) -> None:
    askeds, given = by(conftest.account(controller), asked), conftest.lists(controller)
    assert audit_log.find_refused(askeds) == []
    assert set(audit_log.find_unused(askeds, given)) - handed(controller) == set()
    assert audit_log.find_too_wide(askeds, given) == []


def handed(controller: str) -> set[str]:
    """What the lattice controller holds to hand it on: the autoscaler uses all of it, which the test above shows."""
    if controller != "lattice":
        return set()
    cluster, own = (RoleGrant(rbac.HANDED.cluster), RoleGrant(rbac.HANDED.own, model.SYSTEM_NAMESPACE))
    given = RbacProfile("handed", "", None, (cluster, own))
    return _to_text(given) - _to_text(lattice.LATTICE)


def _to_text(given: RbacProfile) -> set[str]:
    return {str(permission) for permission in kube_rbac.list_permissions(given)}


def test_the_lattice_controller_hands_on_what_it_holds_and_no_more(bed: Bed, asked: list[audit_log.Asked]) -> None:
    assert asked != []
    root = f"/apis/{kube_rbac.VERSION}"
    role = bed.api.get(f"{root}/clusterroles/{model.AUTOSCALER}")
    own = bed.api.get(f"{root}/namespaces/{model.SYSTEM_NAMESPACE}/roles/{model.AUTOSCALER}")
    assert role["rules"] == kube_rbac.to_policy_rules(rbac.HANDED.cluster)
    assert own["rules"] == kube_rbac.to_policy_rules(rbac.HANDED.own)


def test_who_may_not_finalize_an_owner_cannot_make_it_wait(
    bed: Bed, asked: list[audit_log.Asked], tmp_path: Path
) -> None:
    """What the rule for admission is needed for; requests do not show it."""
    assert asked != [], "the autoscaler's story has made the pool"
    rule = next(
        policy_rule
        for policy_rule in lattice.MACHINE_POOL_MANAGEMENT_RULES
        if policy_rule.is_for_admission and "finalizers" in policy_rule.resources[0]
    )
    pool = bed.api.get("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinepools/pool")
    named = {"apiVersion": pool["apiVersion"], "kind": pool["kind"], "name": "pool", "uid": pool["metadata"]["uid"]}
    metadata = {"name": "owned", "namespace": "default", "ownerReferences": [{**named, "blockOwnerDeletion": True}]}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    making = PolicyRule("", ("configmaps",), ("create",), "owned")
    for name, rules in (("without", (making,)), ("with", (making, rule))):
        account = ServiceAccount(name, "admission")
        service_accounts.give(bed, RbacProfile(f"admission-{name}", "", account, (RoleGrant(rules),)))
        server = api.Api(service_accounts.enter(bed, tmp_path, account))
        api.wait_for("they may create", lambda server=server: _may_create(server))  # type: ignore[misc]
        refused = _try(server, body)
        assert ("cannot set blockOwnerDeletion" in refused) == (name == "without"), refused


def _may_create(server: api.Api) -> bool:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free", "namespace": "default"}}
    return _try(server, body) == ""


def _try(server: api.Api, body: api.Object) -> str:
    try:
        server.call("POST", f"{api.path_of(body)}?dryRun=All", body)
    except api.Refused as refused:
        return str(refused)
    return ""


def test_in_workload_clusters_no_more_is_asked_for_than_is_declared(asked: list[audit_log.Asked]) -> None:
    askeds = [one for one in by(conftest.WORKLOAD, asked) if one.agent.startswith(audit_log.AGENT)]
    assert audit_log.find_refused(askeds) == []
    assert audit_log.find_unused(askeds, [lattice.MACHINE_POOL[2]]) == []


def test_machine_pools_of_one_namespace_take_rights_in_that_namespace_alone(
    bed: Bed, asked: list[audit_log.Asked], tmp_path: Path
) -> None:
    assert asked != [], "the operator of all namespaces has ended"
    before = audit_log.find_end(bed.site.audit_log)
    user = ServiceAccount("windlass-operator", "one-namespace")
    given = [
        service_accounts.move(profile, user, lattice.POOL_NAMESPACE)
        for profile in (lattice.OPERATOR, lattice.MACHINE_POOL[1])
    ]
    grants = tuple(replace(grant, namespace="default" if grant.namespace else "") for grant in given[1].grants)
    service_accounts.give(bed, given[0], replace(given[1], grants=grants))
    for body in objects.machine_pool("one", 1):
        bed.api.add(body)
    path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinepools/one"
    with service_accounts.operating(bed, tmp_path, "machine_pool", user, "--namespace=default"):
        api.wait_for(
            "it runs", lambda: bed.api.get(path).get("status", {}).get("phase"), lambda seen: seen == "Running"
        )
        bed.api.delete(path)
        api.wait_for("it is gone", lambda: bed.api.find(path), lambda seen: seen is None)
    askeds = by(user, audit_log.read(bed.site.audit_log, before))
    assert audit_log.find_refused(askeds) == []
