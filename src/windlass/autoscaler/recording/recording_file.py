"""Recording file: msgpack frames, compressed together, bounded in size, readable up to a truncation."""

import contextlib
import errno
import fcntl
import os
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from windlass import errors
from windlass.autoscaler.recording.value_codec import Plain

_LARGE_INT_EXTENSION = 1
"""The code of the extension."""

_encode_msgpack = msgspec.msgpack.Encoder().encode


def pack(value: Any) -> bytes:
    try:
        return _encode_msgpack(value)
    except OverflowError:
        return _encode_msgpack(_wrap_large_ints(value))


def _wrap_large_ints(value: Any) -> Any:
    """The same with the numbers wrapped that msgpack cannot spell."""
    if isinstance(value, bool | str | bytes | float) or value is None:
        return value
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return value
        return msgspec.msgpack.Ext(
            _LARGE_INT_EXTENSION, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        )
    if isinstance(value, Mapping):
        return {_wrap_large_ints(key): _wrap_large_ints(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_wrap_large_ints(each) for each in value]
    return value


def _unwrap_large_int(code: int, data: memoryview) -> Any:
    if code != _LARGE_INT_EXTENSION:
        raise ValueError(f"found extension {code}, expected {_LARGE_INT_EXTENSION}")
    return int.from_bytes(data, "big", signed=True)


unpack = msgspec.msgpack.Decoder(ext_hook=_unwrap_large_int).decode
"""A value again. `msgspec.DecodeError`, RecursionError or ValueError for what `pack` did not write."""


def estimate_bytes(packed: bytes) -> int:
    """At most so much memory the value takes, nearly: by how often each byte is there that may begin a value.

    A byte of text costs as much as the place of a small value in a list, so this is never far too little.
    """
    counts = np.bincount(np.frombuffer(packed, np.uint8), minlength=256)
    return int(counts @ _BYTE_COSTS)


def _make_byte_costs() -> Any:
    costs = np.full(256, 8, np.int64)  # a place in a list, with a value that exists already: nil, true, a small number
    costs[0x80] = 64 + 8  # an empty map
    costs[0x81:0x90] = 232
    costs[0x90:0xA0] = 56 + 8
    costs[0xA1:0xC0] = 49 + 8  # a short text
    costs[0xC4:0xE0] = 56 + 8  # all else that is not one byte
    costs[0xE0:] = 28 + 8  # small negative numbers, of which five exist already
    return costs


_BYTE_COSTS = _make_byte_costs()

VERSION = 1
"""Raised with whatever a reader of before could not read."""

_MAGIC = b"windlass recording "

_PREFIX = struct.Struct(">II")

_CHUNK_BYTES = 2**18

_PIECE_BYTES = 2**22
"""How much is expanded at a time: a file may expand to a thousand times its size."""

_MAX_FRAME_BYTES = 2**28
"""A frame that says that it is larger was not written here. That of the largest clusters is some 100 MB."""

_MEMORY_BYTES, _MEMORY_PER_BYTE = 2**30, 512
"""How much memory the frames of a file may take, together: so much, and so much for each of its bytes."""

_OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_FILE_MODE = 0o600


def rotated_path(path: Path) -> Path:
    """Where the part of a recording is that came before."""
    return path.with_name(path.name + ".1")


class RecordingWriter:
    """Writes frames to a file and to those that follow it. OSError if it cannot."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path, self._half_bytes = path, limit_bytes // 2
        self._file: BinaryIO | None = None
        self._squeeze = zlib.compressobj()
        self._written = self._first = 0

    @property
    def is_full(self) -> bool:
        """Should a new file begin? Two of them stay, so each has half of the limit.

        But after a first frame there is always room for as much again, however large the cluster.
        """
        return self._file is None or (self._written >= self._half_bytes and self._written >= 2 * self._first)

    def begin(self, frame: Plain) -> None:
        """Begin a new file. One that is there is moved aside, unless another process writes it."""
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
            self._path.unlink(missing_ok=True)  # or it would be moved aside, over one that holds something
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
            with contextlib.suppress(OSError):  # what was written is flushed; the rest does not fit
                file.close()


def _rotate(path: Path) -> None:
    """OSError if there is something else than a file, or another process writes it."""
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
        raise OSError(errno.EEXIST, "found something else than a file, expected a file or nothing", str(path))
    path.replace(rotated_path(path))


def _lock(descriptor: int, path: Path) -> None:
    """Until it is closed. OSError if another process has it; where nothing can be locked, nothing is."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        why = "another process writes it; expected a file of its own"
        raise BlockingIOError(errno.EWOULDBLOCK, why, str(path)) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


def read_frames(path: Path) -> Iterator[Plain]:
    """The frames that are whole. InvalidInput if it is no recording; what is cut off is left out."""
    try:
        with path.open("rb") as file:
            _check_header(path, file.readline(64))
            yield from _unpack_frames(path, file)
    except OSError as error:
        raise errors.InvalidInput(f"{path}: {error.strerror or error}") from error


def _check_header(path: Path, line: bytes) -> None:
    if not line.startswith(_MAGIC) or not line.endswith(b"\n"):
        raise errors.InvalidInput(f"{path}: found {line[:20]!r}, expected a file that --record wrote")
    version = line[len(_MAGIC) :].strip()
    if version != str(VERSION).encode():
        raise errors.InvalidInput(f"{path}: found version {version.decode(errors='replace')}, expected {VERSION}")


def _decompress(file: BinaryIO) -> Iterator[bytes]:
    """What was compressed, up to where that cannot be undone."""
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
    """Byte by byte, to get all that comes before the first wrong one."""
    for place in range(len(chunk)):
        try:
            yield expanding.decompress(chunk[place : place + 1], _PIECE_BYTES)
        except zlib.error:
            return


def _unpack_frames(path: Path, file: BinaryIO) -> Iterator[Plain]:
    kept, memory_bytes = bytearray(), 0
    for chunk in _decompress(file):
        kept += chunk
        start = 0
        while (end := start + _PREFIX.size) <= len(kept):
            length, checksum = _PREFIX.unpack_from(kept, start)
            if length > _MAX_FRAME_BYTES:
                return
            if end + length > len(kept):
                break
            frame = bytes(kept[end : end + length])
            if zlib.crc32(frame) != checksum:
                return
            memory_bytes += estimate_bytes(frame)
            if memory_bytes > _MEMORY_BYTES + _MEMORY_PER_BYTE * file.tell():
                found = f"found {file.tell()} bytes that would take {memory_bytes >> 20} MiB of memory"
                raise errors.InvalidInput(f"{path}: {found}, expected a file that --record wrote")
            try:
                plain = unpack(frame)
            except (msgspec.DecodeError, RecursionError, ValueError):
                return
            del frame
            yield plain
            del plain
            start = end + length
        del kept[:start]
