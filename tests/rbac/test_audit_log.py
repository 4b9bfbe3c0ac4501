"""The judge of the audit log: it sees what is refused, what is never used, and what is wider than it is used."""

import json
from pathlib import Path

from tests.testbed.rbac import audit_log
from windlass.kube.rbac import PolicyRule, RbacProfile, RoleGrant, ServiceAccount

USER = ServiceAccount("someone", "here")
LIST = RbacProfile(
    "some",
    "",
    USER,
    (
        RoleGrant((PolicyRule("apps", ("deployments", "deployments/scale"), ("get", "list"), "why"),)),
        RoleGrant(
            (
                PolicyRule("", ("configmaps",), ("create",), "why"),
                PolicyRule("", ("configmaps",), ("get",), "why", ("own",)),
            ),
            "here",
        ),
    ),
)


def line(verb: str, resource: str, name: str = "", namespace: str = "", code: int = 200, group: str = "") -> bytes:
    plural, _, sub = resource.partition("/")
    about = {"resource": plural, "subresource": sub, "name": name, "namespace": namespace, "apiGroup": group}
    said = {"user": {"username": USER.user}, "verb": verb, "objectRef": about, "responseStatus": {"code": code}}
    return json.dumps({key: value for key, value in said.items() if value}).encode()


def read(tmp_path: Path, *lines: bytes) -> list[audit_log.Asked]:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join([*lines, b'{"half": ']))
    return audit_log.read(log)


USED = (
    line("get", "deployments", "a", "there", group="apps"),
    line("list", "deployments", group="apps"),
    line("get", "deployments/scale", "a", "there", group="apps"),
    line("list", "deployments/scale", group="apps"),
    line("create", "configmaps", "own", "here", 201),
    line("get", "configmaps", "own", "here"),
)


def test_what_is_used_is_found_used(tmp_path: Path) -> None:
    assert audit_log.find_unused(read(tmp_path, *USED), [LIST]) == []


def test_each_right_that_is_not_used_is_named(tmp_path: Path) -> None:
    for left_out in range(len(USED)):
        used = [item for number, item in enumerate(USED) if number != left_out]
        assert len(audit_log.find_unused(read(tmp_path, *used), [LIST])) == 1
    assert audit_log.find_unused(read(tmp_path, *USED[:-1]), [LIST]) == ["get configmaps.core/own in here"]


def test_another_object_namespace_or_group_uses_nothing(tmp_path: Path) -> None:
    others = (
        line("get", "configmaps", "other", "here"),
        line("get", "configmaps", "own", "there"),
        line("get", "configmaps", "own", "here", group="apps"),
        line("get", "configmaps/status", "own", "here"),
    )
    assert "get configmaps.core/own in here" in audit_log.find_unused(read(tmp_path, *others), [LIST])


def test_what_was_refused_is_named_and_uses_nothing(tmp_path: Path) -> None:
    asked = read(tmp_path, *USED[:-1], line("get", "configmaps", "own", "here", 403))
    assert audit_log.find_refused(asked) == ["403 get configmaps.core/own in here: "]
    assert audit_log.find_unused(asked, [LIST]) == ["get configmaps.core/own in here"]


def test_an_apply_that_makes_an_object_uses_the_right_to_create_it(tmp_path: Path) -> None:
    unused = audit_log.find_unused(read(tmp_path, line("patch", "configmaps", "own", "here", 201)), [LIST])
    assert "create configmaps.core in here" not in unused
    unused = audit_log.find_unused(read(tmp_path, line("patch", "configmaps", "own", "here", 200)), [LIST])
    assert "create configmaps.core in here" in unused


def test_reading_everywhere_is_too_wide_for_who_reads_one_namespace(tmp_path: Path) -> None:
    asked = read(tmp_path, line("list", "deployments", namespace="there", group="apps"))
    assert audit_log.find_too_wide(asked, [LIST]) == ["list deployments.apps in the whole cluster"]
    assert audit_log.find_too_wide(read(tmp_path, *USED), [LIST]) == []


def test_writing_everywhere_is_too_wide_for_who_writes_where_they_have_a_role(tmp_path: Path) -> None:
    scaling = PolicyRule("apps", ("deployments/scale",), ("patch",), "why")
    wide = RbacProfile("wide", "", USER, (RoleGrant((scaling,)), *LIST.grants))
    here, there = (line("patch", "deployments/scale", "a", where, group="apps") for where in ("here", "there"))
    assert audit_log.find_too_wide(read(tmp_path, here), [wide]) == [
        "patch deployments/scale.apps in the whole cluster"
    ]
    assert audit_log.find_too_wide(read(tmp_path, here, there), [wide]) == []
    followed = line("list", "deployments", group="apps")
    assert audit_log.find_too_wide(read(tmp_path, here, followed), [wide]) == [], "it may be anywhere tomorrow"
