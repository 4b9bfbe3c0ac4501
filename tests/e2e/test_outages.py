"""Servers that go and come back, and a leader that stands still: nothing is ordered twice, nothing is lost.

These tests break the control plane, so they have one of their own. The autoscaler reaches it by two ways, as it would
reach a management and a workload cluster, and either can be shut. After an outage the control plane's own controllers
take half a minute to find their server again, so these are not among the tests of `make test`:
`make long KIND=outages`.

Where a test fails, what Cluster API made and took away is shown beside the autoscaler's log: it cordons nodes, too.
"""

import itertools
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed import clusterapi, fixtures, sharing
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import rbac
from tests.e2e.autoscaler_process import Live, write_kubeconfig
from tests.e2e.gateway import Call
from tests.e2e.node_groups import TO_BE_DELETED, Group, taints
from tests.e2e.outage_gateway import Breakable
from tests.e2e.scale_scenario import Scene
from tests.e2e.test_leader_election import FLAGS, LEASE

pytestmark = pytest.mark.skipif("WINDLASS_OUTAGES" not in os.environ, reason="takes minutes: `make long KIND=outages`")

API_SERVER = "kube-apiserver"
PATIENCE_S = 480.0
"""Where controllers of others have to find their server again, which they try less and less often."""
_NUMBERS = itertools.count(1)
_OF_MACHINES = re.compile(r"scale up, creating|scaling down|failed to create Machine|Cordoning|Drain")
_STORY_LINES = 80


@dataclass(frozen=True, slots=True)
class Stage:
    """A control plane, and two ways to it."""

    bed: Bed
    workload: Breakable
    management: Breakable
    directory: Path

    def live(self, name: str, workload: Breakable | None = None, management: Breakable | None = None) -> Live:
        """An autoscaler, not started yet."""
        user = self.bed.site.kubeconfig(rbac.USER)
        ways = {"workload": workload or self.workload, "management": management or self.management}
        paths = [write_kubeconfig(self.directory / f"{name}-{way}", user, ways[way].port) for way in ways]
        live = Live(paths[0], self.directory / f"{name}.log")
        live.flags = (*live.flags, f"--cloud-config={paths[1]}")
        return live

    def scene(self, name: str, live: Live) -> Scene:
        return Scene(self.bed, live, self.workload, name)

    def machines_story(self) -> str:
        """What Cluster API says of Machines that it made, could not make, or took away."""
        lines = (self.bed.site.directory / "log" / "capi-manager.log").read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if _OF_MACHINES.search(line)][-_STORY_LINES:])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Cluster API limits its rate, as it does by default, which other tests spare themselves: without that it does not
    look whether its cache is behind, either. After an outage it then made 26, 10, 82 and 23 Machines for 10 replicas,
    cordoned and deleted those that were too many, and left Nodes behind, with no autoscaler there at all."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(Choice(scheduler=True, kwok=True, capi=True, capi_rate_limiting=True)) as bed:
        clusterapi.add_cluster(bed.api, bed.kubeconfig)
        rbac.grant(bed.api)
        server, ca = bed.site.server, str(bed.site.files.ca)
        with Breakable(server, ca) as workload, Breakable(server, ca) as management:
            yield Stage(bed, workload, management, tmp_path_factory.mktemp("outages"))


