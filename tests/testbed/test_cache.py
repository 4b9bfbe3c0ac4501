"""Where built things are kept, and what makes them be built anew."""

import dataclasses
import threading
import time
from pathlib import Path

import pytest

from testbed import cache, components


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "windlass" / "testbed"


def test_the_cache_is_where_the_standard_says(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.root() == empty
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/counts/as/unset")
    assert cache.root() == Path.home() / ".cache" / "windlass" / "testbed"


def test_every_component_is_pinned_to_one_version_and_has_a_place_of_its_own() -> None:
    assert components.KUBE_APISERVER.version == components.KUBECTL.version == "v1.36.3"
    assert len({component.slot for component in components.EVERY}) == len(components.EVERY) == 7


def test_the_api_server_is_told_its_version_by_the_linker() -> None:
    flags = components.KUBE_APISERVER.ldflags
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags


def test_another_main_package_or_pin_has_another_place() -> None:
    other = dataclasses.replace(components.ETCD, package="go.etcd.io/etcd/etcdctl/v3")
    assert other.slot != components.ETCD.slot


def test_a_component_that_was_not_finished_is_missing_and_leaves_nothing_behind(empty: Path) -> None:
    def stumble() -> None:
        with cache.filling(components.ETCD) as place:
            (place / "etcd").write_text("half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stumble()
    assert components.ETCD in cache.missing()
    assert list(empty.iterdir()) == []


def test_a_finished_component_is_not_missing(empty: Path) -> None:
    with cache.filling(components.ETCD) as place:
        (place / "etcd").write_text("all of it")
    assert components.ETCD not in cache.missing()
    assert Path(cache.binary(components.ETCD)).read_text() == "all of it"


def test_a_second_builder_waits_for_the_first(empty: Path, capfd: pytest.CaptureFixture[str]) -> None:
    order, said = [], ""

    def second() -> None:
        with cache.building():
            order.append("second")

    with cache.building():
        waiting = threading.Thread(target=second)
        waiting.start()
        ends_s = time.monotonic() + 60.0
        while "someone else is building" not in said:
            assert time.monotonic() < ends_s, said
            time.sleep(0.01)
            said += capfd.readouterr().err
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
