"""The API server's audit log: what somebody asked for, and whether their rights fit that."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import api
from testbed.bed import Bed
from windlass.autoscaler import memory_store
from windlass.kube.rbac import READ, Permission, RbacProfile, list_permissions
from windlass.observability import options

AGENT = "windlass"
"""By which our own requests name their sender, whoever they are made as."""
SOON_S = 120.0
_LOOK_S = 1.0
"""Each time all of the log is read."""
LATER = (("resource.k8s.io/v1", "devicetaintrules"),)
"""Resources that the newest release serves and older ones, on which the tests may run as well, do not."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was answered."""

    user: str
    agent: str
    verb: str
    group: str
    resource: str
    """With its subresource."""
    namespace: str
    name: str
    code: int
    said: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group or 'core'}{f'/{self.name}' if self.name else ''}"
        return f"{self.code} {self.verb} {what} in {self.namespace or 'the whole cluster'}: {self.said}"

    @property
    def is_refused(self) -> bool:
        return self.code in (401, 403)

    def uses(self, right: Permission) -> bool:
        """Did it need that right, and was it enough?"""
        return (
            not self.is_refused
            and self._needs(right.verb)
            and self.group == right.group
            and right.resource in ("*", self.resource)
            and right.namespace in ("", self.namespace, self.name if self.resource == "namespaces" else "")
            and right.name in ("", self.name)
        )

    def _needs(self, verb: str) -> bool:
        """An apply that makes an object takes the right to create it as well."""
        return self.verb == verb or (verb == "create" and self.verb == "patch" and self.code == 201)


def find_end(log: Path) -> int:
    """How many bytes its whole lines have: another may be half written."""
    return log.read_bytes().rfind(b"\n") + 1


def read(log: Path, after: int = 0) -> list[Asked]:
    """All that was asked for, behind so many bytes; the last line may be half written."""
    with log.open("rb") as lines:
        lines.seek(after)
        whole, _, _ = lines.read().rpartition(b"\n")
    return list(_read(whole.splitlines()))


def _read(lines: Iterable[bytes]) -> Iterator[Asked]:
    for line in lines:
        found: dict[str, Any] = json.loads(line)
        about = found.get("objectRef")
        if about is None or "resource" not in about:
            continue  # discovery, which everybody may look at
        parts = (about["resource"], about.get("subresource", ""))
        status = found.get("responseStatus", {})
        yield Asked(
            found["user"]["username"],
            found.get("userAgent", ""),
            found["verb"],
            about.get("apiGroup", ""),
            "/".join(part for part in parts if part),
            "" if about["resource"] == "namespaces" else about.get("namespace", ""),  # else a Namespace is in itself
            about.get("name", ""),
            status.get("code", 0),
            status.get("message", ""),
        )


def find_refused(asked: Iterable[Asked]) -> list[str]:
    return sorted({str(one) for one in asked if one.is_refused})


def find_unused(asked: Iterable[Asked], rights: Iterable[RbacProfile], unserved: Collection[str] = ()) -> list[str]:
    """Rights that nothing took, but for those on resources that nobody could ask for."""
    asked = list(asked)
    every = [right for profile in rights for right in list_permissions(profile) if right.resource not in unserved]
    return [str(right) for right in every if not any(one.uses(right) for one in asked)]


def find_unserved(bed: Bed) -> set[str]:
    """Resources of a later release than the server's."""
    return {
        name
        for version, name in LATER
        if name not in {item["name"] for item in bed.api.get(f"/apis/{version}")["resources"]}
    }


def find_too_wide(asked: Iterable[Asked], rights: Iterable[RbacProfile]) -> list[str]:
    """Rights in the whole cluster of those who read single namespaces of it, or write where they have roles anyway.

    What is followed everywhere may be written everywhere, wherever it happens to be.
    """
    asked, every = list(asked), [right for profile in rights for right in list_permissions(profile)]
    homes = {right.namespace for right in every if right.namespace}
    wide = {right: {one.namespace for one in asked if one.uses(right)} for right in every if not right.namespace}
    followed = {(right.group, right.resource) for right, within in wide.items() if right.verb in READ and "" in within}

    def is_too_wide(right: Permission, within: set[str]) -> bool:
        if not within or "" in within:
            return False
        is_followed = (right.group, right.resource.partition("/")[0]) in followed
        return right.verb in READ or (within <= homes and not is_followed)

    return [str(right) for right, within in wide.items() if is_too_wide(right, within)]


def evaluate(bed: Bed, *given: RbacProfile) -> None:
    """Who has these rights is refused nothing, uses all of them, and none could do with a namespace.

    What was asked for last may be some moments away: events are written, and leases renewed, beside what they are for.
    """
    users = {profile.account.user for profile in given if profile.account is not None}
    assert users != set()
    parts = memory_store.part_names(
        options.ObjectOptions().memory_config_map
    )  # of large memories: `scaling.keep_much` uses these

    unserved = find_unserved(bed)

    def find_left() -> list[str]:
        unused = find_unused(_by(bed, users), given, unserved)
        return [right for right in unused if not any(f"/{name} " in right for name in parts)]

    api.wait_for(f"{users} use all", find_left, lambda unused: not unused, SOON_S, _LOOK_S)
    asked = _by(bed, users)
    refused, wide = find_refused(asked), find_too_wide(asked, given)
    assert refused == [], refused
    assert wide == [], wide


def _by(bed: Bed, users: set[str]) -> list[Asked]:
    return [asked for asked in read(bed.site.audit_log) if asked.user in users]
