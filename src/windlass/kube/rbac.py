"""RBAC: the permissions that a process needs, declared next to the code that uses them.

`deploy/rbac` is generated from these declarations, and the tests run every process with exactly these permissions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

GROUP = "rbac.authorization.k8s.io"
VERSION = f"{GROUP}/v1"
READ = ("list", "watch")
"""What following a resource takes."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verbs on resources of one group, and what they are for."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """Objects of these names, and no others. What is created cannot be limited so."""
    is_for_admission: bool = False
    """Does the server ask for it while it admits another write, so that no request of its own shows it?"""


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """Rules that hold in one namespace, or in the whole cluster where none is named."""

    rules: tuple[PolicyRule, ...]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """Whom a process runs as."""

    name: str
    namespace: str

    @property
    def user(self) -> str:
        """As the API server knows it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class RbacProfile:
    """What one process, one controller, or one option of either needs: one file, and one set of roles."""

    name: str
    """Of the file."""
    description: str
    """Whose they are, and when, in a sentence or two."""
    account: ServiceAccount | None
    """Whom they are given to; None: to whomever the administrator binds them."""
    grants: tuple[RoleGrant, ...]
    is_option: bool = False
    """Do they come on top of others, which make the account?"""

    @property
    def role_name(self) -> str:
        """Of the roles and of the bindings."""
        return f"windlass-{self.name}"


def lease_grant(namespace: str, name: str) -> RoleGrant:
    """What leader election takes."""
    group, leases = "coordination.k8s.io", ("leases",)
    why = "leader election: of several processes one acts"
    return RoleGrant(
        (PolicyRule(group, leases, ("create",), why), PolicyRule(group, leases, ("get", "update"), why, (name,))),
        namespace,
    )


def block_owner_deletion_rule(group: str, owners: str) -> PolicyRule:
    """What it takes to make objects that an owner waits for when it is deleted.

    Asked for where the admission plugin OwnerReferencesPermissionEnforcement is on, as on OpenShift.
    """
    why = "its objects keep their owner until they are gone (OwnerReferencesPermissionEnforcement)"
    return PolicyRule(group, (f"{owners}/finalizers",), ("update",), why, is_for_admission=True)


def set_owner_rule(group: str, owned: str) -> PolicyRule:
    """What it takes to give objects that are there an owner: the right to delete them. Asked for in the same place."""
    why = "giving them an owner (OwnerReferencesPermissionEnforcement)"
    return PolicyRule(group, (owned,), ("delete",), why, is_for_admission=True)


def to_manifests(rights: RbacProfile) -> list[Json]:
    """The objects that give them, in an order in which nothing waits for what comes after it."""
    made: list[Json] = []
    if rights.account is not None and not rights.is_option:
        named = {"name": rights.account.name, "namespace": rights.account.namespace}
        made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named})
    made += [
        {**_head("Role" if grant.namespace else "ClusterRole", rights, grant), "rules": to_policy_rules(grant.rules)}
        for grant in rights.grants
    ]
    if rights.account is not None:
        made += [_bind(rights, grant, rights.account) for grant in rights.grants]
    return made


def to_policy_rules(rules: Iterable[PolicyRule]) -> list[Json]:
    """As a role has them."""
    return [_to_policy_rule(rule) for rule in rules]


def _to_policy_rule(rule: PolicyRule) -> Json:
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": [rule.group], "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}


def _bind(rights: RbacProfile, grant: RoleGrant, account: ServiceAccount) -> Json:
    kind = "Role" if grant.namespace else "ClusterRole"
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    reference = {"apiGroup": GROUP, "kind": kind, "name": rights.role_name}
    return {**_head(f"{kind}Binding", rights, grant), "roleRef": reference, "subjects": [subject]}


def _head(kind: str, rights: RbacProfile, grant: RoleGrant) -> Json:
    namespace = {"namespace": grant.namespace} if grant.namespace else {}
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": rights.role_name, **namespace}}


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one resource, in one place, and on one object where names are given: what can be used or not."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        where = self.namespace or "the whole cluster"
        return f"{self.verb} {self.resource}.{self.group or 'core'}{f'/{self.name}' if self.name else ''} in {where}"


def list_permissions(rights: RbacProfile) -> Iterator[Permission]:
    """Each single one that requests show."""
    for grant in rights.grants:
        for rule in grant.rules:
            if rule.is_for_admission:
                continue
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or ("",):
                        yield Permission(grant.namespace, rule.group, resource, verb, name)
