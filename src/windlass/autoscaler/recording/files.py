"""Files: frames one after the other, compressed together, bounded in size, readable up to where they are cut off.

    windlass recording 1 ⏎ │ zlib( length, crc32, frame │ length, crc32, frame │ … )

A frame is msgpack, and each is flushed as it is written. What a crash left behind the last whole one is passed over.
The first one holds all that the others build on. A file that has grown too large is moved aside, to FILE.1, where it
replaces the one before it, and a new one begins.

A file names pods, nodes and labels, so its owner alone may read it. It is locked while it is written: a second process
does not move it aside. No link is followed, and nothing but a file is moved.

Whoever reads a file did not always write it: one that would take far more memory than its size explains is refused.
"""

import contextlib
import errno
import fcntl
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from windlass import errors
from windlass.autoscaler.recording import packing
from windlass.autoscaler.recording.values import Plain

VERSION = 1
"""Raised with whatever a reader of before could not read."""

_MAGIC = b"windlass recording "
_PREFIX = struct.Struct(">II")
_CHUNK_BYTES = 2**18
_PIECE_BYTES = 2**22
"""How much is expanded at a time: a file may expand to a thousand times its size."""
_MOST_FRAME_BYTES = 2**28
"""A frame that says that it is larger was not written here. That of the largest clusters is some 100 MB."""
_MEMORY_BYTES, _MEMORY_PER_BYTE = 2**30, 512
"""How much memory the frames of a file may take, together: so much, and so much for each of its bytes."""
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o600


def earlier(path: Path) -> Path:
    """Where the part of a recording is that came before."""
    return path.with_name(path.name + ".1")


class Writer:
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
        packed = packing.pack(frame)
        self.close()
        _move_aside(self._path)
        self._file = open(os.open(self._path, _OPEN, _MODE), "wb")  # noqa: SIM115
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
        self._append(packing.pack(frame))

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


def _move_aside(path: Path) -> None:
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
    path.replace(earlier(path))


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


def read(path: Path) -> Iterator[Plain]:
    """The frames that are whole. InvalidInput if it is no recording; what is cut off is left out."""
    try:
        with path.open("rb") as file:
            _check(path, file.readline(64))
            yield from _unpack_all(path, file)
    except OSError as error:
        raise errors.InvalidInput(f"{path}: {error.strerror or error}") from error


def _check(path: Path, line: bytes) -> None:
    if not line.startswith(_MAGIC) or not line.endswith(b"\n"):
        raise errors.InvalidInput(f"{path}: found {line[:20]!r}, expected a file that --record wrote")
    version = line[len(_MAGIC) :].strip()
    if version != str(VERSION).encode():
        raise errors.InvalidInput(f"{path}: found version {version.decode(errors='replace')}, expected {VERSION}")


def _expand(file: BinaryIO) -> Iterator[bytes]:
    """What was compressed, up to where that cannot be undone."""
    expanding = zlib.decompressobj()
    while chunk := file.read(_CHUNK_BYTES):
        while chunk:
            before = expanding.copy()
            try:
                yield expanding.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                yield from _expand_slowly(before, chunk)
                return
            chunk = expanding.unconsumed_tail


def _expand_slowly(expanding: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    """Byte by byte, to get all that comes before the first wrong one."""
    for place in range(len(chunk)):
        try:
            yield expanding.decompress(chunk[place : place + 1], _PIECE_BYTES)
        except zlib.error:
            return


def _unpack_all(path: Path, file: BinaryIO) -> Iterator[Plain]:
    kept, memory_bytes = bytearray(), 0
    for chunk in _expand(file):
        kept += chunk
        start = 0
        while (end := start + _PREFIX.size) <= len(kept):
            length, checksum = _PREFIX.unpack_from(kept, start)
            if length > _MOST_FRAME_BYTES:
                return
            if end + length > len(kept):
                break
            frame = bytes(kept[end : end + length])
            if zlib.crc32(frame) != checksum:
                return
            memory_bytes += packing.estimate_bytes(frame)
            if memory_bytes > _MEMORY_BYTES + _MEMORY_PER_BYTE * file.tell():
                found = f"found {file.tell()} bytes that would take {memory_bytes >> 20} MiB of memory"
                raise errors.InvalidInput(f"{path}: {found}, expected a file that --record wrote")
            try:
                plain = packing.unpack(frame)
            except (msgspec.DecodeError, RecursionError, ValueError):
                return
            del frame
            yield plain
            del plain
            start = end + length
        del kept[:start]
