import pytest

from tests.engine.drainability import builders
from windlass.engine.drainability import local_storage
from windlass.engine.model import drainability, facts

SCRATCH = facts.Volume("scratch", "emptyDir")
CACHE = facts.Volume("cache", "emptyDir")


@pytest.mark.parametrize(
    ("volume", "stays"),
    [
        (SCRATCH, True),
        (facts.Volume("disk", "hostPath"), True),
        (facts.Volume("huge", "emptyDir", medium="HugePages"), True),
        (facts.Volume("ram", "emptyDir", medium="Memory"), False),
        (facts.Volume("claim", "persistentVolumeClaim", claim="c"), False),
        (facts.Volume("repo", "gitRepo"), False),
    ],
)
def test_data_on_the_nodes_disk_keeps_the_pod(volume: facts.Volume, stays: bool) -> None:
    status = local_storage.check_local_storage(builders.storing(volume), builders.context())
    assert (status is not None) is stays
    if status is not None:
        assert status.reason is drainability.BlockingPodReason.LOCAL_STORAGE_REQUESTED
        assert status.values == (volume.name, volume.source)


@pytest.mark.parametrize(
    ("named", "stays"),
    [
        ("scratch,cache", False),
        ("cache,other,scratch", False),
        ("scratch", True),
        ("scratch, cache", True),
        ("", True),
        (",", True),
    ],
)
def test_volumes_named_as_safe_do_not_count(named: str, stays: bool) -> None:
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": named}
    status = local_storage.check_local_storage(
        builders.storing(SCRATCH, CACHE, annotations=annotations), builders.context()
    )
    assert (status is not None) is stays


def test_nothing_is_asked_without_the_option() -> None:
    assert (
        local_storage.check_local_storage(builders.storing(SCRATCH), builders.context(skip_local_storage=False)) is None
    )
