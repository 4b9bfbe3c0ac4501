"""Two processes, one Lease: one acts, the other takes over."""

from collections.abc import Iterator

import pytest

from tests.e2e.autoscaler_process import Live
from tests.e2e.scale_scenario import Scene

FLAGS = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=12s",
    "--leader-elect-retry-period=1s",
)
"""On a busy machine, who leads is to renew the Lease in time: nobody leads after the second has lost it, too."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler"


@pytest.fixture
def standby(live: Live) -> Iterator[Live]:
    found = Live(live.kubeconfig, live.log.with_suffix(".standby"))
    yield found
    if found.is_alive:
        found.kill()


def test_when_the_leader_is_killed_while_it_scales_up_another_goes_on(scene: Scene, standby: Live) -> None:
    group = scene.group("a", 1, boot_seconds="4")
    scene.live.kill()
    scene.live.start(*FLAGS)
    leader = scene.wait("someone leads", lambda: scene.api.find(LEASE))
    standby.start(*FLAGS)
    group.wait_nodes(1)
    killed = scene.gateway.trap("PATCH", f"/{group.name}/scale", scene.live.crash)
    scene.pods("web", 4, [group], cpu="3")
    scene.wait("the leader is killed", killed.is_set)
    scene.wait_running(4)
    assert group.replicas == 4
    group.annotate(unneeded="1s")
    scene.scale_pods("web", 1)
    group.wait_replicas(1)
    assert leader is not None
    assert scene.api.get(LEASE)["spec"]["holderIdentity"] != leader["spec"]["holderIdentity"]
    assert len(scene.resizes(group)) >= 2
    standby.stop()
