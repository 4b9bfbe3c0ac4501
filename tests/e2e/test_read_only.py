"""A kubeconfig with a client certificate in a process that can write nowhere: a read-only root without volumes.

`tests/testbed/test_machine_pools.py` runs the operator in the same way.
"""

from collections.abc import Iterator

import pytest

from tests import read_only
from tests.e2e.autoscaler_process import Live
from tests.e2e.scale_scenario import Scene


@pytest.fixture
def certified(live: Live, scene: Scene) -> Iterator[Live]:
    """The autoscaler in place of the usual one, known by its certificate."""
    found = Live(scene.bed.site.kubeconfig("admin-by-certificate"), live.log.with_suffix(".read-only"))
    live.kill()
    found.start("--leader-elect=true", wrap=read_only.wrap)
    yield found
    found.kill()
    print(found.log.read_text()[-6000:])


def test_the_autoscaler_works_where_nothing_can_be_written(scene: Scene, certified: Live) -> None:
    group = scene.group("a", 0)
    scene.pods("web", 2, [group], cpu="3")
    scene.wait_running(2)
    assert group.replicas == 2
    assert certified.stop() == 0
    assert "Errno" not in certified.log.read_text()
