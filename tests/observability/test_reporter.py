"""The reporter on an API server: what ends up there, when, and what happens when it cannot."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from tests.engine.loop import builders
from tests.observability.recorded_situations import NOW_S, PEER, carried_out
from tests.observability.reporter_cluster import CONFIG_MAPS, Stage
from windlass.engine import loop
from windlass.engine.model import node_groups, plan
from windlass.kube import client, errors
from windlass.observability import options, status_configmap
from windlass.observability.reporter import Reporter

ONE_WAITS = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)])
NONE_FITS = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 64_000)])
QUIET = builders.observe([builders.group("g", target=0)])


def keep(found: dict[str, Any], into: list[Any]) -> None:
    into.append(found)


def test_the_status_is_there_from_the_start_and_gone_at_the_end() -> None:
    found: list[Any] = []

    async def script(stage: Stage) -> None:
        found.append(await stage.status())
        stage.loop(QUIET)
        await stage.clock.sleep(3)
        found.append(await stage.status())
        await stage.reporter.close()
        found.append(await stage.status())

    Stage().play(script)
    texts = [yaml.safe_load(item["data"]["status"]) for item in found[:2]]
    assert [text["autoscalerStatus"] for text in texts] == ["Initializing", "Running"]
    annotation = found[1]["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/last-updated"]
    assert annotation == texts[1]["time"] == "1970-01-12 13:46:40 +0000 UTC"
    assert found[2] is None


def test_what_others_wrote_on_the_status_stays() -> None:
    found: list[Any] = []

    async def script(stage: Stage) -> None:
        mine = await stage.status()
        assert mine is not None
        mine["metadata"]["labels"] = {"team": "a"}
        mine["data"]["note"] = "hello"
        await stage.api.update(CONFIG_MAPS, mine)
        stage.loop(QUIET)
        await stage.clock.sleep(3)
        found.append(await stage.status())

    Stage().play(script)
    assert found[0]["metadata"]["labels"] == {"team": "a"}
    assert found[0]["data"]["note"] == "hello"
    assert "Running" in found[0]["data"]["status"]


def test_a_restart_goes_on_with_the_times_that_it_finds() -> None:
    stage = Stage()

    async def first(stage: Stage) -> None:
        stage.loop(QUIET)

    async def second(stage: Stage) -> None:
        await stage.clock.sleep(100)
        stage.loop(QUIET)
        await stage.clock.sleep(3)
        found = await stage.status()
        assert found is not None
        keep(yaml.safe_load(found["data"]["status"]), told)

    told: list[Any] = []
    stage.play(first).play(second)
    health = told[0]["clusterWide"]["health"]
    assert health["lastTransitionTime"] == "1970-01-12T13:46:40Z"
    assert health["lastProbeTime"] > "1970-01-12T13:48:00Z"


def test_name_and_place_of_the_status_are_the_users() -> None:
    async def script(stage: Stage) -> None:
        stage.loop(ONE_WAITS)
        await stage.clock.sleep(3)
        assert await stage.status("mine") is not None
        about = {item["involvedObject"]["name"] for item in await stage.events()}
        assert about == {"mine", "p"}

    Stage(objects=options.ObjectOptions(status_config_map_name="mine")).play(script)


def test_without_a_status_nothing_is_told_about_it() -> None:
    async def script(stage: Stage) -> None:
        stage.loop(ONE_WAITS)
        await stage.clock.sleep(3)
        await stage.reporter.close()
        assert await stage.status() is None
        assert [item["reason"] for item in await stage.events()] == ["TriggeredScaleUp"]

    Stage(objects=options.ObjectOptions(write_status_configmap=False)).play(script)


@pytest.mark.parametrize("mode", [options.ModeOptions(dry_run=True), options.ModeOptions(shadow=True)])
def test_who_acts_on_nothing_writes_nothing(mode: options.ModeOptions) -> None:
    async def script(stage: Stage) -> None:
        stage.loop(ONE_WAITS)
        await stage.clock.sleep(3)
        assert await stage.status() is None
        assert await stage.events() == []
        assert b"cluster_autoscaler_last_activity" in stage.reporter.metrics.render()

    Stage(mode=mode).play(script)


def test_events_say_who_wrote_them_and_each_about_the_status_is_written() -> None:
    async def script(stage: Stage) -> None:
        stage.loop(ONE_WAITS)
        await stage.clock.sleep(3)
        events = await stage.events()
        assert sorted(item["reason"] for item in events) == ["ScaledUpGroup", "ScaledUpGroup", "TriggeredScaleUp"]
        assert {entry["source"]["component"] for entry in events} == {"cluster-autoscaler"}
        assert {one["reportingComponent"] for one in events} == {"cluster-autoscaler"}
        found = await stage.status()
        assert found is not None
        about = next(one["involvedObject"] for one in events if one["reason"] == "ScaledUpGroup")
        assert about["uid"] == found["metadata"]["uid"]

    Stage().play(script)


@pytest.mark.parametrize(("duplicates", "counted"), [(False, 1), (True, 4)])
def test_the_same_event_is_written_again_within_five_minutes_only_if_wanted(duplicates: bool, counted: int) -> None:
    async def script(stage: Stage) -> None:
        for _ in range(4):
            stage.loop(NONE_FITS)
            await stage.clock.sleep(10)
        (told,) = await stage.events()
        assert told["message"] == "pod didn't trigger scale-up: 1 Insufficient cpu"
        assert told["count"] == counted

    Stage(reporting=options.ReportingOptions(record_duplicated_events=duplicates)).play(script)


def test_a_decision_made_again_after_a_refusal_is_told_once() -> None:
    async def script(stage: Stage) -> None:
        reporter, now_s = stage.reporter, stage.clock.now_s()
        first = loop.decide(ONE_WAITS, stage.memory, PEER, now_s)
        account = reporter.before_acting(ONE_WAITS, first, now_s)
        error = node_groups.InstanceError("Other", "cloudProviderError", "frozen")
        observation = replace(ONE_WAITS, refused={"g": error})
        second = loop.decide(observation, stage.memory, PEER, now_s)
        again = reporter.before_acting(observation, second, now_s, instead_of=account)
        reporter.after_acting(again, carried_out((), {plan.Resize("g", 0, 1, 10): "frozen"}))
        await stage.clock.sleep(3)
        told = sorted(item["message"] for item in await stage.events())
        assert told == [
            "Scale-up failed for group g: frozen",
            "Scale-up: setting group g size to 1 instead of 0 (max: 10)",
        ]
        found = await stage.status()
        assert found is not None
        (group,) = yaml.safe_load(found["data"]["status"])["nodeGroups"]
        assert group["scaleUp"]["backoffInfo"] == {"errorCode": "cloudProviderError", "errorMessage": "frozen"}

    Stage().play(script)


def test_a_server_that_is_away_delays_no_loop_and_is_told_the_latest_afterwards() -> None:
    async def script(stage: Stage) -> None:
        stage.faults.down = True
        for _ in range(5):
            began_s = stage.clock.now_s()
            stage.loop(QUIET)
            assert stage.clock.now_s() == began_s
            await stage.clock.sleep(30)
        stage.faults.down = False
        stage.loop(QUIET)
        await stage.clock.sleep(60)
        found = await stage.status()
        assert found is not None
        told = yaml.safe_load(found["data"]["status"])
        assert told["autoscalerStatus"] == "Running"
        assert told["clusterWide"]["health"]["lastProbeTime"] == "1970-01-12T13:49:10Z"

    Stage().play(script)


def test_many_loops_in_a_row_write_the_status_now_and_then() -> None:
    async def script(stage: Stage) -> None:
        first = await stage.status()
        assert first is not None
        for _ in range(100):
            stage.loop(QUIET)
            await stage.clock.sleep(0.1)
        await stage.clock.sleep(5)
        last = await stage.status()
        assert last is not None
        writes = int(last["metadata"]["resourceVersion"]) - int(first["metadata"]["resourceVersion"])
        assert writes <= 10.0 / status_configmap.WRITE_INTERVAL_S + 2

    Stage().play(script)


def test_no_rights_are_needed_but_those_that_the_peer_has() -> None:
    async def script(stage: Stage) -> None:
        stage.calls.clear()
        await stage.reporter.start()
        for _ in range(40):
            stage.loop(NONE_FITS)
            await stage.clock.sleep(10)
        stage.loop(ONE_WAITS)
        await stage.reporter.close()

    rights = {"configmaps": {"GET", "POST", "PUT", "DELETE"}, "events": {"POST", "PATCH"}}
    used = {(path.split("/")[5], method) for method, path in Stage().play(script).calls}
    assert {("configmaps", "PUT"), ("configmaps", "DELETE"), ("events", "POST"), ("events", "PATCH")} <= used
    assert all(method in rights[resource] for resource, method in used)


OWNED = builders.observe(
    [
        replace(
            builders.group("MachineDeployment/default/g", target=0),
            replicas_owner=node_groups.ReplicasOwner(
                "capi-topology", "remove replicas", "cluster.x-k8s.io/v1beta2", "uid-g"
            ),
        )
    ]
)


def test_an_event_about_a_group_goes_to_the_management_cluster() -> None:
    management = Stage()

    async def script(stage: Stage) -> None:
        stage.reporter = Reporter(stage.api, stage.settings, management=client.Client(management, stage.clock))
        running = asyncio.create_task(stage.reporter.run())
        for _ in range(2):
            stage.loop(OWNED)
            await stage.clock.sleep(3)
        running.cancel()
        assert [item["reason"] for item in await stage.events()] == []

    Stage().play(script)
    assert management.calls == [("POST", "/api/v1/namespaces/default/events")]


@pytest.mark.parametrize("mode", [options.ModeOptions(dry_run=True), options.ModeOptions(shadow=True)])
def test_who_acts_on_nothing_only_logs_that_a_group_has_another_owner(
    mode: options.ModeOptions, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(stage: Stage) -> None:
        stage.loop(OWNED)
        stage.loop(OWNED)
        await stage.clock.sleep(3)
        assert await stage.events() == []

    Stage(mode=mode).play(script)
    said = [item.getMessage() for item in caplog.records if "is managed by another controller" in item.getMessage()]
    assert len(said) == 1
    assert "group=MachineDeployment/default/g" in said[0]
    assert "remove replicas" in said[0]


def test_errors_are_counted_by_type() -> None:
    async def script(stage: Stage) -> None:
        stage.reporter.begin_loop()
        stage.reporter.loop_failed(errors.ConnectFailed("GET /", "down"))
        stage.reporter.loop_failed(errors.WatchStale("Pod: watch cut off"))
        stage.reporter.loop_failed(RuntimeError("bug"))
        text = stage.reporter.metrics.render().decode()
        assert 'cluster_autoscaler_errors_total{type="apiCallError"} 2\n' in text
        assert 'cluster_autoscaler_errors_total{type="internalError"} 1\n' in text
        assert 'last_activity{activity="mainSuccessful"}' not in text

    Stage().play(script)


def test_a_bug_in_reporting_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def script(stage: Stage) -> None:
        decision = loop.decide(ONE_WAITS, stage.memory, PEER, NOW_S)
        broken = replace(decision, story=None)  # type: ignore[arg-type]
        account = stage.reporter.before_acting(ONE_WAITS, broken, NOW_S)
        stage.reporter.after_acting(account, carried_out(decision.plan))
        stage.loop(QUIET)

    Stage().play(script)
    assert "failed to report a decision" in caplog.text


class Audience:
    """Waits for one snapshot after another."""

    def __init__(self) -> None:
        self.is_wanted = True
        self.given: list[dict[str, Any]] = []

    def offer(self, snapshot: bytes) -> None:
        self.given.append(msgspec.json.decode(snapshot))


def test_a_snapshot_is_what_the_next_loop_sees() -> None:
    audience = Audience()

    async def script(stage: Stage) -> None:
        members = builders.nodes("g", 1)
        pods = [builders.running("runs", "g-0"), builders.pending("fits", 100), builders.pending("big", 64_000)]
        stage.loop(builders.observe([builders.group("g", members)], members, pods))
        stage.reporter.loop_failed(RuntimeError("no nodes"))
        audience.is_wanted = False
        stage.loop(QUIET)

    Stage(snapshots=audience).play(script)
    found, failed = audience.given
    assert list(found) == [
        "NodeList", "UnscheduledPodsCanBeScheduled", "StartTimestamp", "EndTimestamp", "TemplateNodes"
    ]  # fmt: skip
    (node,) = found["NodeList"]
    assert node["Node"]["metadata"]["name"] == "g-0"
    assert [pod["metadata"]["name"] for pod in node["Pods"]] == ["runs"]
    assert [pod["metadata"]["name"] for pod in found["UnscheduledPodsCanBeScheduled"]] == ["fits"]
    assert list(found["TemplateNodes"]) == ["g"]
    assert failed["Error"] == "no nodes"


def test_many_events_are_written_at_a_pace_and_say_when_they_happened() -> None:
    many = builders.observe(
        [builders.group("g", target=0)], [], [builders.pending(f"p{number}", 64_000) for number in range(100)]
    )
    counts: list[int] = []
    said: list[dict[str, Any]] = []

    async def script(stage: Stage) -> None:
        stage.loop(many)
        for pause_s in (1.0, 3.0, 6.0):
            await stage.clock.sleep(pause_s)
            counts.append(len(await stage.events()))
        said.extend(await stage.events())

    Stage().play(script)
    first, then, all_of_them = counts
    assert first < 40 < then < all_of_them == 100
    assert len({event["firstTimestamp"] for event in said}) == 1


def test_the_end_hurries_events_that_wait() -> None:
    many = builders.observe(
        [builders.group("g", target=0)], [], [builders.pending(f"p{number}", 64_000) for number in range(100)]
    )
    said: list[dict[str, Any]] = []

    async def script(stage: Stage) -> None:
        stage.loop(many)
        await stage.reporter.close()
        said.extend(await stage.events())

    Stage().play(script)
    assert len(said) == 100
