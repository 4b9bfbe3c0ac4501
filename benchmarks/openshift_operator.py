"""`windlass operator` in a process of its own, beside the embedded server that it talks to over HTTP.

As in a cluster, where the API server is another process. Whoever plays the autoscaler and the administrator does it in
the server's process, in memory, so that what they take counts as the server's.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.apiserver.responses import ApiResponse
from windlass.kube import client, request_builders, transport

CONCURRENCY = 30
"""Of the operator. Each pass waits for the server several times: fewer than this at once leave both processes idle."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER = "benchmark"


class Served(server.Server):
    """An embedded server that notes what the operator writes."""

    def __init__(self, time: clock.Clock) -> None:
        super().__init__(time)
        self.carrier = embedded_server.InProcessTransport(self, time)
        self.writes: list[str] = []
        """Of the operator: verb and path."""
        self.notice: Callable[[transport.Request], None] = lambda request: None
        """Called when the server has done what the operator asked for."""

    def handle(self, request: transport.Request) -> ApiResponse:
        answer = super().handle(request)
        if request.method != "GET" and request.headers.get("user-agent") != _USER:
            self.writes.append(f"{request.method} {request.path}")
            if answer.status < 300:
                self.notice(request)
        return answer

    def connect(self, time: clock.Clock, manager: str) -> client.Client:
        """Someone in this process, whose writes are not the operator's."""
        return client.Client(
            self.carrier,
            time,
            client.ClientSettings(qps=0, user_agent=_USER, writer=request_builders.WriteOptions(manager)),
        )

    def count_writes(self) -> int:
        """Events left out."""
        return sum("/events" not in item for item in self.writes)


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds that two processes took so far, and when that was."""

    at_s: float
    server_s: float
    operator_s: float

    @classmethod
    def read(cls, operator: int) -> "Cpu":
        fields = Path(f"/proc/{operator}/stat").read_text().rpartition(")")[2].split()
        return cls(time.perf_counter(), time.process_time(), (int(fields[11]) + int(fields[12])) / _TICKS_PER_S)

    def percent_since(self, before: "Cpu") -> dict[str, float]:
        """Of one core each."""
        per_s = 100.0 / (self.at_s - before.at_s)
        return {
            "server_cpu_percent": round(per_s * (self.server_s - before.server_s)),
            "operator_cpu_percent": round(per_s * (self.operator_s - before.operator_s)),
        }


@contextlib.asynccontextmanager
async def run_operator(served: Served, time_: clock.Clock, *arguments: str) -> AsyncIterator[int]:
    """The process of the operator, while it runs."""
    async with embedded_server.HttpServer(served, time_) as listening:
        with tempfile.TemporaryDirectory() as directory:
            kubeconfig = Path(directory, "kubeconfig")
            kubeconfig.write_text(json.dumps(_configure(listening.url)))
            words = ["--kubeconfig", str(kubeconfig), "--no-leader-elect", "--metrics-address="]
            words += ["--kube-api-qps=0", f"--concurrency={CONCURRENCY}"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "windlass", "operator", *words, *arguments, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                yield process.pid
                if process.returncode is not None:
                    raise SystemExit(f"openshift: the operator ended with {process.returncode}")
            finally:
                process.terminate()
                await process.wait()


def read_peak_mb(process: int) -> float:
    """The most memory that a process had so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith("VmHWM:")]
    return round(int(found.split()[1]) / 1024)


def _configure(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "here", "user": {}}],
    }
