"""RBAC: the permissions that a process needs, declared next to the code that uses them.

`deploy/rbac` is generated from these declarations, and the tests run every process with exactly these permissions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

GROUP = "rbac.authorization.k8s.io"
VERSION = f"{GROUP}/v1"
READ = ("list", "watch")
"""Verbs of an informer."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verbs on resources of one API group, and their purpose."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """Restricts the rule to objects of these names. Not possible for `create`."""
    is_for_admission: bool = False
    """True if an admission plugin checks the permission during another write, so that no request shows it."""


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """Rules in one namespace, or in the cluster if `namespace` is empty."""

    rules: tuple[PolicyRule, ...]
    namespace: str = ""
    aggregated: tuple[Json, ...] = ()
    """Label selectors of ClusterRoles, whose rules it has in place of its own."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The service account of a process."""

    name: str
    namespace: str

    @property
    def user(self) -> str:
        """Its user name."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class RbacProfile:
    """Permissions of one process, controller or option: one file and one set of roles."""

    name: str
    """The name of the file."""
    description: str
    """What uses the permissions, and when."""
    account: ServiceAccount | None
    """The subject of the bindings; None: the administrator binds the roles."""
    grants: tuple[RoleGrant, ...]
    is_option: bool = False
    """True if they add to other profiles, which create the account."""

    @property
    def role_name(self) -> str:
        """The name of roles and bindings."""
        return f"windlass-{self.name}"


def lease_grant(namespace: str, name: str) -> RoleGrant:
    """The permissions of leader election."""
    group, leases = "coordination.k8s.io", ("leases",)
    reason = "leader election"
    return RoleGrant(
        (PolicyRule(group, leases, ("create",), reason), PolicyRule(group, leases, ("get", "update"), reason, (name,))),
        namespace,
    )


def block_owner_deletion_rule(group: str, owners: str) -> PolicyRule:
    """What it takes to make objects that an owner waits for when it is deleted.

    Asked for where the admission plugin OwnerReferencesPermissionEnforcement is on, as on OpenShift.
    """
    reason = "blockOwnerDeletion in owner references (OwnerReferencesPermissionEnforcement)"
    return PolicyRule(group, (f"{owners}/finalizers",), ("update",), reason, is_for_admission=True)


def to_manifests(rights: RbacProfile) -> list[Json]:
    """The manifests, ordered by dependency."""
    made: list[Json] = []
    if rights.account is not None and not rights.is_option:
        named = {"name": rights.account.name, "namespace": rights.account.namespace}
        made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named})
    made += [_role(rights, grant) for grant in rights.grants]
    if rights.account is not None:
        made += [_bind(rights, grant, rights.account) for grant in rights.grants]
    return made


def _role(rights: RbacProfile, grant: RoleGrant) -> Json:
    if grant.aggregated:
        rule = {"clusterRoleSelectors": [dict(selector) for selector in grant.aggregated]}
        return {**_head("ClusterRole", rights, RoleGrant(())), "aggregationRule": rule}
    kind = "Role" if grant.namespace else "ClusterRole"
    return {**_head(kind, rights, grant), "rules": to_policy_rules(grant.rules)}


def to_policy_rules(rules: Iterable[PolicyRule]) -> list[Json]:
    """The rules of a Role."""
    return [_to_policy_rule(rule) for rule in rules]


def _to_policy_rule(rule: PolicyRule) -> Json:
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": [rule.group], "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}


def _bind(rights: RbacProfile, grant: RoleGrant, account: ServiceAccount) -> Json:
    kind = "Role" if grant.namespace else "ClusterRole"
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole" if grant.aggregated else kind, "name": rights.role_name}
    return {**_head(f"{kind}Binding", rights, grant), "roleRef": reference, "subjects": [subject]}


def _head(kind: str, rights: RbacProfile, grant: RoleGrant) -> Json:
    namespace = {"namespace": grant.namespace} if grant.namespace else {}
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": rights.role_name, **namespace}}


@dataclass(frozen=True, slots=True)
class Permission:
    """A verb on a resource in a namespace, for one object if named."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        where = self.namespace or "the whole cluster"
        return f"{self.verb} {self.resource}.{self.group or 'core'}{f'/{self.name}' if self.name else ''} in {where}"


def list_permissions(rights: RbacProfile) -> Iterator[Permission]:
    """All permissions of grants, one by one."""
    for grant in rights.grants:
        for rule in grant.rules:
            if rule.is_for_admission:
                continue
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or ("",):
                        yield Permission(grant.namespace, rule.group, resource, verb, name)
