from pathlib import Path
from typing import Any

import pytest

from windlass.autoscaler.options import flag_values, flags, process_options
from windlass.engine.model import deviations, settings
from windlass.errors import InvalidInput

REFERENCE = Path(__file__).parents[4] / "shared" / "spec" / "flags.tsv"
BEYOND_THE_PEER = {
    "behavior", "dashboard-address", "dashboard-tls-cert-file", "dashboard-tls-key-file", "dashboard-token-file",
    "dry-run", "enable-debugging-handlers", "kube-scheduler-version", "memory-config-map", "record", "record-limit",
    "seed", "shadow", "shadow-window", "tls-cert-file", "tls-private-key-file", "context", "insecure-skip-tls-verify",
    "request-timeout", "currency", "runbook",
} | {flag.name for flag in flags.DECISION_FLAGS.values() if flag.group == "deviations"}  # fmt: skip
BEYOND_THE_PEER -= {"enable-csi-node-aware-scheduling"}  # on by default, and off in Cluster Autoscaler
ABSENT = {"(none)", "(empty)"}


def reference() -> list[tuple[str, str, str]]:
    if not REFERENCE.exists():
        return []
    lines = REFERENCE.read_text().splitlines()
    return [(name, kind, default) for name, kind, default in (line.split("\t") for line in lines if line[0] != "#")]


def value_of(chosen: settings.Settings | process_options.ProcessOptions, flag: flags.Flag) -> Any:
    return getattr(getattr(chosen, flag.group) if flag.group else chosen, flag.field)


@pytest.mark.skipif(not reference(), reason="no reference of flags at hand")
def test_every_flag_of_the_peer_is_known_and_no_other() -> None:
    assert {name for name, _, _ in reference()} == flags.READERS.keys() - BEYOND_THE_PEER


@pytest.mark.skipif(not reference(), reason="no reference of flags at hand")
@pytest.mark.parametrize(("name", "default"), [(name, text) for name, _, text in reference()])
def test_defaults_are_the_peers(name: str, default: str) -> None:
    name = {**flags.RENAMED_FLAGS, **flags.FLAG_ALIASES}.get(name, name)
    given = {} if default in ABSENT else {name: default}
    if name in flags.IGNORED_FLAGS:
        assert flags.IGNORED_FLAGS[name].default == ("" if default in ABSENT else default)
        assert flags.parse_settings(given) == settings.Settings()
    elif name in flags.PROCESS_FLAGS:
        assert (flags.PROCESS_FLAGS[name].default in ((), "")) == (default in ABSENT)
        assert flags.parse_process_options(given) == process_options.ProcessOptions()
    else:
        assert (flags.DECISION_FLAGS[name].default in ((), "")) == (default in ABSENT)
        chosen = flags.parse_settings({"behavior": "cluster-autoscaler", **given})
        assert chosen == settings.Settings.cluster_autoscaler()


@pytest.mark.skipif(not reference(), reason="no reference of flags at hand")
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind, _ in reference()])
def test_types_are_the_peers(name: str, kind: str) -> None:
    """What the type's own text is, is read; of numbers and durations, what is none is refused."""
    right = {"bool": "true", "int": "3", "float64": "0.25", "duration": "1m30s", "quantity": "2Ki"}
    if kind in right:
        flags.READERS[name]([right[kind]])
        with pytest.raises(ValueError, match=r"a |true"):
            flags.READERS[name](["nonsense"])
    assert (kind == "bool") == (flags.READERS[name] in flag_values.BOOL_READERS)


def test_no_flag_leaves_everything_at_its_default() -> None:
    assert flags.parse_settings({}) == settings.Settings()
    assert flags.parse_settings({"behavior": "cluster-autoscaler"}) == settings.Settings.cluster_autoscaler()


