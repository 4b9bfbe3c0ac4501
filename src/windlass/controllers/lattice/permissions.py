"""Permissions: what the controller of LatticeClusters takes, and what it hands on to the autoscaler that it runs.

RBAC lets nobody give away what they do not have: to hand on rights it holds them, and can hand on no others.
"""

from dataclasses import dataclass

from windlass.controllers import permissions as operator
from windlass.controllers.lattice import names
from windlass.controllers.worker_pools import permissions as worker_pools
from windlass.kube import rights
from windlass.kube.rights import READ, Grant, Rights, Rule

_GROUP = names.API_VERSION.partition("/")[0]
_KEPT = ("get", "patch")
_OWN = (names.AUTOSCALER,)


@dataclass(frozen=True, slots=True)
class Handed:
    """The rights of the autoscaler: in the whole cluster, and in its own namespace."""

    cluster: tuple[Rule, ...] = ()
    own: tuple[Rule, ...] = ()


CONTROLLER = Rights(
    "lattice",
    "`windlass operator --controllers=lattice`.",
    operator.ACCOUNT,
    (
        Grant(
            (
                Rule(_GROUP, ("latticeclusters",), READ, "LatticeClusters and their pools"),
                Rule(_GROUP, ("latticeclusters/status",), ("patch",), "how they fare"),
                worker_pools.KEEPING,
                Rule("", ("events",), ("create", "patch"), "what is wrong with a pool"),
            )
        ),
    ),
    is_option=True,
)


def deploying(handed: Handed) -> Rights:
    """What running an autoscaler takes besides."""
    whole = (
        Rule("", ("namespaces",), ("get",), "the namespace of the autoscaler is there", (names.SYSTEM_NAMESPACE,)),
        Rule(rights.GROUP, ("clusterroles", "clusterrolebindings"), ("create",), "its rights in the cluster"),
        Rule(rights.GROUP, ("clusterroles", "clusterrolebindings"), _KEPT, "what it made before", _OWN),
    )
    inside = (
        Rule("", ("serviceaccounts",), ("create",), "whom it runs as"),
        Rule("", ("serviceaccounts",), _KEPT, "what it made before", _OWN),
        Rule(rights.GROUP, ("roles", "rolebindings"), ("create",), "its rights in its own namespace"),
        Rule(rights.GROUP, ("roles", "rolebindings"), _KEPT, "what it made before", _OWN),
        Rule("apps", ("deployments",), ("create",), "the autoscaler"),
        Rule("apps", ("deployments",), _KEPT, "what it made before", _OWN),
    )
    return Rights(
        "lattice-deploy-autoscaler",
        "`windlass operator --controllers=lattice --lattice-deploy-autoscaler`, the default, besides: running the"
        " autoscaler, and the autoscaler's own rights, which it holds to hand them on. It can hand on no others.",
        operator.ACCOUNT,
        (Grant((*whole, *handed.cluster)), Grant((*inside, *handed.own), names.SYSTEM_NAMESPACE)),
        is_option=True,
    )
