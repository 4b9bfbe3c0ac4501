"""Files that somebody names end, or are refused before they take memory."""

import io
import os
from pathlib import Path

import pytest

from windlass import input_files


def test_a_file_a_pipe_and_nothing_are_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * 3 * 2**20)
    assert input_files.read_bytes(file) == file.read_bytes()
    assert input_files.read_bytes(Path(os.devnull)) == b""
    assert input_files.read_stream(io.BytesIO(b"in memory")) == b"in memory"
    reading, writing = os.pipe()
    os.write(writing, b"piped")
    os.close(writing)
    try:
        assert input_files.read_text(Path(f"/dev/fd/{reading}")) == "piped"
    finally:
        os.close(reading)


def test_a_device_that_does_not_end_is_refused() -> None:
    with pytest.raises(OSError, match="does not end") as refused:
        input_files.read_bytes(Path("/dev/zero"))
    assert refused.value.filename == "/dev/zero"


@pytest.mark.parametrize("name", ["missing", "a\0b", "."])
def test_what_cannot_be_read_is_an_error_with_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r".") as refused:
        input_files.read_bytes(tmp_path / name)
    assert refused.value.filename == str(tmp_path / name)
    assert refused.value.strerror
