"""Files that nobody here wrote: kubeconfig, scenarios, manifests, recordings, the memory that is kept."""

import base64
import contextlib
import json
import random
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from tests import strategies
from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.engine.loop import builders
from tests.malformed_objects import mutations
from windlass import errors
from windlass.autoscaler import memory_store, priority_expander_config, scheduler_config
from windlass.autoscaler.record_replay import recording_file
from windlass.autoscaler.record_replay.replay import Recording
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import durable_memory
from windlass.engine.model.settings import Settings
from windlass.kube import kubeconfig, yaml_documents
from windlass.simulator.scenario import loader

ROOT = Path(__file__).parents[2]
SCENARIOS = [path.read_text() for path in sorted((ROOT / "scenarios").glob("*.yaml"))]
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://h:1", "certificate-authority-data": "eA=="}}],
    "users": [
        {"name": "u", "user": {"token": "t", "exec": {"command": "x", "args": ["a"], "env": [{"name": "a"}]}}},
        {"name": "v", "user": {"client-certificate-data": "eA==", "client-key-data": "eA==", "as-groups": ["g"]}},
    ],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
}
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + chr(ord(name) - 1)] * 9)}]\n" for name in "bcdefghijk"
)
"""Small, and 9 to the 11th large once every name is replaced by what it stands for."""
HOSTILE = {
    "laughs": LAUGHS,
    "deep": "[" * 3000 + "]" * 3000,
    "deep enough to end the process": "a: " + "[{" * 50_000,
    "deep in blocks": "- " * 50_000,
    "deep JSON": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "deep mapping": "{a: " * 3000 + "}" * 3000,
    "a key that is a mapping": "{{a: 1}: 2}",
    "a date that is none": "at: 2024-99-99",
    "a number that is none": "at: 0b",
    "a loop": "a: &a [*a]",
    "binary": "\x00\x01",
    "a tag": "!!python/object/apply:os.system [true]",
    "merged with a number": "<<: 1",
}
_MOST_BYTES = 64 * 2**20


def refuse_or_read(read: Callable[[], object]) -> None:
    """An error of ours is fine; any other escapes."""
    with contextlib.suppress(errors.WindlassError):
        read()


@given(mutations.seeds)
@strategies.examples(150)
def test_a_bent_kubeconfig_is_refused_or_read(chance: random.Random) -> None:
    text = json.dumps(mutations.bend(KUBECONFIG, chance, 2)).encode()
    if chance.random() < 0.3:
        text = mutations.bend_bytes(yaml.safe_dump(KUBECONFIG).encode(), chance)
    refuse_or_read(lambda: kubeconfig.parse(text, "secret"))


