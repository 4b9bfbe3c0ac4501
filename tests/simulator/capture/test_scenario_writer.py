"""What is captured, by the recording of a small scenario that has it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.simulator.capture import fidelity
from windlass import errors
from windlass.engine.model.settings import Settings
from windlass.simulator.capture import cluster_history, scenario_writer
from windlass.simulator.capture.anonymizer import Anonymizer
from windlass.simulator.capture.cluster_history import ClusterHistory
from windlass.simulator.scenario import loader

Plain = dict[str, Any]

HEAD = """
name: payroll
duration: 1h
flags: {scale-down-unneeded-time: 7m, expander: price}
groups:
  - {name: acme-blue, zones: [north], min: 1, max: 9, capacity: {cpu: 8, memory: 32Gi, acme.corp/card: 2}, price: 0.5,
     labels: {acme.corp/team: ledger, tier: gold}, taints: [{key: acme.corp/team, value: ledger}],
     options: {scaledownunneededtime: 3m}, boot: 50s}
  - {name: general, min: 2, max: 9, capacity: {cpu: 4, memory: 16Gi}, reserved: {cpu: 500m}, boot: 40s}
"""


def capture(text: str, folder: Path, key: bytes = b"") -> tuple[str, Plain]:
    """What is captured from a run of a scenario: the text, and its values."""
    scenario = loader.parse_scenario(HEAD + text, "payroll")
    recording = folder / "run.rec"
    fidelity._play(msgspec.structs.replace(scenario, flags={**scenario.flags, "record": str(recording)}))
    captured = scenario_writer.write_scenario(*cluster_history.read_history(recording), "payroll")
    if key:
        captured = scenario_writer.CapturedScenario(*Anonymizer(key).anonymize(captured.plain, captured.left_out))
    text = captured.render()
    return text, yaml.safe_load(text)


WORKLOADS = """
workloads:
  - {name: agent, kind: DaemonSet, namespace: kube-system, requests: {cpu: 100m}, tolerations: [{key: acme.corp/team}]}
  - {name: ledger, namespace: finance, replicas: 3, requests: {cpu: 2, memory: 4Gi}, budget: {max_unavailable: 1},
     node_selector: {tier: gold}, tolerations: [{key: acme.corp/team, value: ledger}], apart: node, priority: 7,
     grace: 90s}
  - {name: store, kind: StatefulSet, replicas: 2, requests: {cpu: 1}, spread: [{over: node, skew: 2}],
     safe_to_evict: false}
  - {name: report, kind: Job, requests: {cpu: 1}, replicas: 2, run: 5m}
timeline:
  - {at: 10m, do: rollout, workload: ledger}
  - {at: 20m, do: jobs, workload: report, count: 3}
  - {at: 30m, do: scale, workload: store, to: 4}
