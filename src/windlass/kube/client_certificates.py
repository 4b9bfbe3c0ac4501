"""Client certificates: loaded into a TLS context without a file, so that no private key is ever on a disk.

The ssl module takes paths only. On Linux the path is that of an anonymous file in memory, elsewhere that of a pipe.
Both work where every file system is read-only.
"""

import contextlib
import os
import ssl
import threading
from collections.abc import Iterator

from windlass.kube import transport


def load(context: ssl.SSLContext, certificate: transport.Certificate) -> None:
    """Have the context prove who we are. ssl.SSLError if certificate or key cannot be read, or do not match."""
    if hasattr(os, "memfd_create"):
        with _memory(certificate.certificate + b"\n" + certificate.key) as path:
            context.load_cert_chain(path)
    else:
        load_by_pipes(context, certificate)


def load_by_pipes(context: ssl.SSLContext, certificate: transport.Certificate) -> None:
    """For systems without anonymous files; each pipe can be read once, so certificate and key have one each."""
    with _pipe(certificate.certificate) as chain, _pipe(certificate.key) as key:
        context.load_cert_chain(chain, key)


@contextlib.contextmanager
def _memory(content: bytes) -> Iterator[str]:
    """The path of a file that is in memory only, and gone in the end. Processes that are started do not inherit it."""
    with open(os.memfd_create("windlass-client-certificate", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@contextlib.contextmanager
def _pipe(content: bytes) -> Iterator[str]:
    """The path of a pipe that is filled as it is read, since it holds less than a long chain of certificates."""
    reading, writing = os.pipe()
    writer = threading.Thread(target=_write, args=(writing, content), daemon=True)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


def _write(writing: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(writing, "wb") as file:
        file.write(content)
