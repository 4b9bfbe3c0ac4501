"""Building, with a stand-in for the Go tool: what is asked of it, and what becomes of its answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed import building, cache, components

_GO = """#!/bin/sh
echo "$PWD: $* GOPROXY=$GOPROXY CGO_ENABLED=$CGO_ENABLED" >> "$GO_CALLS"
case " $* " in *" $GO_FAILS_AT "*) echo "cannot find it" >&2; exit 1;; esac
if [ "$1" = list ]; then mkdir -p "$GO_SOURCE/core/config/webhook"; : > "$GO_SOURCE/core/config/webhook/manifests.yaml"
    echo "$GO_SOURCE"; exit; fi
while [ "$1" != -o ]; do shift; done
sleep 0.05; echo binary > "$2"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "bin" / "go"
    tool.parent.mkdir()
    tool.write_text(_GO)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GO_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("GO_SOURCE", str(tmp_path / "source"))
    monkeypatch.setenv("GO_FAILS_AT", "nothing")
    monkeypatch.setenv("GOPROXY", "https://proxy.example")
    return tmp_path / "calls"


def _builds(calls: Path) -> list[str]:
    return [line for line in calls.read_text().splitlines() if ": build " in line]


def test_each_component_is_built_once_from_its_pins(calls: Path) -> None:
    building.build()
    assert cache.missing() == []
    building.build()
    built = _builds(calls)
    assert len(built) == len(components.EVERY)
    for component, line in zip(components.EVERY, built, strict=True):
        assert line.startswith(f"{component.directory}: build ")
        assert line.endswith(f"{component.package} GOPROXY=https://proxy.example CGO_ENABLED=0")


def test_how_many_packages_are_compiled_at_once_can_be_said(calls: Path) -> None:
    building.build(jobs=1)
    assert all(" -p=1 " in line for line in _builds(calls))


def test_a_build_that_failed_goes_on_where_it_stopped(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_FAILS_AT", components.KUBE_SCHEDULER.package)
    with pytest.raises(building.BuildFailed, match=r"kube-scheduler: `go build` failed:\ncannot find it"):
        building.build()
    assert cache.missing()[0] is components.KUBE_SCHEDULER
    monkeypatch.setenv("GO_FAILS_AT", "nothing")
    building.build()
    assert cache.missing() == []
    assert len(_builds(calls)) == len(components.EVERY) + 1


def test_two_builders_at_once_build_once(calls: Path) -> None:
    command = [sys.executable, "-m", "testbed", "build"]
    root = Path(building.__file__).parent.parent
    builders = [subprocess.Popen(command, cwd=root, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [builder.wait(180) for builder in builders] == [0, 0]
    assert len(_builds(calls)) == len(components.EVERY) + len(components.TOOLS)


def test_without_go_it_says_what_is_needed(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(building.BuildFailed, match="there is no `go` on the PATH"):
        building.build()
