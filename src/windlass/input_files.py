"""Files that somebody names: read whole, and only if they end.

A path may name anything that can be opened. A device such as /dev/zero never ends, and would take all memory first.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_MAX_DEVICE_BYTES = 2**20
"""Maximum that is read from a device. A terminal and /dev/null end before."""


def read_bytes(path: Path) -> bytes:
    """The content of a file, a pipe, or a device that ends. OSError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return read_stream(file)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    except ValueError:  # a NUL
        raise OSError(errno.ENOENT, "no such file", str(path)) from None


def read_text(path: Path) -> str:
    """The same as UTF-8. UnicodeDecodeError if it is none."""
    return read_bytes(path).decode()


def read_stream(file: BinaryIO) -> bytes:
    """The rest of an open file. OSError if it is a device that does not end."""
    if not _is_device(file):
        return file.read()
    found = file.read(_MAX_DEVICE_BYTES + 1)
    if len(found) > _MAX_DEVICE_BYTES:
        raise OSError(errno.EFBIG, "a device that does not end; expected a file")
    return found


def _is_device(file: BinaryIO) -> bool:
    try:
        mode = os.fstat(file.fileno()).st_mode
    except OSError:  # in memory
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