def test_each_flag_sets_its_own_field_alone() -> None:
    samples = {"bool": ["true", "false"], "int": ["7"], "float": ["0.25"], "duration_s": ["1h2m3.5s"], "text": ["x"]}
    for name, flag in flags.DECISION_FLAGS.items():
        for text in samples.get(flag.read.__name__.removeprefix("read_"), []):
            chosen = flags.parse_settings({name: text})
            assert value_of(chosen, flag) == flag.read([text])
            for other in flags.DECISION_FLAGS.values():
                if other != flag:
                    assert value_of(chosen, other) == value_of(settings.Settings(), other), (name, other.name)


def test_units_are_seconds_and_bytes() -> None:
    chosen = flags.parse_settings(
        {
            "scale-down-unneeded-time": "1h30m",
            "memory-total": "1:2",
            "cores-total": "3:40",
            "max-graceful-termination-sec": "90",
            "max-bulk-soft-taint-time": "500ms",
        }
    )
    assert chosen.groups.scale_down_unneeded_time_s == 5400.0
    assert chosen.limits.memory_total_bytes == settings.Bounds(2**30, 2**31)
    assert chosen.limits.cores_total == settings.Bounds(3, 40)
    assert chosen.drain.max_graceful_termination_s == 90
    assert chosen.scale_down.max_bulk_soft_taint_time_s == 0.5


def test_repeated_values_add_up_where_a_flag_takes_several_and_the_last_counts_elsewhere() -> None:
    chosen = flags.parse_settings(
        {
            "status-taint": ["a,b", "c"],
            "bypassed-scheduler-names": ["x,y", "z"],
            "gpu-total": ["tesla:0:3", "amd:1:1"],
            "max-nodes-total": ["5", "6"],
        }
    )
    assert chosen.templates.status_taint == ("a,b", "c")
    assert chosen.pods.bypassed_scheduler_names == ("x", "y", "z")
    assert chosen.limits.gpu_total == (settings.GpuBounds("tesla", 0, 3), settings.GpuBounds("amd", 1, 1))
    assert chosen.limits.max_nodes_total == 6


def test_old_names_still_work_and_new_ones_win() -> None:
    assert flags.parse_settings({"max-empty-bulk-delete": "4"}).scale_down.max_scale_down_parallelism == 4
    both = {"max-empty-bulk-delete": "4", "max-scale-down-parallelism": "5"}
    assert flags.parse_settings(both).scale_down.max_scale_down_parallelism == 5
    assert flags.parse_settings({"ignore-taint": "a", "startup-taint": "b"}).templates.startup_taint == ("a", "b")


def test_drain_priorities_are_pairs() -> None:
    chosen = flags.parse_settings({"drain-priority-config": "10000:20,-5:60"})
    assert chosen.drain.drain_priority_config == (settings.PriorityGrace(10000, 20), settings.PriorityGrace(-5, 60))


def test_a_deviation_can_be_chosen_on_top_of_a_behavior() -> None:
    chosen = flags.parse_settings({"behavior": "cluster-autoscaler", "joint-scale-up": "true"})
    assert chosen.deviations.joint_scale_up
    assert not chosen.deviations.tight_packing
    assert flags.parse_settings({"quiet-window": "0s"}).deviations.quiet_window_s == 0.0


