"""What must hold throughout: the process answers, renews its lease, its loops succeed, and no pod loses its node."""

import datetime
import http.client
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.malformed_input.cluster import MARK, TO_BE_DELETED
from tests.malformed_input.objects import Json
from tests.malformed_input.proxy import Write

_FAILED_LOOP = re.compile(r"loop iteration failed: .*")
_SLOW_MACHINE = ("cannot decide on stale state", "not done within")
"""Ends of loops that a machine with too little time causes: caches that could not be kept current, writes cut off."""
_MACHINE = re.compile(r"/apis/cluster\.x-k8s\.io/v1beta2/namespaces/default/machines/([^/]+)")
_NODE = re.compile(r"/api/v1/nodes/([^/]+)")
_EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
_SETTLED_S = 3.0
"""A pod that was there this long before its node was tainted was seen by the decision."""


class Health(threading.Thread):
    """Asks /health-check again and again, from a thread of its own.

    What counts is the time that the process has made of it: while other processes have the processor, it cannot answer.
    """

    def __init__(self, port: int, pid: int, within_s: float, tell_slow: Callable[[], None]) -> None:
        """`tell_slow` is called while an answer is late."""
        super().__init__(daemon=True)
        self.slowest_s = 0.0
        self.slowest_by_clock_s = 0.0
        self.unanswered: list[str] = []
        self._port, self._pid, self._within_s, self._tell_slow = port, pid, within_s, tell_slow
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.25):
            began_s = time.monotonic()
            answered = threading.Event()
            threading.Thread(target=self._time, args=(answered,), daemon=True).start()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30.0)
                connection.request("GET", "/health-check")
                status = connection.getresponse().status
                connection.close()
                if status != 200:
                    self.unanswered.append(f"/health-check answered {status}")
            except OSError as error:
                if not self._over.is_set():
                    self.unanswered.append(f"/health-check: {error!r} after {time.monotonic() - began_s:.1f} s")
            answered.set()
            self.slowest_by_clock_s = max(self.slowest_by_clock_s, time.monotonic() - began_s)

    def _time(self, answered: threading.Event) -> None:
        """Until it is answered."""
        began_s, waited_s = time.monotonic(), _waited_s(self._pid)
        while True:
            is_over = answered.wait(0.05)
            took_s = time.monotonic() - began_s - (_waited_s(self._pid) - waited_s)
            self.slowest_s = max(self.slowest_s, took_s)
            if took_s > self._within_s:
                self._tell_slow()
            if is_over or took_s > self._within_s:
                return

    def stop(self) -> None:
        self._over.set()


def _waited_s(pid: int) -> float:
    """How long the process's first thread has waited for a processor so far, by Linux; 0 where that is not told."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, LookupError, ValueError):
        return 0.0


def lease_age_s(lease: Json) -> float | None:
    """Seconds since the lease was renewed; None if it does not say, as one that was edited."""
    try:
        renewed = datetime.datetime.fromisoformat(lease["spec"]["renewTime"])
        return (datetime.datetime.now(datetime.UTC) - renewed).total_seconds()
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _is_slow(line: str) -> bool:
    return any(text in line for text in _SLOW_MACHINE)


class FailedLoops:
    """What the log says of loops that failed; with `may_pause` not of those that a slow machine ends."""

    def __init__(self, log: Path, *, may_pause: bool) -> None:
        self._log, self._may_pause = log, may_pause
        self._read_bytes = 0
        self._found: list[str] = []
        self.paused = 0
        """How many a slow machine has ended, up to now."""

    def find(self) -> list[str]:
        """All up to now. No line is read twice: the log grows long."""
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._read_bytes += len(whole + newline)
        failed = _FAILED_LOOP.findall(whole.decode(errors="replace"))
        slow = [line for line in failed if self._may_pause and _is_slow(line)]
        self.paused += len(slow)
        self._found += [line[:400] for line in failed if line not in slow]
        return self._found


@dataclass(slots=True)
class Removals:
    """Watches the autoscaler's writes: no node goes while a pod runs on it that was not evicted."""

    placed: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Pods that run, by namespace/name: their node, and since when."""
    evicted: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    """Nodes whose Machine was marked or deleted."""
    violations: list[str] = field(default_factory=list)
    _tainted_s: dict[str, float] = field(default_factory=dict)

    def on_event(self, write: Write) -> None:
        if write.status >= 300:
            return
        if evicted := _EVICTION.fullmatch(write.path):
            key = f"{evicted[1]}/{evicted[2]}"
            self.evicted.add(key)
            self.placed.pop(key, None)
        elif (node := _NODE.fullmatch(write.path)) and write.method in ("PATCH", "PUT"):
            if TO_BE_DELETED.encode() in write.body:
                self._tainted_s.setdefault(node[1], time.monotonic())
            else:
                self._tainted_s.pop(node[1], None)
        elif (machine := _MACHINE.fullmatch(write.path)) and _removes(write):
            self._check(machine[1])
        elif node and write.method == "DELETE":
            self._check(node[1])

    def _check(self, node: str) -> None:
        """Machines and Nodes have the same name here."""
        if node in self.removed:
            return
        self.removed.add(node)
        limit_s = self._tainted_s.get(node, time.monotonic()) - _SETTLED_S
        left = [key for key, (where, since_s) in self.placed.items() if where == node and since_s < limit_s]
        if left:
            self.violations.append(f"node {node} is removed under running pods {', '.join(sorted(left)[:5])}")


def _removes(write: Write) -> bool:
    if write.method == "DELETE":
        return True
    try:
        annotations = json.loads(write.body)["metadata"]["annotations"]
    except (ValueError, KeyError, TypeError):
        return False
    return annotations.get(MARK) is not None


def runs_on(raw: bytes, name: str, namespace: str) -> str:
    """The node that a pod keeps, as far as any reader can tell; empty if none, or if it does not keep it."""
    try:
        pod = json.loads(raw)
        metadata, spec = pod["metadata"], pod["spec"]
        node = spec["nodeName"]
        if (metadata["name"], metadata["namespace"]) != (name, namespace) or not isinstance(node, str):
            return ""
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    status = pod.get("status")
    phase = status.get("phase") if isinstance(status, dict) else ""
    annotations = metadata.get("annotations")
    owners = metadata.get("ownerReferences")
    is_mirror = isinstance(annotations, dict) and "kubernetes.io/config.mirror" in annotations
    is_daemon = isinstance(owners, list) and any(
        isinstance(owner, dict) and owner.get("kind") == "DaemonSet" for owner in owners
    )
    is_over = phase in ("Succeeded", "Failed") or metadata.get("deletionTimestamp") is not None
    return "" if is_mirror or is_daemon or is_over else node
