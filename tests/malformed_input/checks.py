"""What must hold throughout: the process answers, renews its lease, its loops succeed, and no pod loses its node."""

import datetime
import http.client
import json
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.malformed_input.cluster import MARK, TO_BE_DELETED
from tests.malformed_input.objects import Json
from tests.malformed_input.proxy import Write

_FAILED_LOOP = re.compile(r"turn \d+ failed.*")
_PAUSED = "nothing is decided on what may be over by now"
"""Said of a loop while a watch is broken."""
_MACHINE = re.compile(r"/apis/cluster\.x-k8s\.io/v1beta2/namespaces/default/machines/([^/]+)")
_NODE = re.compile(r"/api/v1/nodes/([^/]+)")
_EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
_SETTLED_S = 3.0
"""A pod that was there this long before its node was tainted was seen by the decision."""


class Health(threading.Thread):
    """Asks /health-check again and again, from a thread of its own."""

    def __init__(self, port: int, every_s: float = 0.25, patience_s: float = 30.0) -> None:
        super().__init__(daemon=True)
        self.slowest_s = 0.0
        self.asked = 0
        self.unanswered: list[str] = []
        self._port, self._every_s, self._patience_s = port, every_s, patience_s
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            began_s = time.monotonic()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._patience_s)
                connection.request("GET", "/health-check")
                status = connection.getresponse().status
                connection.close()
                if status != 200:
                    self.unanswered.append(f"/health-check answered {status}")
            except OSError as error:
                if not self._over.is_set():
                    self.unanswered.append(f"/health-check: {error!r} after {time.monotonic() - began_s:.1f} s")
            self.asked += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)

    def stop(self) -> None:
        self._over.set()


def lease_age_s(lease: Json) -> float:
    """Seconds since the lease was renewed."""
    renewed = datetime.datetime.fromisoformat(lease["spec"]["renewTime"])
    return (datetime.datetime.now(datetime.UTC) - renewed).total_seconds()


def find_failed_loops(log: Path) -> list[str]:
    return [line[:400] for line in _FAILED_LOOP.findall(log.read_text(errors="replace")) if _PAUSED not in line]


def count_paused_loops(log: Path) -> int:
    """Loops that decided nothing because a watch was broken."""
    return log.read_text(errors="replace").count(_PAUSED)


@dataclass(slots=True)
class Pauses:
    """How long loops have been paused without one that was not."""

    _count: int = 0
    _began_s: float = 0.0
    _grew_s: float = -1e9

    def last_s(self, count: int, now_s: float) -> float:
        """Seconds that the present pause has taken, from how many loops were paused so far; 0 if there is none."""
        if count > self._count:
            if now_s - self._grew_s > _SETTLED_S:
                self._began_s = now_s
            self._count, self._grew_s = count, now_s
        return now_s - self._began_s if now_s - self._grew_s <= _SETTLED_S else 0.0


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

    def hear(self, write: Write) -> None:
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
