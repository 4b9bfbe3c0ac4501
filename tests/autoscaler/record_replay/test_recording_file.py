"""Files of frames: bounded, and readable up to where they are cut off."""

import os
import stat
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import errors
from windlass.autoscaler.record_replay import recording_file

FRAMES = [{"n": 0, "text": "beginning" * 50}, *({"n": n, "list": [n, None, 1.5, b"x"]} for n in range(1, 30))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("files") / "file"
    write(path, FRAMES)
    return path.read_bytes()


def write(path: Path, frames: list[dict[str, object]], limit_bytes: int = 2**30) -> None:
    writer = recording_file.RecordingWriter(path, limit_bytes)
    writer.begin(frames[0])
    for frame in frames[1:]:
        writer.append(frame)
    writer.close()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "file", FRAMES)
    frames = recording_file.read_frames(tmp_path / "file")
    assert list(frames) == FRAMES
    assert not frames.is_cut


def test_a_file_that_ends_within_a_frame_is_known_to_be_cut(tmp_path: Path, whole: bytes) -> None:
    path, wholes = tmp_path / "file", []
    for length in range(len(b"windlass recording 1\n"), len(whole) + 1):
        path.write_bytes(whole[:length])
        frames = recording_file.read_frames(path)
        found = list(frames)
        if not frames.is_cut:
            wholes.append(len(found))
    assert wholes == list(range(1, len(FRAMES) + 1)), "only between two frames it cannot be known"


@given(st.data())
def test_a_file_that_is_cut_off_is_read_up_to_there(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "file"
    length = data.draw(st.integers(len(b"windlass recording 1\n"), len(whole)))
    path.write_bytes(whole[:length] + data.draw(st.binary(max_size=20)))
    frames = recording_file.read_frames(path)
    found = list(frames)
    assert found == FRAMES[: len(found)]
    assert length < len(whole) or found == FRAMES


def test_frames_are_on_disk_as_soon_as_they_are_written(tmp_path: Path) -> None:
    writer = recording_file.RecordingWriter(tmp_path / "file", 2**30)
    writer.begin(FRAMES[0])
    for number, frame in enumerate(FRAMES[1:], 2):
        writer.append(frame)
        assert len(list(recording_file.read_frames(tmp_path / "file"))) == number
    writer.close()


@pytest.mark.parametrize("content", [b"", b"windlass", b"windlass recording 99\n", b"\x00" * 100, b"{}\n"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(errors.InvalidInput, match="expected"):
        list(recording_file.read_frames(tmp_path / "file"))


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="No such file"):
        list(recording_file.read_frames(tmp_path / "file"))


def test_what_an_earlier_process_wrote_is_moved_aside(tmp_path: Path) -> None:
    write(tmp_path / "file", FRAMES)
    write(tmp_path / "file", FRAMES[:2])
    assert list(recording_file.read_frames(recording_file.rotated_path(tmp_path / "file"))) == FRAMES
    assert list(recording_file.read_frames(tmp_path / "file")) == FRAMES[:2]


def test_two_files_together_stay_within_the_limit(tmp_path: Path) -> None:
    limit_bytes, path = 20_000, tmp_path / "file"
    writer = recording_file.RecordingWriter(path, limit_bytes)
    begun = 0
    for number in range(2000):
        if writer.is_full:
            writer.begin({"beginning": number})
            begun += 1
        writer.append({"n": number, "noise": str(number**7 % 1_000_003**3)})
        sizes = [item.stat().st_size for item in (path, recording_file.rotated_path(path)) if item.exists()]
        assert sum(sizes) <= limit_bytes + 200
    assert begun > 3
    writer.close()


@given(st.recursive(st.integers(-(2**300), 2**300) | st.text() | st.none(), lambda inner: st.lists(inner)))
def test_numbers_of_any_size_come_back(value: object) -> None:
    assert recording_file.unpack(recording_file.pack(value)) == value


def test_its_owner_alone_may_read_a_recording(tmp_path: Path) -> None:
    write(tmp_path / "file", FRAMES)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


@pytest.mark.parametrize("is_there", [True, False])
def test_no_link_is_followed(tmp_path: Path, is_there: bool) -> None:
    victim = tmp_path / "victim"
    if is_there:
        victim.write_text("of another")
    (tmp_path / "file").symlink_to(victim)
    write(tmp_path / "file", FRAMES)
    assert list(recording_file.read_frames(tmp_path / "file")) == FRAMES
    assert not (tmp_path / "file").is_symlink()
    assert (victim.read_text() if is_there else victim.exists()) == ("of another" if is_there else False)


def test_nothing_but_a_file_is_moved_aside(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(OSError, match="expected a regular file or none"):
        write(tmp_path / "file", FRAMES)
    assert stat.S_ISFIFO((tmp_path / "file").stat().st_mode)


def test_a_file_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    first = recording_file.RecordingWriter(tmp_path / "file", 2**30)
    first.begin(FRAMES[0])
    with pytest.raises(BlockingIOError, match="another process writes it"):
        recording_file.RecordingWriter(tmp_path / "file", 2**30).begin({"n": "second"})
    first.append(FRAMES[1])
    first.close()
    assert list(recording_file.read_frames(tmp_path / "file")) == FRAMES[:2]
    assert not recording_file.rotated_path(tmp_path / "file").exists()


def test_a_beginning_that_cannot_be_written_takes_the_place_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "file", FRAMES)
    writer = recording_file.RecordingWriter(tmp_path / "file", 2**30)
    with pytest.raises(TypeError):
        writer.begin({"odd": object()})
    assert list(recording_file.read_frames(tmp_path / "file")) == FRAMES

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(recording_file.RecordingWriter, "_append", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="no space"):
                writer.begin(FRAMES[0])
    assert list(recording_file.read_frames(recording_file.rotated_path(tmp_path / "file"))) == FRAMES


def bomb(path: Path, packed: bytes) -> None:
    prefix = struct.pack(">II", len(packed), zlib.crc32(packed))
    path.write_bytes(b"windlass recording 1\n" + zlib.compress(prefix + packed, 9))


@pytest.mark.parametrize("each", [b"\xc0", b"\x80", b"\x90", b"\x81\xc0\xc0", b"\xa1a"])
def test_a_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: bytes
) -> None:
    monkeypatch.setattr(recording_file, "_MEMORY_BYTES", 2**20)
    count = 2**21
    bomb(tmp_path / "file", b"\xdd" + struct.pack(">I", count) + each * count)
    with pytest.raises(errors.InvalidInput, match="MiB of memory, expected a file that --record wrote"):
        list(recording_file.read_frames(tmp_path / "file"))


def test_many_small_frames_fill_the_memory_no_more_than_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_MEMORY_BYTES", 2**20)
    packed = b"\xdd" + struct.pack(">I", 2**10) + b"\x80" * 2**10
    frame = struct.pack(">II", len(packed), zlib.crc32(packed)) + packed
    (tmp_path / "file").write_bytes(b"windlass recording 1\n" + zlib.compress(frame * 2**10, 9))
    with pytest.raises(errors.InvalidInput, match="MiB of memory"):
        list(recording_file.read_frames(tmp_path / "file"))


@pytest.mark.parametrize("packed", [b"\x91" * 100_000 + b"\xc0", b"\xc7\x01\x07\x00"])
def test_what_nobody_packed_is_the_end_of_the_file(tmp_path: Path, packed: bytes) -> None:
    bomb(tmp_path / "file", packed)
    assert list(recording_file.read_frames(tmp_path / "file")) == []
