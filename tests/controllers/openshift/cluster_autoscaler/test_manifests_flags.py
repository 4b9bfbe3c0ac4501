"""Every command line that a ClusterAutoscaler can stand for is one that our own autoscaler takes."""

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.autoscaler.options import command_line
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import manifests, webhook
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings
from windlass.observability import metric_definitions
from windlass.providers.clusterapi import auto_discovery

PLATFORMS = ("AWS", "Azure", "BareMetal", "GCP", "IBMCloud", "Nutanix", "OpenStack", "PowerVS", "VSphere", "None", "")
GATES = [f"ClusterAPIMachineManagement{platform}" for platform in PLATFORMS] + [machine_apis.PROVISIONING_REQUEST_GATE]

counts = st.integers(0, 2**31 - 1)
durations = st.sampled_from(["10s", "5m", "1h30m", "500ms", "0s"])
modes = st.sampled_from(["Enabled", "Disabled"])
names = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8})?/[a-z]{1,8}", fullmatch=True)


def optional(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def ranges(draw: st.DrawFn, kind: bool = False) -> dict[str, Any]:
    least, most = sorted(draw(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6))))
    return {"min": least, "max": most, **({"type": draw(st.sampled_from(["nvidia.com", "amd.com"]))} if kind else {})}


SCALE_DOWN = {
    **{name: durations for name in ("delayAfterAdd", "delayAfterDelete", "delayAfterFailure", "unneededTime")},
    "utilizationThreshold": st.sampled_from(["0.4", "0.99"]),
    "cordonNodeBeforeTerminating": modes,
}
SPECS = optional(
    {
        "balanceSimilarNodeGroups": st.booleans(),
        "balancingIgnoredLabels": st.lists(names, max_size=3),
        "enforceNodeGroupMinSize": modes,
        "expanders": st.lists(st.sampled_from(["LeastWaste", "Priority", "Random"]), max_size=3, unique=True),
        "ignoreDaemonsetsUtilization": st.booleans(),
        "logVerbosity": st.integers(0, 10),
        "maxNodeProvisionTime": durations,
        "maxPodGracePeriod": counts,
        "podPriorityThreshold": st.integers(-(2**31), 2**31 - 1),
        "resourceLimits": optional(
            {"maxNodesTotal": counts, "cores": ranges(), "memory": ranges(), "gpus": st.lists(ranges(True), max_size=2)}
        ),
        "scaleDown": st.builds(lambda is_on, more: {"enabled": is_on, **more}, st.booleans(), optional(SCALE_DOWN)),
        "scaleUp": optional({"newPodScaleUpDelay": durations}),
        "skipNodesWithLocalStorage": st.booleans(),
        "startupTaints": st.lists(names, max_size=2),
    }
)


@given(SPECS, st.sampled_from(PLATFORMS), st.frozensets(st.sampled_from(GATES)))
def test_our_own_autoscaler_takes_every_command_line(
    spec: dict[str, Any], platform: str, enabled: frozenset[str]
) -> None:
    findings = webhook.validate_cluster_autoscaler("default", spec, "default")
    if not findings.is_valid:
        assert "Random" in spec["expanders"][:-1], findings.text
        return
    words = command_line.split_arguments(
        manifests.autoscaler_args(spec, ClusterAutoscalerSettings(), machine_apis.FeatureGates(platform, enabled))
    )
    assert words.stray == []
    command_line.parse_command_line(words)


def test_with_the_gate_on_mirrors_are_scaled_though_they_are_paused() -> None:
    on = machine_apis.FeatureGates("AWS", frozenset(GATES))
    config = auto_discovery.read_config(
        ["clusterapi:namespace=openshift-cluster-api"],
        manifests.autoscaler_environment(ClusterAutoscalerSettings(), on),
    )
    assert (config.group, config.mirrored_namespace) == ("cluster.x-k8s.io", "openshift-machine-api")


def test_with_the_gate_off_the_autoscaler_speaks_machine_api() -> None:
    config = auto_discovery.read_config(
        [], manifests.autoscaler_environment(ClusterAutoscalerSettings(), machine_apis.FeatureGates("AWS"))
    )
    assert (config.group, config.version, config.mirrored_namespace) == ("machine.openshift.io", "v1beta1", "")


def test_alerts_are_about_measures_that_the_autoscaler_has() -> None:
    rule = manifests.build_prometheus_rule("default", "ns")["spec"]["groups"][0]["rules"]
    measured = {name for alert in rule for name in re.findall(r"cluster_autoscaler_(\w+)", alert["expr"])}
    assert measured == {"unschedulable_pods_count", "cluster_safe_to_autoscale", "skipped_scale_events_count"}
    families = Path(metric_definitions.__file__).read_text()
    assert all(f'"{name}"' in families for name in measured)
