"""Files of frames: bounded, and readable up to where they are cut off."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import errors
from windlass.autoscaler.recording import files

FRAMES = [{"n": 0, "text": "beginning" * 50}, *({"n": n, "list": [n, None, 1.5, b"x"]} for n in range(1, 30))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("files") / "file"
    write(path, FRAMES)
    return path.read_bytes()


def write(path: Path, frames: list[dict[str, object]], limit_bytes: int = 2**30) -> None:
    writer = files.Writer(path, limit_bytes)
    writer.begin(frames[0])
    for frame in frames[1:]:
        writer.append(frame)
    writer.close()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "file", FRAMES)
    assert list(files.read(tmp_path / "file")) == FRAMES


@given(st.data())
def test_a_file_that_is_cut_off_is_read_up_to_there(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "file"
    length = data.draw(st.integers(len(b"windlass recording 1\n"), len(whole)))
    path.write_bytes(whole[:length] + data.draw(st.binary(max_size=20)))
    found = list(files.read(path))
    assert found == FRAMES[: len(found)]
    assert length < len(whole) or found == FRAMES


def test_frames_are_on_disk_as_soon_as_they_are_written(tmp_path: Path) -> None:
    writer = files.Writer(tmp_path / "file", 2**30)
    writer.begin(FRAMES[0])
    for number, frame in enumerate(FRAMES[1:], 2):
        writer.append(frame)
        assert len(list(files.read(tmp_path / "file"))) == number
    writer.close()


@pytest.mark.parametrize("content", [b"", b"windlass", b"windlass recording 99\n", b"\x00" * 100, b"{}\n"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(errors.InvalidInput, match="expected"):
        list(files.read(tmp_path / "file"))


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="No such file"):
        list(files.read(tmp_path / "file"))


def test_what_an_earlier_process_wrote_is_moved_aside(tmp_path: Path) -> None:
    write(tmp_path / "file", FRAMES)
    write(tmp_path / "file", FRAMES[:2])
    assert list(files.read(files.earlier(tmp_path / "file"))) == FRAMES
    assert list(files.read(tmp_path / "file")) == FRAMES[:2]


def test_two_files_together_stay_within_the_limit(tmp_path: Path) -> None:
    limit_bytes, path = 20_000, tmp_path / "file"
    writer = files.Writer(path, limit_bytes)
    begun = 0
    for number in range(2000):
        if writer.is_full:
            writer.begin({"beginning": number})
            begun += 1
        writer.append({"n": number, "noise": str(number**7 % 1_000_003**3)})
        sizes = [one.stat().st_size for one in (path, files.earlier(path)) if one.exists()]
        assert sum(sizes) <= limit_bytes + 200
    assert begun > 3
    writer.close()