@pytest.fixture
def scene(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The stage with one autoscaler on it."""
    name = f"outage-{next(_NUMBERS)}"
    live = stage.live(name)
    live.start()
    found = stage.scene(name, live)
    found.begin()
    yield found
    found.end()
    if live.is_alive:
        live.kill()
    request.node.add_report_section("teardown", "autoscaler", live.log.read_text(errors="replace")[-12000:])
    request.node.add_report_section("teardown", "Cluster API", stage.machines_story())


def writes(calls: list[Call]) -> list[Call]:
    """What changes the cluster: neither the Lease, nor what is told of it."""
    besides = ("/leases", "/events")
    return [call for call in calls if call.method != "GET" and not any(part in call.path for part in besides)]


def marked(group: Group) -> list[str]:
    """Its nodes that the autoscaler has marked. Cluster API cordons nodes as well, of machines that it takes away."""
    return [node["metadata"]["name"] for node in group.nodes() if TO_BE_DELETED in taints(node)]


def test_the_api_server_killed_while_one_group_grows_and_another_drains_loses_nothing(
    scene: Scene, stage: Stage
) -> None:
    """It is gone before it has answered. What happened before is forgotten when it is back: no watch goes on."""
    shrinking, growing = scene.group("shrinks", 2), scene.group("grows", 1, max_size="1")
    shrinking.wait_nodes(2)
    growing.wait_nodes(1)
    scene.pods("held", 2, [shrinking], hold=True, spread=True)
    scene.wait_running(2, "held")
    scene.pods("web", 4, [growing], cpu="3")
    scene.wait_unschedulable(3, "web")  # all are there before the group may grow: one step is enough
    shrinking.annotate(unneeded="1s")
    (going,) = scene.wait("a pod is being evicted", scene.leaving)
    killed = stage.management.trap("PATCH", f"/{growing.name}/scale$", lambda: stage.bed.kill(API_SERVER))
    growing.annotate(max_size="9")
    scene.wait("the server is killed", killed.is_set, within_s=PATIENCE_S)
    stage.bed.compact()
    back_s = time.monotonic()
    stage.bed.start(API_SERVER)
    stage.bed.kill("kwok")  # it forgets pods that were bound while its server was away
    stage.bed.start("kwok")
    scene.wait_running(4, "web", PATIENCE_S)
    assert growing.replicas == 4
    anew = {"/api/v1/nodes", "/api/v1/pods"}  # watches do not go on from what is forgotten
    scene.wait("all is listed anew", lambda: _find_listed(stage.workload.since(back_s)), anew.issubset)
    resized = [call for call in stage.management.since(0.0) if call.path.endswith(f"/{growing.name}/scale")]
    assert len([call for call in resized if call.method == "PATCH" and call.status == 200]) == 1, "ordered once"
    assert (marked(shrinking), marked(growing)) == ([going], [])
    scene.release()
    assert shrinking.wait_nodes(1, PATIENCE_S) != [going]
    scene.wait_running(2, "held", PATIENCE_S)
    growing.wait_nodes(4, PATIENCE_S)  # and none of them is cordoned
    assert (shrinking.replicas, growing.replicas, scene.marked(), scene.live.is_alive) == (1, 4, [], True)


def _find_listed(calls: list[Call]) -> set[str]:
    """What was asked for as a whole."""
    return {call.path for call in calls if "sendInitialEvents=true" in call.query}


def test_while_one_cluster_is_away_nothing_is_done_on_what_may_be_over(scene: Scene, stage: Stage) -> None:
    group = scene.group("a", 1)
    group.wait_nodes(1)
    scene.live.wait_looped(2)  # it knows both clusters before either is away
    for way, pods in ((stage.management, "first"), (stage.workload, "second")):
        _be_away(scene, stage, way, group, pods)


def _be_away(scene: Scene, stage: Stage, way: Breakable, group: Group, pods: str) -> None:
    before, known = group.replicas, _count_given_up(scene)
    way.shut()
    scene.wait("it knows", lambda: _count_given_up(scene), lambda now: now > known, PATIENCE_S)
    shut_s = time.monotonic()
    scene.pods(pods, 2, [group], cpu="3")
    scene.wait("pods wait", lambda: scene.find_pods(pods), lambda found: len(found) == 2)
    turns = _count_given_up(scene)
    scene.wait("it looks again", lambda: _count_given_up(scene), lambda now: now >= turns + 2, PATIENCE_S)
    assert writes(stage.management.since(shut_s)) == []
    assert group.replicas == before
    way.reopen()
    scene.wait_running(2, pods, PATIENCE_S)
    assert group.replicas > before


def _count_given_up(scene: Scene) -> int:
    return scene.live.log.read_text(errors="replace").count("cannot decide on stale state")


def test_a_leader_that_stood_still_past_its_lease_changes_nothing_any_more(stage: Stage) -> None:
    server, ca = stage.bed.site.server, str(stage.bed.site.files.ca)
    with Breakable(server, ca) as first_way, Breakable(server, ca) as second_way:
        first, second = stage.live("first", first_way, first_way), stage.live("second", second_way, second_way)
        scene = stage.scene("still", first)
        try:
            _stand_still(scene, first, second, first_way, second_way)
        finally:
            scene.clear()
            for live in (first, second):
                live.resume()
                live.kill()


def _stand_still(scene: Scene, first: Live, second: Live, first_way: Breakable, second_way: Breakable) -> None:
    group = scene.group("a", 1)
    group.wait_nodes(1)
    first.start(*FLAGS)
    leader = scene.wait("someone leads", lambda: scene.api.find(LEASE))
    assert leader is not None
    second.start(*FLAGS)
    stopped = first_way.trap("PATCH", f"/{group.name}/scale$", first.stand_still, before=True)
    scene.pods("web", 3, [group], cpu="3")
    scene.wait("the leader stands still, about to resize", stopped.is_set)
    holder = leader["spec"]["holderIdentity"]
    scene.wait("another leads", lambda: scene.api.get(LEASE)["spec"]["holderIdentity"], lambda now: now != holder)
    taken_s = time.monotonic()
    scene.wait_running(3, within_s=PATIENCE_S)
    first.resume()
    scene.wait("the first finds out, and ends", lambda: not first.is_alive, within_s=PATIENCE_S)
    assert writes(first_way.since(taken_s)) == []
    resized = [call for call in writes(second_way.since(0.0)) if call.path.endswith(f"/{group.name}/scale")]
    assert len([call for call in resized if call.status == 200]) == 1
    assert group.replicas == 3
