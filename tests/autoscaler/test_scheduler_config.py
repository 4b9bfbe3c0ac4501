"""What was accepted and refused here was compared with kube-scheduler 1.36's own decoding, validation and framework."""

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.autoscaler import scheduler_config
from windlass.engine.model import facts, settings
from windlass.engine.predicates import registry
from windlass.engine.snapshot import cluster_snapshot
from windlass.errors import InvalidInput
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FILTERS = {rule.NAME for rule in registry.FILTERS}


def read(text: str) -> scheduler_config.SchedulerProfile:
    return scheduler_config.parse_profile(HEADER + text, "profile.yaml")


def read_plugins(**points: Any) -> scheduler_config.SchedulerProfile:
    return read(json.dumps({"profiles": [{"plugins": points}]})[1:-1].replace('"profiles"', "profiles", 1) + "\n")


def read_args(plugin: str, args: Any) -> settings.FilterConfig:
    profiles = json.dumps([{"pluginConfig": [{"name": plugin, "args": args}]}])
    return read(f"profiles: {profiles}\n").filters


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def refusal(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        scheduler_config.parse_profile(text, "profile.yaml")
    return str(caught.value)


# The file


def test_the_least_file_changes_nothing() -> None:
    assert read("") == scheduler_config.DEFAULT_PROFILE
    assert read("profiles: []\n") == scheduler_config.DEFAULT_PROFILE
    assert read("profiles:\n- schedulerName: default-scheduler\n") == scheduler_config.DEFAULT_PROFILE


def test_json_is_read_as_well() -> None:
    text = json.dumps({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
    assert scheduler_config.parse_profile(text, "profile.json") == scheduler_config.DEFAULT_PROFILE


def test_the_name_of_the_profile_is_kept() -> None:
    assert read("profiles:\n- schedulerName: batch\n").scheduler_name == "batch"


def test_what_is_no_matter_of_filters_is_passed_over() -> None:
    profile = read("""
leaderElection: {leaderElect: true}
clientConnection: {qps: 50, burst: 100}
percentageOfNodesToScore: 30
extenders: [{urlPrefix: "http://localhost", filterVerb: filter, enableHTTPS: false, managedResources: [{name: x/y}]}]
profiles:
- plugins: {score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeResourcesFit, weight: 5}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 10}
""")
    assert profile == scheduler_config.DEFAULT_PROFILE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: KubeSchedulerConfiguration\n", "apiVersion: found None, expected kubescheduler.config.k8s.io/v1"),
        (HEADER.replace("/v1", "/v1beta3"), "apiVersion: found 'kubescheduler.config.k8s.io/v1beta3'"),
        (HEADER.replace("KubeScheduler", "Kubelet"), "kind: found 'KubeletConfiguration'"),
        (HEADER + "profiles: [{schedulerName: a}, {schedulerName: b}]\n", "found ['a', 'b'], expected exactly one"),
        (HEADER + "profiles: [{schedulerName: ''}]\n", "profiles[0].schedulerName: found ''"),
        (HEADER + "percentageOfNodesToScore: 130\n", "percentageOfNodesToScore: found 130, expected 0 to 100"),
        (HEADER + "parallelism: 0\n", "parallelism: found 0, expected 1 or more"),
        (HEADER + "podInitialBackoffSeconds: 20\n", "podMaxBackoffSeconds: found 10, expected 20 or more"),
        (HEADER + "parallelism: many\n", "parallelism: found 'many'"),
        (HEADER + "profile: []\n", "found 'profile', expected only the fields apiVersion, kind, parallelism"),
        (HEADER + "profiles: [{plugins: {filters: {}}}]\n", "profiles[0].plugins: found 'filters', expected only the"),
        (HEADER + "kind: KubeSchedulerConfiguration\n", "line 3, column 1: key 'kind' is there twice"),
        (HEADER + "---\n" + HEADER, "found 2 documents"),
        (HEADER + "profiles: [\n", "line 4, column 1: not YAML"),
        ("", "found 0 documents"),
        ("- 1\n", "expected one KubeSchedulerConfiguration"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_place(text: str, complaint: str) -> None:
    assert complaint in refusal(text)
    assert refusal(text).startswith("profile.yaml: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing\.yaml: No such file"):
        scheduler_config.load_profile(tmp_path / "nothing.yaml")


# Plugins


def test_every_filter_of_the_engine_can_be_disabled() -> None:
    assert set(scheduler_config.KNOWN_PLUGINS) >= FILTERS
    for name in FILTERS:
        assert read_plugins(multiPoint={"disabled": named(name)}).filters.disabled == {name}


def test_a_filter_is_disabled_at_its_own_point() -> None:
    assert read_plugins(filter={"disabled": named("NodeResourcesFit")}).filters.disabled == {"NodeResourcesFit"}


def test_all_are_disabled_but_those_enabled_again() -> None:
    everywhere = {"disabled": named("*"), "enabled": named("PrioritySort", "DefaultBinder", "NodePorts")}
    assert read_plugins(multiPoint=everywhere).filters.disabled >= FILTERS - {"NodePorts"}
    assert "NodePorts" not in read_plugins(multiPoint=everywhere).filters.disabled
    here = {"disabled": named("*"), "enabled": named("TaintToleration")}
    disabled = read_plugins(filter=here, preFilter={"disabled": named("*")}).filters.disabled
    assert disabled >= FILTERS - {"TaintToleration"}
    assert "TaintToleration" not in disabled


def test_enabled_at_its_own_point_outweighs_disabled_everywhere() -> None:
    plugins = read_plugins(multiPoint={"disabled": named("NodeName")}, filter={"enabled": named("NodeName")})
    assert plugins.filters.disabled == frozenset()


def test_one_half_may_be_off_where_it_makes_no_difference() -> None:
    assert (
        read_plugins(preFilter={"disabled": named("NodeVolumeLimits", "VolumeZone")}).filters
        == settings.DEFAULT_FILTER_CONFIG
    )
    assert read_plugins(filter={"disabled": named("NodePorts")}).filters.disabled == {"NodePorts"}


def test_a_filter_that_is_disabled_at_its_own_point_keeps_its_pre_filter() -> None:
    found = cluster_snapshot.build_snapshot([facts.Node("a", allocatable=(("pods", 10),))], [])
    faulty = facts.Pod("default", "p", spec=facts.PodSpec(spread_fault="x is no operator"))

    def count_fitting(profile: scheduler_config.SchedulerProfile) -> int:
        return len(registry.diagnose(found, found.shape_of(faulty), profile.filters).feasible)

    assert count_fitting(scheduler_config.DEFAULT_PROFILE) == 0
    half, both = ({point: {"disabled": named("PodTopologySpread")} for point in points}
                  for points in (("filter",), ("filter", "preFilter")))  # fmt: skip
    assert count_fitting(read_plugins(**half)) == 0
    assert count_fitting(read_plugins(**both)) == 1
    for name in ("NodeAffinity", "InterPodAffinity", "VolumeBinding", "DynamicResources", "NodeName"):
        assert read_plugins(filter={"disabled": named(name)}).filters.prefilter_only == {name}


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        (
            {"filter": {"disabled": named("NodeFit")}},
            "filter.disabled[0].name: found 'NodeFit', expected DefaultBinder",
        ),
        ({"filter": {"enabled": named("Coscheduling")}}, "filter.enabled[0].name: found 'Coscheduling'"),
        ({"filter": {"enabled": named("ImageLocality")}}, "filter.enabled[0].name: found 'ImageLocality'"),
        ({"score": {"enabled": named("Nonsense")}}, "score.enabled[0].name: found 'Nonsense'"),
        (
            {"filter": {"enabled": named("NodeName", "NodeName")}},
            "filter.enabled[1].name: found 'NodeName', expected each",
        ),
        (
            {"multiPoint": {"disabled": named("*")}},
            "queueSort: found 'no plugin that is enabled', expected PrioritySort",
        ),
        (
            {"preFilter": {"disabled": named("NodePorts")}},
            "preFilter.disabled: found 'NodePorts', expected NodePorts disabl",
        ),
    ],
)
def test_a_plugin_that_cannot_be_honoured_is_named(points: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_plugins(**points)
    assert f"profiles[0].plugins.{complaint}" in str(caught.value) or complaint in str(caught.value)


def test_plugins_of_former_versions_may_still_be_disabled_but_not_enabled() -> None:
    assert read_plugins(filter={"disabled": named("EBSLimits")}).filters == settings.DEFAULT_FILTER_CONFIG
    with pytest.raises(InvalidInput, match="EBSLimits"):
        read_plugins(filter={"enabled": named("EBSLimits")})


# Arguments


def test_ignored_resources_and_groups_are_read() -> None:
    filters = read_args("NodeResourcesFit", {"ignoredResources": ["a.com/x"], "ignoredResourceGroups": ["b.com"]})
    assert filters.ignored_resources == {"a.com/x"}
    assert filters.ignored_resource_groups == {"b.com"}


def test_added_affinity_is_read() -> None:
    expression = {"key": "pool", "operator": "In", "values": ["batch"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    filters = read_args("NodeAffinity", {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    term = NodeSelectorTerm((Requirement("pool", Operator.IN, ("batch",)),))
    assert filters.added_affinity == NodeSelector((term,))


def test_defaults_that_only_prefer_spreading_change_nothing() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    assert (
        read_args("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [constraint]})
        == settings.DEFAULT_FILTER_CONFIG
    )
    assert read_args("PodTopologySpread", {"defaultingType": "System"}) == settings.DEFAULT_FILTER_CONFIG
    assert read_args("PodTopologySpread", None) == settings.DEFAULT_FILTER_CONFIG


def test_defaults_that_refuse_nodes_do_not_matter_where_nothing_is_spread() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    profile = {
        "plugins": {"multiPoint": {"disabled": named("PodTopologySpread")}},
        "pluginConfig": [{"name": "PodTopologySpread", "args": args}],
    }
    assert read(f"profiles: {json.dumps([profile])}\n").filters.disabled == {"PodTopologySpread"}


@pytest.mark.parametrize(
    ("plugin", "args", "complaint"),
    [
        ("NodeFit", None, "pluginConfig[0].name: found 'NodeFit'"),
        ("NodeName", {"a": 1}, "args: found '{\"a\":1}', expected nothing: NodeName takes no arguments"),
        (
            "NodeResourcesFit",
            {"ignored": []},
            "args: found 'ignored', expected only the fields apiVersion, kind, ignored",
        ),
        ("NodeResourcesFit", {"kind": "NodeAffinityArgs"}, "args.kind: found 'NodeAffinityArgs'"),
        ("NodeResourcesFit", {"apiVersion": "v1"}, "args.apiVersion: found 'v1'"),
        ("NodeResourcesFit", {"ignoredResources": ["a b"]}, "args.ignoredResources[0]: found 'a b'"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "args.ignoredResourceGroups[0]: found 'a/b'"),
        (
            "NodeAffinity",
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerm": []}}},
            "requiredDuringSchedulingIgnoredDuringExecution: found 'nodeSelectorTerm', expected only the fields nodeSe",
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
            "args.defaultingType: found 'System', expected List",
        ),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
            },
            "args.defaultConstraints[0].whenUnsatisfiable: found 'DoNotSchedule', expected ScheduleAnyway",
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 0, "topologyKey": "z"}]},
            "args.defaultConstraints[0].maxSkew: found 0, expected 1 or more",
        ),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused(plugin: str, args: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_args(plugin, args)
    assert complaint in str(caught.value)


def test_arguments_are_given_once() -> None:
    with pytest.raises(InvalidInput, match="each plugin once"):
        read("profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}]\n")


# What it comes to


def test_a_disabled_filter_refuses_nothing_and_an_added_affinity_does() -> None:
    node = facts.Node("small", labels={"pool": "web"}, allocatable=(("cpu", 1000), ("pods", 10)))
    pod = facts.Pod("default", "big", spec=facts.PodSpec(requests=(("cpu", 4000),)))
    found = cluster_snapshot.build_snapshot([node], [pod])

    def count_fitting(profile: scheduler_config.SchedulerProfile) -> int:
        return len(registry.diagnose(found, found.shape_of(pod), profile.filters).feasible)

    assert count_fitting(scheduler_config.DEFAULT_PROFILE) == 0
    assert count_fitting(read_plugins(filter={"disabled": named("NodeResourcesFit")})) == 1
    expression = '{key: pool, operator: In, values: ["batch"]}'
    required = (
        f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]}}"
    )
    profile = read(f"""
profiles:
- plugins: {{filter: {{disabled: [{{name: NodeResourcesFit}}]}}}}
  pluginConfig: [{{name: NodeAffinity, args: {{addedAffinity: {{{required}}}}}}}]
""")
    assert count_fitting(profile) == 0
