"""Permissions: what the controller of the ClusterAutoscaler takes. It gives none away: the autoscaler has its own."""

from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift.cluster_autoscaler import names
from windlass.controllers.openshift.permissions import EVENTS, GATES
from windlass.kube import rights
from windlass.kube.rights import READ, Account, Grant, Rights, Rule

_NAME = "cluster-autoscaler-operator"
_OWN = "autoscaling.openshift.io"
_CONFIG = "config.openshift.io"
_KEPT = (*READ, "create", "update")

EVERY = (
    Rights(
        _NAME,
        "`windlass operator --controllers=cluster_autoscaler"
        f" --leader-elect-namespace={openshift.MACHINE_API_NAMESPACE} --leader-elect-name={_NAME}`."
        " The autoscaler that it runs has rights of its own (cluster-autoscaler.yaml).",
        Account(_NAME, openshift.MACHINE_API_NAMESPACE),
        (
            Grant(
                (
                    Rule(_OWN, ("clusterautoscalers",), READ, "what the autoscaler is to be like"),
                    Rule(_OWN, ("clusterautoscalers/status",), ("patch",), "how it fares"),
                    rights.own(_OWN, "clusterautoscalers"),
                    GATES,
                    Rule(_CONFIG, ("clusteroperators",), READ, "whether Machine API is there"),
                    Rule(_CONFIG, ("clusteroperators",), ("create",), "what the operator says of itself"),
                    Rule(
                        _CONFIG,
                        ("clusteroperators/status",),
                        ("patch",),
                        "what the operator says of itself",
                        (names.AUTOSCALER,),
                    ),
                )
            ),
            Grant(
                (
                    Rule("apps", ("deployments",), (*_KEPT, "delete"), "the autoscaler"),
                    Rule("", ("services",), _KEPT, "its metrics, and the webhooks"),
                    Rule(
                        "monitoring.coreos.com",
                        ("servicemonitors", "prometheusrules"),
                        _KEPT,
                        "who scrapes it, and alerts",
                    ),
                    Rule("networking.k8s.io", ("networkpolicies",), _KEPT, "whom it may talk to"),
                    Rule(_OWN, ("machineautoscalers",), READ, "what the operator says it is related to"),
                    EVENTS,
                    *rights.lease(openshift.MACHINE_API_NAMESPACE, _NAME).rules,
                ),
                openshift.MACHINE_API_NAMESPACE,
            ),
        ),
    ),
)
