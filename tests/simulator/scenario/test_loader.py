"""Scenario files: those that ship can be read, and bad ones are refused with file, line and field."""

import pathlib

import pytest

from windlass.simulator.scenario import loader, manifests, model

SHIPPED = sorted((pathlib.Path(__file__).parents[3] / "scenarios").glob("*.yaml"))

GOOD = """\
name: good
duration: 2h
groups:
  - name: general
    zones: [a, b]
    max: 5
    capacity: {cpu: 4, memory: 16Gi}
    reserved: {cpu: 100m, memory: 1Gi}
    boot: {median: 1m30s, spread: 0.2}
workloads:
  - name: web
    replicas: 3
    requests: {cpu: 500m}
  - {name: batch, kind: Job, run: 10m}
timeline:
  - {at: 1h, do: scale, workload: web, to: 5}
  - {at: 1h, do: outage, zone: a, for: 10m}
expect:
  - {measure: violations, at_most: 0}
"""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_story_can_be_read_and_says_what_to_expect(path: pathlib.Path) -> None:
    scenario = loader.load_scenario(path)
    assert scenario.name == path.stem
    assert scenario.story
    measures = [expectation.measure for expectation in scenario.expect]
    assert "violations" in measures
    assert len(measures) >= 3


def test_at_least_eight_stories_ship() -> None:
    assert len(SHIPPED) >= 8


def test_a_file_becomes_groups_per_zone_with_what_is_left_for_pods() -> None:
    scenario = loader.parse_scenario(GOOD, "good.yaml")
    node_groups = manifests.make_node_groups(scenario)
    assert [group.name for group in node_groups] == ["general-a", "general-b"]
    assert node_groups[0].allocatable == {"cpu": "3900m", "memory": str(15 * 2**30), "pods": "110"}
    assert node_groups[0].boot.median_s == 90.0
    assert isinstance(scenario.timeline[1], model.Outage)
    assert scenario.timeline[1].lasts == 600.0


BAD = [
    ("    max: 5\n", "    max: 5\n    colour: red\n", 7, "groups[0].colour: found an unknown field, accepted are boot"),
    ("    max: 5\n", "    max: 0\n", 6, "groups[0].max: found 0, accepted is at least 1"),
    ("    max: 5\n", "    max: 5\n    min: 7\n", 6, "groups[0].max: found 5, accepted is at least 7"),
    ("    max: 5\n", "    max: five\n", 6, "groups[0].max: expected `int`, got `str`"),
    ("    max: 5\n", "", 4, "groups[0]: object missing required field `max`"),
    ("cpu: 4,", "cpu: four,", 7, "groups[0].capacity.cpu: found 'four'"),
    ("{cpu: 4, memory", "{memory", 7, "groups[0].capacity: found no cpu"),
    ("1m30s", "soon", 9, "groups[0].boot: found 'soon', accepted is a duration"),
    ("zones: [a, b]", "zones: [a, a]", 5, "groups[0].zones: found ['a', 'a']"),
    ("replicas: 3", "replicas: -3", 12, "workloads[0].replicas: found -3"),
    ("requests: {cpu: 500m}", "requests: {cpu: 5}", 13, "workloads[0].requests: found cpu 5: more than any group has"),
    ("name: batch, ", "name: web, ", 14, "workloads[1].name: found 'web' a second time"),
    (", run: 10m", "", 14, "workloads[1].run: found nothing"),
    ("kind: Job", "kind: Jab", 14, "workloads[1].kind: found 'Jab', accepted is one of DaemonSet, "),
    ("workload: web", "workload: wob", 16, "timeline[0].workload: found 'wob', accepted is one of batch, web"),
    ("zone: a,", "zone: z,", 17, "timeline[1].zone: found 'z', accepted is one of a, b"),
    ("at: 1h, do: outage", "at: 3h, do: outage", 17, "timeline[1].at: found 10800 s"),
    ("do: outage, zone: a", "do: vanish, count: 1, group: gone", 17, "timeline[1]"),
    ("do: outage", "do: magic", 17, "timeline[1].do: found 'magic', accepted is one of jobs, outage, remove"),
    ("measure: violations", "measure: joy", 19, "expect[0].measure: found 'joy'"),
    (", at_most: 0", "", 19, "expect[0]: accepted is at_least, at_most or both"),
    ("500m}", "500m}\n    provisioning: check-capacity", 14, "workloads[0].provisioning: found for a Deployment"),
    ("run: 10m", "run: 10m, provisioning: check-capacity", 14, "found no flag enable-provisioning-requests"),
    ("run: 10m", "run: 10m, provisioning: at-once", 14, "found 'at-once', accepted is one of best-effort-atomic"),
    ("timeline:", "buffers: [{workload: batch, replicas: 1}]\ntimeline:", 15, "buffers[0].workload: found 'batch'"),
    ("timeline:", "buffers: [{workload: web}]\ntimeline:", 15, "buffers[0]: accepted is replicas, percentage or both"),
    ("timeline:", "buffers: [{workload: web, replicas: -1}]\ntimeline:", 15, "buffers[0].replicas: found -1, accepted"),
    ("timeline:", "buffers: [{workload: web, replicas: 1}]\ntimeline:", 15, "capacity-buffer-controller-enabled"),
    ("duration: 2h", "duration: 2h\nseed: [", 5, ""),
    ("duration: 2h", "duration: 0", 2, "duration: found 0"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "line", "said"), BAD, ids=[one[1].strip() or one[0] for one in BAD])
def test_a_bad_file_is_refused_with_file_line_and_field(before: str, after: str, line: int, said: str) -> None:
    assert before in GOOD
    with pytest.raises(loader.InvalidScenario) as refused:
        loader.parse_scenario(GOOD.replace(before, after, 1), "bad.yaml")
    first = str(refused.value).splitlines()[0]
    assert first.startswith(f"bad.yaml:{line}: ")
    assert said in first


def test_a_group_that_nothing_has_is_refused() -> None:
    step = "do: vanish, count: 1, group: gone}"
    text = GOOD.replace("do: outage, zone: a, for: 10m}", step)
    with pytest.raises(
        loader.InvalidScenario, match=r"bad.yaml:17: timeline\[1\].group: found 'gone', accepted is one of"
    ):
        loader.parse_scenario(text, "bad.yaml")


def test_all_mistakes_are_told_at_once() -> None:
    text = GOOD.replace("max: 5", "max: 0").replace("replicas: 3", "replicas: -3")
    with pytest.raises(loader.InvalidScenario) as refused:
        loader.parse_scenario(text, "bad.yaml")
    assert [line.split(":")[1] for line in str(refused.value).splitlines()] == ["6", "12"]


def test_a_file_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(loader.InvalidScenario, match=r"none\.yaml: No such file"):
        loader.load_scenario(tmp_path / "none.yaml")
