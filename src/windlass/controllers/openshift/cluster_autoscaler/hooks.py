"""Hooks: what is asked before a ClusterAutoscaler is stored."""

from collections.abc import Mapping

from windlass.controllers.openshift.cluster_autoscaler.decide import validation
from windlass.controllers.openshift.cluster_autoscaler.settings import Settings
from windlass.controllers.webhooks import reviewing


def make(settings: Settings) -> Mapping[str, reviewing.Hook]:
    def validate(asked: reviewing.Asked) -> reviewing.Answer:
        name = (asked.found.get("metadata") or {}).get("name") or ""
        found = validation.check(name, asked.found.get("spec") or {}, settings.name)
        return reviewing.Answer("" if found.is_valid else found.text, found.warnings)

    return {"/validate-clusterautoscalers": validate}
