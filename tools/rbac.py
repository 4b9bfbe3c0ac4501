"""Rights: every list of permissions that the code declares, as deploy/rbac has them, and as a page."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools import markdown_tables, source_analysis
from windlass.autoscaler import rbac
from windlass.controllers import rbac as operator
from windlass.controllers.lattice import model
from windlass.controllers.openshift import machine_apis
from windlass.kube import rbac as kube_rbac
from windlass.kube.rbac import READ, PolicyRule, RbacProfile, RoleGrant, ServiceAccount
from windlass.providers.clusterapi import provider

FOLDER = source_analysis.ROOT / "deploy" / "rbac"
MADE = (
    "# Made by `make reference` from controllers/rbac.py and autoscaler/rbac.py in src/windlass: "
    "edit those, not this file."
)
_WIDTH = 120

HANDED = model.AutoscalerRules(*rbac.base_rules(model.SYSTEM_NAMESPACE))
"""What Lattice's autoscaler has."""

_MACHINE_API = "machine.openshift.io"
_RUN_BY_OPENSHIFT = ServiceAccount("cluster-autoscaler", machine_apis.MACHINE_API_NAMESPACE)
_SETS = ("machinesets",)

OPENSHIFT = (
    RbacProfile(
        "cluster-autoscaler",
        "The autoscaler that a ClusterAutoscaler of OpenShift runs, with the gate of Cluster API on. MachineSets are"
        " the only groups there.",
        _RUN_BY_OPENSHIFT,
        (
            RoleGrant((*rbac.OBSERVER_RULES, *rbac.ACTUATOR_RULES)),
            RoleGrant((*provider.READ_RULES, *provider.scale_rules(kinds=_SETS)), machine_apis.CLUSTER_API_NAMESPACE),
            RoleGrant(
                (
                    PolicyRule(
                        _MACHINE_API, _SETS, READ, "which MachineSets Machine API holds, and mirrors; or node groups"
                    ),
                    *rbac.own_objects_grant(machine_apis.MACHINE_API_NAMESPACE).rules,
                ),
                machine_apis.MACHINE_API_NAMESPACE,
            ),
        ),
    ),
    RbacProfile(
        "cluster-autoscaler-machine-api",
        "The same, where the gate of Cluster API is off: besides, it works on Machine API.",
        _RUN_BY_OPENSHIFT,
        (
            RoleGrant(
                (
                    PolicyRule(
                        _MACHINE_API, ("machines",), READ, "the Machines of MachineSets, which are node groups then"
                    ),
                    *provider.scale_rules(_MACHINE_API, _SETS),
                ),
                machine_apis.MACHINE_API_NAMESPACE,
            ),
        ),
        is_option=True,
    ),
    RbacProfile(
        "cluster-autoscaler-provisioning-requests",
        "The same, where the gate of ProvisioningRequests is on: besides.",
        _RUN_BY_OPENSHIFT,
        (RoleGrant(rbac.PROVISIONING_REQUEST_RULES),),
        is_option=True,
    ),
    RbacProfile(
        "cluster-autoscaler-priority-expander",
        "The same, where the ClusterAutoscaler's expanders have Priority: besides.",
        _RUN_BY_OPENSHIFT,
        (rbac.priority_expander_grant(machine_apis.MACHINE_API_NAMESPACE),),
        is_option=True,
    ),
)

EVERY: tuple[RbacProfile, ...] = (
    *rbac.ALL_ROLES,
    operator.OPERATOR,
    *operator.MACHINE_POOL,
    *operator.EKS_ANYWHERE,
    operator.LATTICE,
    operator.lattice_autoscaler_rights(HANDED),
    *operator.CLUSTER_AUTOSCALER,
    *operator.MACHINE_AUTOSCALER,
    *operator.MACHINESET_SYNC,
    *OPENSHIFT,
)


def write() -> list[Path]:
    """Write what is missing or no longer true, and take away what nobody declares; which."""
    stale = find_stale()
    made = files()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in made:
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()
    return stale


def find_stale() -> list[Path]:
    """Files that are missing, that say something else than the lists, or that nobody declares."""
    made, there = files(), sorted(FOLDER.glob("*.yaml"))
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return [*wrong, *(path for path in there if path not in made)]


def files() -> dict[Path, str]:
    return {FOLDER / f"{profile.name}.yaml": to_text(profile) for profile in EVERY}


def to_text(of: RbacProfile) -> str:
    """A file: the objects, with what each rule is for."""
    grants = iter(of.grants)
    objects = (_to_text(body, next(grants) if "rules" in body else None) for body in kube_rbac.to_manifests(of))
    return "\n".join([MADE, *_comment(of.description), "---\n".join(objects)])


def _to_text(body: dict[str, Any], grant: RoleGrant | None) -> str:
    lines = []
    for key, value in body.items():
        if grant is None or key != "rules":
            lines.append(f"{key}: {_flow(value)}")
            continue
        lines.append("rules:")
        for rule, spelled in zip(grant.rules, value, strict=True):
            lines += [*_comment(rule.why), f"- {_flow(spelled)}"]
    return "".join(f"{line}\n" for line in lines)


def _flow(value: object) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def page() -> str:
    """docs/reference/permissions.md."""
    lines = markdown_tables.begin(
        "Permissions",
        "What each process, controller and option may do on the API server, and why: no more than this, by the files of"
        " the same names in `deploy/rbac`. Tests run each with exactly these rights, and fail where one is refused or"
        " never used. [Security](../security.md) says what to make of it.",
    )
    for profile in EVERY:
        lines += [f"## {profile.name}", "", profile.description, ""]
        if profile.account is not None:
            lines += [f"ServiceAccount `{profile.account.name}` in `{profile.account.namespace}`.", ""]
        lines += markdown_tables.table(("where", "group", "resources", "verbs", "for"), _rows(profile))
    return "\n".join(lines)


def _rows(of: RbacProfile) -> Iterator[tuple[str, ...]]:
    for grant in of.grants:
        where = markdown_tables.code(grant.namespace) or "the cluster"
        for rule in grant.rules:
            named = f" named {', '.join(map(markdown_tables.code, rule.names))}" if rule.names else ""
            resources = ", ".join(map(markdown_tables.code, rule.resources)) + named
            yield where, markdown_tables.code(rule.group) or "core", resources, ", ".join(rule.verbs), rule.why