"""


def test_groups_have_their_machines_bounds_prices_and_options(tmp_path: Path) -> None:
    _, plain = capture(WORKLOADS, tmp_path)
    blue, general = plain["groups"]
    assert plain["flags"] == {"scale-down-unneeded-time": "7m0s", "expander": "price"}
    assert plain["begins"] == "2026-01-05T00:00:00Z"
    assert (blue["name"], blue["min"], blue["max"], blue["initial"], blue["price"]) == ("acme-blue", 1, 9, 1, 0.5)
    assert blue["capacity"] == {"cpu": 8, "memory": "32Gi", "acme.corp/card": 2, "pods": 110}
    assert blue["labels"]["acme.corp/team"] == "ledger"
    assert blue["taints"] == [{"key": "acme.corp/team", "value": "ledger", "effect": "NoSchedule"}]
    assert blue["options"] == {"scaledownunneededtime": "3m0s"}
    assert blue["zones"] == ["north"]
    assert set(blue["boot"]) == {50.2}, "seen a moment later"
    assert general["reserved"] == {"cpu": "500m"}


def test_workloads_have_what_decisions_depend_on(tmp_path: Path) -> None:
    _, plain = capture(WORKLOADS, tmp_path)
    by_name = {workload["name"]: workload for workload in plain["workloads"]}
    assert by_name.keys() == {"agent", "ledger", "store", "report"}
    agent, ledger, store, report = (by_name[name] for name in ("agent", "ledger", "store", "report"))
    assert (agent["kind"], agent["namespace"], agent["tolerations"]) == (
        "DaemonSet",
        "kube-system",
        [{"key": "acme.corp/team"}],
    )
    assert (ledger["namespace"], ledger["replicas"], ledger["requests"]) == ("finance", 3, {"cpu": 2, "memory": "4Gi"})
    assert (ledger["apart"], ledger["priority"], ledger["grace"]) == ("node", 7, 90.0)
    assert ledger["node_selector"] == {"tier": "gold"}
    assert ledger["budget"] == {"max_unavailable": 1}
    assert (store["kind"], store["replicas"], store["safe_to_evict"]) == ("StatefulSet", 2, False)
    assert store["spread"] == [{"over": "node", "skew": 2}]
    assert (report["kind"], report["replicas"]) == ("Job", 2)


def test_the_timeline_is_what_was_seen(tmp_path: Path) -> None:
    _, plain = capture(WORKLOADS, tmp_path)
    rollout, *jobs, scale = plain["timeline"]
    assert rollout == {"at": 600.0, "do": "rollout", "workload": "ledger"}
    assert [(step["do"], step["workload"], step["at"], step["count"]) for step in jobs] == [
        ("jobs", "report", 1200.0, 1)
    ] * 3
    assert all(280 <= run_s <= 320 for step in jobs for run_s in step["run"])
    assert (scale["do"], scale["workload"], scale["to"]) == ("scale", "store", 4)
    assert 1800 <= scale["at"] <= 1801


def test_no_name_is_left_in_what_is_shared(tmp_path: Path) -> None:
    text, plain = capture(WORKLOADS, tmp_path, b"key")
    for name in ("payroll", "acme", "blue", "general", "north", "ledger", "finance", "store", "report", "agent", "gold",
                 "tier", "team", "card", "simulated"):  # fmt: skip
        assert name not in text, name
    again, _ = capture(WORKLOADS, tmp_path, b"key")
    assert again == text, "the same key gives the same names"
    other, _ = capture(WORKLOADS, tmp_path, b"another key")
    assert not {group["name"] for group in yaml.safe_load(other)["groups"]} & {
        group["name"] for group in plain["groups"]
    }
    workloads = {workload["name"]: workload for workload in plain["workloads"]}
    assert all(step["workload"] in workloads for step in plain["timeline"])
    assert {workload.get("namespace", "default") for workload in workloads.values()} >= {"default", "kube-system"}
    assert text.count("resource-") == 1, "a resource that only this cluster has"


FAILURES = """
workloads:
  - {name: web, replicas: 4, requests: {cpu: 3}}
timeline:
  - {at: 5m, do: stock-out, group: general, for: 20m}
  - {at: 6m, do: scale, workload: web, to: 6}
  - {at: 40m, do: vanish, group: general, count: 1}
"""


def test_failures_of_machines_are_steps_of_the_timeline(tmp_path: Path) -> None:
    _, plain = capture(FAILURES, tmp_path)
    vanished = [step for step in plain["timeline"] if step["do"] == "vanish"]
    assert [(step["group"], step["count"], round(step["at"])) for step in vanished] == [("general", 1, 2400)]


def test_only_the_time_that_is_asked_for(tmp_path: Path) -> None:
    capture(WORKLOADS, tmp_path)
    whole, _ = cluster_history.read_history(tmp_path / "run.rec")
    part, settings = cluster_history.read_history(tmp_path / "run.rec", whole.begin_s + 900.0, whole.begin_s + 1500.0)
    plain = scenario_writer.write_scenario(part, settings, "part").plain
    assert plain["duration"] <= 600
    assert {step["do"] for step in plain["timeline"]} == {"jobs"}
    by_name = {workload["name"]: workload for workload in plain["workloads"]}
    assert (by_name["ledger"]["replicas"], by_name["store"]["replicas"]) == (3, 2)


def test_a_rotated_file_is_read_before_its_successor(tmp_path: Path) -> None:
    scenario = loader.parse_scenario(HEAD + WORKLOADS, "payroll")
    recording = tmp_path / "run.rec"
    fidelity._play(msgspec.structs.replace(scenario, flags={"record": str(recording)}))
    recording.rename(tmp_path / "run.rec.1")
    later = msgspec.structs.replace(scenario, begins="2026-01-05T01:00:00Z", flags={"record": str(recording)})
    fidelity._play(later)
    history, _ = cluster_history.read_history(recording)
    assert history.end_s - history.begin_s > 3600.0
    assert len(cluster_history.list_parts(recording)) == 2
    (tmp_path / "run.rec.1").write_bytes(b"no recording")
    assert cluster_history.list_parts(recording) == [recording]


def test_nothing_is_captured_without_a_group() -> None:
    with pytest.raises(errors.InvalidInput, match="no node group was observed, expected one or more"):
        scenario_writer.write_scenario(ClusterHistory(), Settings(), "nothing")