def test_flags_of_the_process_are_left_to_it() -> None:
    assert flags.parse_settings({"leader-elect": "false", "v": "4", "regional": "true"}) == settings.Settings()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scale-down-unneeded-tme": "1m"}, "--scale-down-unneeded-tme: unknown flag"),
        ({"scan-interval": "10"}, "--scan-interval: found '10', expected a duration such as 90s, 1h30m or 500ms"),
        ({"max-nodes-total": "many"}, "--max-nodes-total: found 'many', expected a whole number"),
        ({"force-ds": "yes"}, "--force-ds: found 'yes', expected true or false"),
        (
            {"scale-down-utilization-threshold": "nan"},
            "--scale-down-utilization-threshold: found 'nan', expected a num",
        ),
        ({"cores-total": "5"}, "--cores-total: found '5', expected <min>:<max>"),
        ({"cores-total": "5:4"}, "--cores-total: found '5:4', expected <min>:<max>"),
        ({"cores-total": "1:2:3"}, "--cores-total: found '1:2:3', expected <min>:<max>"),
        ({"memory-total": "-1:4"}, "--memory-total: found '-1:4', expected <min>:<max>"),
        ({"gpu-total": "tesla:1"}, "--gpu-total: found 'tesla:1', expected <gpu type>:<min>:<max>"),
        ({"gpu-total": ["a:0:1", "b:2:1"]}, "--gpu-total: found ['a:0:1', 'b:2:1'], expected <gpu type>"),
        ({"drain-priority-config": "5"}, "--drain-priority-config: found '5', expected <priority>:<seconds>"),
        ({"expander": "cheapest"}, "--expander: unknown expander 'cheapest'; accepted are random"),
        ({"estimator": "oldbinpacking"}, "--estimator: found 'oldbinpacking', expected binpacking"),
        ({"enable-dynamic-resource-allocation": "false"}, "found 'false', expected true"),
        ({"behavior": "karpenter"}, "--behavior: found 'karpenter', expected windlass or cluster-autoscaler"),
        ({"max-batch-size": "x"}, "--max-batch-size: found 'x', expected a whole number"),
        ({"gpu-total": []}, "--gpu-total: found no value, expected at least one"),
        (
            {"drain-priority-config": "0:60", "max-graceful-termination-sec": "30"},
            "--max-graceful-termination-sec: found 30, expected it unset with --drain-priority-config",
        ),
        (
            {"bypassed-scheduler-names": "a,b", "allowed-scheduler-names": "a"},
            "--bypassed-scheduler-names: found 'b', expected only names of --allowed-scheduler-names (a)",
        ),
    ],
)
def test_errors_name_the_flag_what_was_found_and_what_is_accepted(given: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        flags.parse_settings(given)
    assert told in str(caught.value)


def test_both_presets_are_complete() -> None:
    """Every deviation is on in one and off in the other; the longest quiet window matters only with a window."""
    for field in deviations.Deviations.__dataclass_fields__:
        if field != "quiet_window_max_s":
            assert getattr(deviations.ALL_DEVIATIONS, field)
            assert not getattr(deviations.NO_DEVIATIONS, field)


def test_every_deviation_is_explained() -> None:
    explained = (Path(__file__).parents[3] / "docs" / "deviations.md").read_text()
    for flag in flags.DECISION_FLAGS.values():
        if flag.group == "deviations":
            assert f"`--{flag.name}" in explained


def test_flags_change_settings_that_are_there_and_leave_the_others() -> None:
    chosen = flags.parse_settings({"scan-interval": "7s", "expander": "price"})
    changed = flags.override_settings(chosen, {"expander": "least-waste,random"})
    assert changed.scale_up.expander == ("least-waste", "random")
    assert changed.scale_down.scan_interval_s == 7.0
    assert flags.override_settings(chosen, {}) == chosen
    assert flags.override_settings(chosen, {"behavior": "cluster-autoscaler"}).deviations == deviations.NO_DEVIATIONS
    with pytest.raises(InvalidInput, match="--address: found a flag of the process"):
        flags.override_settings(chosen, {"address": ":1"})


def test_a_flag_that_the_default_behavior_leaves_without_effect_says_so() -> None:
    given = {"salvo-scale-up": "true", "parallel-scale-up": "true", "unremovable-node-recheck-timeout": "1m"}
    told = [
        "--salvo-scale-up: no effect while --joint-scale-up is enabled, which always repeats the "
        "scale-up within a loop",
        "--parallel-scale-up: no effect while --joint-scale-up is enabled, which always scales up groups in parallel",
        "--unremovable-node-recheck-timeout: no effect while --recheck-unremovable-nodes is enabled, which evaluates "
        "each node in every loop",
    ]
    assert list(flags.find_flag_warnings(given)) == told
    assert list(flags.find_flag_warnings({**given, "joint-scale-up": "false"})) == told[2:]
    assert list(flags.find_flag_warnings({**given, "behavior": "cluster-autoscaler"})) == []
