"""A network of a pod's own: its ports are nobody else's, and of this machine it reaches the API server alone.

`python -m tests.e2e.pod_network DIRECTORY API_PORT POD_PORT -- COMMAND` is run in a new network namespace. Two sockets
in the directory join it with the outside: `api`, behind which `outside` has the API server, and `pod`, by which a probe
reaches the pod.
"""

import contextlib
import fcntl
import http.client
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.install.containerfile import ROOT

_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CHUNK_BYTES = 65536

Connect = Callable[[], socket.socket]


def can_be_made() -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    return False


@contextlib.contextmanager
def outside(directory: Path, api_port: int, pod_port: int) -> Iterator[list[str]]:
    """What comes before a command that is to run in such a network; while it runs, the API server can be reached."""
    with _listen_at(directory / "api") as listener:
        _relay(listener, lambda: socket.create_connection(("127.0.0.1", api_port)))
        words = (sys.executable, "-m", "tests.e2e.pod_network", str(directory), str(api_port), str(pod_port), "--")
        yield [*_UNSHARE, "env", f"PYTHONPATH={ROOT}", *words]


def get(directory: Path, path: str) -> int:
    """The status that the pod answers with."""
    connection = http.client.HTTPConnection("pod", timeout=10)
    connection.sock = _connect_to(directory / "pod")
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def main(directory: str, api_port: str, pod_port: str, _: str, *command: str) -> int:
    """Inside: join both sockets with the loopback interface, and run the command until it ends."""
    place = Path(directory)
    _raise_loopback()
    with socket.create_server(("127.0.0.1", int(api_port))) as api, _listen_at(place / "pod") as pod:
        _relay(api, lambda: _connect_to(place / "api"))
        _relay(pod, lambda: socket.create_connection(("127.0.0.1", int(pod_port))))
        process = subprocess.Popen(command)
        # As a container runtime does: whom a kubelet signals is the program.
        signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
        return process.wait()


def _raise_loopback() -> None:
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _listen_at(path: Path) -> socket.socket:
    """The path may be longer than addresses of sockets are: it is taken by its directory."""
    found = socket.socket(socket.AF_UNIX)
    with _short(path) as name:
        found.bind(name)
    found.listen()
    return found


def _connect_to(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    try:
        with _short(path) as name:
            found.connect(name)
    except OSError:
        found.close()
        raise
    return found


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def _relay(listener: socket.socket, connect: Connect) -> None:
    """Everybody who comes is joined with who is connected to for them, until the listener is closed."""

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listener.accept()
                try:
                    other = connect()
                except OSError:
                    one.close()
                    continue
                threading.Thread(target=_join, args=(one, other), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def _join(one: socket.socket, other: socket.socket) -> None:
    """What either says is said to the other, until both have ended."""
    with one, other:
        back = threading.Thread(target=_pump, args=(other, one), daemon=True)
        back.start()
        _pump(one, other)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
