"""TLS: serving with a certificate that may be replaced meanwhile."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from windlass import clock, errors

_LOOK_S = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """Where a certificate and its key are, and what they are called where something is wrong with them."""

    certificate: Path
    key: Path
    told: str


@contextlib.asynccontextmanager
async def current(files: Files | None, time: clock.Clock) -> AsyncIterator[ssl.SSLContext | None]:
    """What shows whoever connects the certificate as it is then; None without files. InvalidInput for useless ones."""
    if files is None:
        yield None
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, files)
    reloading = asyncio.ensure_future(_keep_current(context, files, time))
    try:
        yield context
    finally:
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)


def _load(context: ssl.SSLContext, files: Files) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        expected = f"expected a certificate in {files.certificate} and its key in {files.key}"
        raise errors.InvalidInput(f"{files.told}: found {error}, {expected}") from error


async def _keep_current(context: ssl.SSLContext, files: Files, time: clock.Clock) -> None:
    seen = _stamp(files)
    while True:
        await time.sleep(_LOOK_S)
        found = _stamp(files)
        if found == seen:
            continue
        try:
            _load(context, files)
        except errors.InvalidInput as error:  # half written: the old one is good until the next look
            _log.warning("%s", error)
            continue
        seen = found


def _stamp(files: Files) -> list[int]:
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in (files.certificate, files.key)]
