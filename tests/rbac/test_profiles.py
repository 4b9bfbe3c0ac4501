"""The files in deploy/rbac say what the lists next to the code say, and the lists ask for little."""

import re

import pytest
import yaml

from tools import rbac, source_analysis
from windlass.controllers import operator_process
from windlass.kube import rbac as kube_rbac
from windlass.kube.rbac import RbacProfile

EVERY = {one.name: one for one in rbac.EVERY}
AUTOSCALERS = [
    one for name, one in EVERY.items() if re.match(r"autoscaler|cluster-autoscaler(?!-operator)|shadow|viewer", name)
]


def test_the_files_are_those_that_the_lists_make() -> None:
    stale = [str(path.relative_to(source_analysis.ROOT)) for path in rbac.find_stale()]
    assert stale == [], "run `make reference` and commit what it writes"


@pytest.mark.parametrize("name", EVERY)
def test_a_file_holds_the_objects_of_its_list(name: str) -> None:
    text = (rbac.FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    assert list(yaml.safe_load_all(text)) == kube_rbac.to_manifests(EVERY[name])
    for grant in EVERY[name].grants:
        assert all(f"# {rule.why.split(' ')[0]}" in text for rule in grant.rules), "each rule says what it is for"


def test_no_two_lists_make_the_same_object() -> None:
    made = [
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
        for profile in EVERY.values()
        for body in kube_rbac.to_manifests(profile)
    ]
    assert len(made) == len(set(made)), sorted(key for key in set(made) if made.count(key) > 1)


def test_an_option_binds_an_account_that_another_list_makes() -> None:
    made = {profile.account for profile in EVERY.values() if not profile.is_option}
    assert {one.account for one in EVERY.values() if one.is_option} <= made


def test_every_controller_has_a_list() -> None:
    told = " ".join(profile.description for profile in EVERY.values())
    assert [name for name, _ in operator_process.CONTROLLERS if f"--controllers={name}" not in told] == []


@pytest.mark.parametrize("profile", AUTOSCALERS, ids=lambda profile: profile.name)
def test_no_autoscaler_may_read_a_secret_or_delete_a_machine_a_node_or_a_pod(profile: RbacProfile) -> None:
    for permission in kube_rbac.list_permissions(profile):
        assert not permission.resource.startswith("secrets")
        assert not (permission.group == "" and permission.resource == "*")
        assert permission.verb not in (
            "delete",
            "deletecollection",
            "impersonate",
            "escalate",
            "bind",
        ) or permission.resource in (
            "configmaps",
            "provisioningrequests",
        )


@pytest.mark.parametrize("name", ["shadow", "viewer"])
def test_who_only_watches_may_write_nothing(name: str) -> None:
    assert {permission.verb for permission in kube_rbac.list_permissions(EVERY[name])} <= {"get", "list", "watch"}


@pytest.mark.parametrize("profile", EVERY.values(), ids=lambda profile: profile.name)
def test_nobody_asks_for_every_verb_or_group_or_for_more_rights_than_they_have(profile: RbacProfile) -> None:
    for permission in kube_rbac.list_permissions(profile):
        assert "*" not in (permission.verb, permission.group)
        assert permission.resource != "*" or permission.group.endswith(".cluster.x-k8s.io"), (
            "kinds of infrastructure are not known"
        )
        assert permission.verb not in ("escalate", "bind", "impersonate")
