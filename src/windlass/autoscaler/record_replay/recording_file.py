"""Recording file: msgpack frames, compressed together, bounded in size, readable up to a truncation."""

import contextlib
import errno
import fcntl
import os
import stat
import struct
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from windlass import errors
from windlass.autoscaler.record_replay.value_codec import Plain

_LARGE_INT_EXTENSION = 1
"""Code of the msgpack extension for large integers."""

_encode_msgpack = msgspec.msgpack.Encoder().encode


def pack(value: Any) -> bytes:
    try:
        return _encode_msgpack(value)
    except OverflowError:
        return _encode_msgpack(_wrap_large_ints(value))


def _wrap_large_ints(value: Any) -> Any:
    """Return the value with integers wrapped that msgpack cannot represent."""
    if isinstance(value, bool | str | bytes | float) or value is None:
        return value
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return value
        return msgspec.msgpack.Ext(
            _LARGE_INT_EXTENSION, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        )
    if isinstance(value, Mapping):
        return {_wrap_large_ints(key): _wrap_large_ints(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_wrap_large_ints(entry) for entry in value]
    return value


def _unwrap_large_int(code: int, data: memoryview) -> Any:
    if code != _LARGE_INT_EXTENSION:
        raise ValueError(f"found extension {code}, expected {_LARGE_INT_EXTENSION}")
    return int.from_bytes(data, "big", signed=True)


unpack = msgspec.msgpack.Decoder(ext_hook=_unwrap_large_int).decode
"""Unpack a value. `msgspec.DecodeError`, RecursionError or ValueError for bytes that `pack` did not write."""


def estimate_bytes(packed: bytes) -> int:
    """Estimate an upper bound of the memory of a packed value, from the frequency of bytes that can start a value.

    A byte of a string costs as much as a small list item, so the estimate is never far too low.
    """
    counts = np.bincount(np.frombuffer(packed, np.uint8), minlength=256)
    return int(counts @ _BYTE_COSTS)


def _make_byte_costs() -> Any:
    costs = np.full(256, 8, np.int64)  # a list slot with a preallocated value: nil, true, a small number
    costs[0x80] = 64 + 8  # an empty map
    costs[0x81:0x90] = 232
    costs[0x90:0xA0] = 56 + 8
    costs[0xA1:0xC0] = 49 + 8  # a short string
    costs[0xC4:0xE0] = 56 + 8  # all other types with a type byte
    costs[0xE0:] = 28 + 8  # negative fixints, of which five are preallocated
    return costs


_BYTE_COSTS = _make_byte_costs()

VERSION = 1
"""Format version; raised with every change that earlier readers cannot read."""

_MAGIC = b"windlass recording "

_PREFIX = struct.Struct(">II")

_FLUSH_MARK = b"\x00\x00\xff\xff"
"""What zlib writes after flushed data, as every frame is."""

_CHUNK_BYTES = 2**18

_PIECE_BYTES = 2**22
"""Bytes decompressed at a time: a file may expand to a thousand times its size."""

_MAX_FRAME_BYTES = 2**28
"""Maximum frame size; larger ones were not written here. Frames of the largest clusters have some 100 MB."""

_MEMORY_BYTES, _MEMORY_PER_BYTE = 2**30, 512
"""Memory limit of all frames of a file: a constant, and a multiple of the file's size."""

_OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_FILE_MODE = 0o600


def rotated_path(path: Path) -> Path:
    """Return the path of the rotated, earlier part of a recording."""
    return path.with_name(path.name + ".1")


class RecordingWriter:
    """Writes frames to a file and rotates it. OSError if it cannot."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path, self._half_bytes = path, limit_bytes // 2
        self._file: BinaryIO | None = None
        self._squeeze = zlib.compressobj()
        self._written = self._first = 0

    @property
    def is_full(self) -> bool:
        """Whether a new file should start. Two files are kept, so each has half of the limit.

        After the first frame of a file there is always room for the same size again, however large the cluster.
        """
        return self._file is None or (self._written >= self._half_bytes and self._written >= 2 * self._first)

    def begin(self, frame: Plain) -> None:
        """Start a new file. An existing one is rotated, unless another process writes it."""
        packed = pack(frame)
        self.close()
        _rotate(self._path)
        self._file = open(os.open(self._path, _OPEN_FLAGS, _FILE_MODE), "wb")  # noqa: SIM115
        try:
            _lock(self._file.fileno(), self._path)
            self._squeeze, self._written = zlib.compressobj(), 0
            self._file.write(b"%s%d\n" % (_MAGIC, VERSION))
            self._append(packed)
        except BaseException:
            self.close()
            self._path.unlink(missing_ok=True)  # or it would replace the rotated file at the next start
            raise
        self._first = self._written

    def append(self, frame: Plain) -> None:
        self._append(pack(frame))

    def _append(self, packed: bytes) -> None:
        assert self._file is not None
        prefix = _PREFIX.pack(len(packed), zlib.crc32(packed))
        squeezed = self._squeeze.compress(prefix) + self._squeeze.compress(packed)
        squeezed += self._squeeze.flush(zlib.Z_SYNC_FLUSH)
        self._file.write(squeezed)
        self._file.flush()
        self._written += len(squeezed)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # written frames are flushed; the rest does not fit
                file.close()


def _rotate(path: Path) -> None:
    """Rotate the file. OSError if it is not a regular file, or another process writes it."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _lock(descriptor, path)
        finally:
            os.close(descriptor)
    elif not stat.S_ISLNK(mode):
        raise OSError(errno.EEXIST, "not a regular file; expected a regular file or none", str(path))
    path.replace(rotated_path(path))


def _lock(descriptor: int, path: Path) -> None:
    """Lock the file until it is closed. OSError if another process holds the lock; no lock where unsupported."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        reason = "another process writes it; expected a file of its own"
        raise BlockingIOError(errno.EWOULDBLOCK, reason, str(path)) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


class FrameReader(Iterator[Plain]):
    """Iterates over the complete frames of a file. A truncated frame is dropped."""

    def __init__(self, path: Path) -> None:
        self._path, self._frames = path, self._read()
        self.is_cut = False
        """After the iteration: does the file end within a frame? It was cut, or is being written."""

    def __next__(self) -> Plain:
        """InvalidInput if the file is not a recording."""
        return next(self._frames)

    def _read(self) -> Iterator[Plain]:
        try:
            with self._path.open("rb") as file:
                _check_header(self._path, file.readline(64))
                self.is_cut = not _ends_with_frame(file)
                self.is_cut = (yield from _unpack_frames(self._path, file)) or self.is_cut
        except OSError as error:
            raise errors.InvalidInput(f"{self._path}: {error.strerror or error}") from error


def read_frames(path: Path) -> FrameReader:
    """Read the complete frames. InvalidInput, at the first of them, if the file is not a recording."""
    return FrameReader(path)


def _ends_with_frame(file: BinaryIO) -> bool:
    """Does the file end with the mark of a flushed frame? Its position stays."""
    at = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(max(at, end - len(_FLUSH_MARK)))
    last = file.read()
    file.seek(at)
    return last == _FLUSH_MARK


def _check_header(path: Path, line: bytes) -> None:
    if not line.startswith(_MAGIC) or not line.endswith(b"\n"):
        raise errors.InvalidInput(f"{path}: found {line[:20]!r}, expected a file that --record wrote")
    version = line[len(_MAGIC) :].strip()
    if version != str(VERSION).encode():
        raise errors.InvalidInput(f"{path}: found version {version.decode(errors='replace')}, expected {VERSION}")


def _decompress(file: BinaryIO) -> Iterator[bytes]:
    """Decompress up to the first error."""
    expanding = zlib.decompressobj()
    while chunk := file.read(_CHUNK_BYTES):
        while chunk:
            before = expanding.copy()
            try:
                yield expanding.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                yield from _decompress_bytewise(before, chunk)
                return
            chunk = expanding.unconsumed_tail


def _decompress_bytewise(expanding: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    """Decompress byte by byte, to get all data before the first wrong byte."""
    for place in range(len(chunk)):
        try:
            yield expanding.decompress(chunk[place : place + 1], _PIECE_BYTES)
        except zlib.error:
            return


def _unpack_frames(path: Path, file: BinaryIO) -> Generator[Plain, None, bool]:
    """Yield frames up to the first that is not whole, and return whether there is one."""
    kept, memory_bytes = bytearray(), 0
    for chunk in _decompress(file):
        kept += chunk
        start = 0
        while (end := start + _PREFIX.size) <= len(kept):
            length, checksum = _PREFIX.unpack_from(kept, start)
            if length > _MAX_FRAME_BYTES:
                return True
            if end + length > len(kept):
                break
            frame = bytes(kept[end : end + length])
            if zlib.crc32(frame) != checksum:
                return True
            memory_bytes += estimate_bytes(frame)
            if memory_bytes > _MEMORY_BYTES + _MEMORY_PER_BYTE * file.tell():
                excess = f"found {file.tell()} bytes that would take {memory_bytes >> 20} MiB of memory"
                raise errors.InvalidInput(f"{path}: {excess}, expected a file that --record wrote")
            try:
                plain = unpack(frame)
            except (msgspec.DecodeError, RecursionError, ValueError):
                return True
            del frame
            yield plain
            del plain
            start = end + length
        del kept[:start]
    return bool(kept)
