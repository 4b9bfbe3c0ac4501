"""Output files: checked before a run that may take minutes, and never written over something else unasked."""

import itertools
import os
import stat
from pathlib import Path

from windlass import errors

REPORT = Path("report.html")
"""The report's file where none is named; with a number if it exists."""
RECORDING_BEGINNING = b"windlass recording "
_BEGINNINGS = {
    "--report": (b"<!doctype html",),
    "--record": (RECORDING_BEGINNING,),
    "--out": (b"name: ", b"# Not captured: "),
}
"""What a file begins with that windlass wrote for this option."""


def choose_report() -> Path:
    """Return the first name that is not taken: a report that is there may be the one that is wanted."""
    numbered = (REPORT.with_stem(f"{REPORT.stem}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([REPORT], numbered) if not os.path.lexists(path))


def check(option: str, path: Path) -> None:
    """InvalidInput if the file cannot be written, or exists and is not of the kind that the option writes."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise errors.InvalidInput(f"{option} {path}: it is a directory; expected a file")
        if option == "--record" and not stat.S_ISREG(mode):  # recordings are rotated
            raise errors.InvalidInput(f"{option} {path}: it is no regular file; expected one, or none")
        if stat.S_ISREG(mode) and not _is_ours(path, _BEGINNINGS[option]):
            raise errors.InvalidInput(
                f"{option} {path}: it exists and windlass did not write it; expected another file"
            )
        path.open("ab").close()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise errors.InvalidInput(f"{option} {path}: there is no directory {path.parent}") from None
        _try_to_create(option, path)
    except OSError as error:
        raise errors.InvalidInput(f"{option} {path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:  # a NUL
        raise errors.InvalidInput(f"{option}: found {str(path)!r}, expected the name of a file") from None


def _try_to_create(option: str, path: Path) -> None:
    try:
        path.open("xb").close()
        path.unlink()
    except OSError as error:
        raise errors.InvalidInput(
            f"{option} {path}: cannot be created: {(error.strerror or str(error)).lower()}"
        ) from None


def _is_ours(path: Path, beginnings: tuple[bytes, ...]) -> bool:
    with path.open("rb") as file:
        found = file.read(max(map(len, beginnings)))
    return not found or found.startswith(beginnings)