@given(mutations.seeds)
@strategies.examples(60)
def test_a_bent_scenario_is_refused_or_read(chance: random.Random) -> None:
    text = chance.choice(SCENARIOS)
    if chance.random() < 0.7:
        text = yaml.safe_dump(mutations.bend(yaml.safe_load(text), chance, 2), allow_unicode=True)
    else:
        text = mutations.bend_bytes(text.encode(), chance).decode(errors="replace")
    refuse_or_read(lambda: loader.parse_scenario(text, "bent.yaml"))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "read",
    [
        lambda text: kubeconfig.parse(text.encode(), "secret"),
        lambda text: loader.parse_scenario(text, "bent.yaml"),
        lambda text: list(yaml_documents.read_documents(text, "bent.yaml")),
        lambda text: list(yaml_documents.read_documents(text.encode(), "bent.yaml", strict=True)),
        lambda text: priority_expander_config.parse_priorities(text),
        lambda text: scheduler_config.parse_profile(text, "bent.yaml"),
    ],
    ids=["kubeconfig", "scenario", "manifest", "strict manifest", "priorities", "scheduler configuration"],
)
def test_hostile_yaml_is_refused_or_read(read: Callable[[str], object], text: str) -> None:
    refuse_or_read(lambda: read(text))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_bytes(b"name: \xff\xfe")
    with pytest.raises(errors.InvalidInput, match=r"scenario\.yaml"):
        loader.load_scenario(path)
    with pytest.raises(errors.InvalidInput, match=r"scenario\.yaml"):
        kubeconfig.load([path])


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of a real day, as short as they come."""
    path = tmp_path_factory.mktemp("recording") / "file"

    async def scenario(cluster: Cluster) -> None:
        async with recorded_clusters.recording(cluster, path) as running:
            await recorded_clusters.live(cluster, running)

    play(scenario, recorded_clusters.quick())
    return path.read_bytes()


def replay(path: Path) -> None:
    for _ in Recording(path):
        pass


@given(mutations.seeds)
@strategies.examples(60)
def test_a_bent_recording_is_refused_or_read(
    recording: bytes, tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    path = tmp_path_factory.getbasetemp() / "bent.rec"
    path.write_bytes(mutations.bend_bytes(recording, chance))
    refuse_or_read(lambda: replay(path))


@given(mutations.seeds)
@strategies.examples(60)
def test_a_recording_whose_frames_are_bent_is_refused_or_read(
    recording: bytes, tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    """Whole by its checksums, and yet not what was written."""
    path = tmp_path_factory.getbasetemp() / "bent.rec"
    path.write_bytes(recording)
    frames = list(recording_file.read_frames(path))
    place = chance.randrange(len(frames))
    writer = recording_file.RecordingWriter(path, 2**30)
    writer.begin(_storable(mutations.bend(frames[0], chance, 1)) if place == 0 else frames[0])
    for number, frame in enumerate(frames[1:], 1):
        writer.append(_storable(mutations.bend(frame, chance, 2)) if number == place else frame)
    writer.close()
    refuse_or_read(lambda: replay(path))


def _storable(bent: Any) -> Any:
    """With what no frame can hold in a smaller size."""
    if isinstance(bent, dict):
        return {key: _storable(value) for key, value in bent.items()}
    if isinstance(bent, list | tuple):
        return [_storable(value) for value in bent]
    return bent % 2**63 if isinstance(bent, int) and abs(bent) >= 2**63 else bent


def test_a_recording_that_unfolds_without_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.rec"
    squeeze = zlib.compressobj(9)
    with path.open("wb") as file:
        file.write(b"windlass recording 1\n" + squeeze.compress(struct.pack(">II", 2**32 - 1, 0)))
        for _ in range(64):
            file.write(squeeze.compress(bytes(2**21)))  # 128 MiB, in 128 KiB
        file.write(squeeze.flush())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    refuse_or_read(lambda: replay(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < _MOST_BYTES


@pytest.fixture(scope="module")
def memory() -> object:
    """What is remembered in the middle of things, as plain values."""
    found: list[object] = []

    async def scenario(cluster: Cluster) -> None:
        async with cluster.autoscaling() as running:
            cluster.add_group("a", 2, boot_s=500.0)
            cluster.register_nodes()
            for number in range(6):
                cluster.add_pod(f"p{number}", "2")
            await cluster.until(lambda: bool(running.memory.durable.requests))
            found.append(durable_memory.to_plain(running.memory.durable))

    play(scenario, recorded_clusters.quick())
    return found[0]


@given(mutations.seeds)
@strategies.examples(150)
def test_a_memory_that_somebody_edited_is_refused_or_decided_with(memory: object, chance: random.Random) -> None:
    text = json.dumps(mutations.bend(memory, chance, 2)).encode()
    packed = base64.b64encode(zlib.compress(text))
    if chance.random() < 0.2:
        packed = mutations.bend_bytes(packed, chance)
    try:
        durable = memory_store.decode_memory(packed.decode(errors="replace"))
    except errors.InvalidInput:
        return
    nodes = builders.nodes("a", 3)
    observation = builders.observe([builders.group("a", nodes)], nodes, [builders.pending("large", 9000)])
    decided = decide(observation, LoopMemory(durable), Settings(), builders.NOW_S)
    memory_store.decode_memory(memory_store.encode_memory(decided.memory.durable))


@given(mutations.seeds)
@strategies.examples(50)
def test_bytes_that_are_no_yaml_are_refused_or_read(chance: random.Random) -> None:
    refuse_or_read(lambda: list(yaml_documents.read_documents(chance.randbytes(chance.randrange(200)), "bent.yaml")))
