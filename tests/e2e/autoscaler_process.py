"""`windlass autoscaler` as a process: started, stopped, killed, and asked how it is."""

import datetime
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import emissions
from tests.e2e.node_groups import LABEL
from tests.e2e.polling import wait_for

FLAGS = (
    "--cloud-provider=clusterapi",
    "--leader-elect=false",
    "--scan-interval=2s",
    "--scale-down-unneeded-time=1h",
    "--scale-down-unready-time=1h",
    "--scale-down-delay-after-add=0s",
    "--scale-down-delay-after-failure=1s",
    "--node-delete-delay-after-taint=1s",
    "--balance-similar-node-groups",
    f"--balancing-ignore-label={LABEL}",
    "--balancing-ignore-label=node.cluster.x-k8s.io/group",
    "--ok-total-unready-count=100",
    "--emit-per-nodegroup-metrics",
    "--node-removal-latency-tracking-enabled",
    "--quiet-window-max=5s",
    "-v=4",
)
"""Quick, but leaves nodes alone: groups that are to shrink, or to give up, say so themselves."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks no environment for proxies: tests of other threads change it."""
_ANSWER_S = 30.0
_END_S = 90.0
"""Far more than either takes: the machine may be busy."""


class Live:
    """`windlass autoscaler`, as a process."""

    def __init__(self, kubeconfig: Path, log: Path, flags: Sequence[str] = FLAGS) -> None:
        self.kubeconfig, self.log, self.flags = kubeconfig, log, tuple(flags)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.given: tuple[str, ...] = ()
        """The flags on top of its usual ones, when it was last started."""

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *flags: str, wrap: Callable[[Sequence[str]], list[str]] = list) -> None:
        """Start it; further flags overrule those that it usually has. `wrap` makes the command another one."""
        assert not self.is_alive
        self.port, self.given = free_port(), flags
        command = [sys.executable, "-m", "windlass", "autoscaler", f"--kubeconfig={self.kubeconfig}"]
        command += [f"--address=127.0.0.1:{self.port}", *self.flags, *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        with self.log.open("ab") as output:
            output.write(f"--- started with {' '.join(flags) or 'the usual flags'}\n".encode())
            output.flush()
            self._process = subprocess.Popen(
                wrap(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def kill(self) -> None:
        """As a crash does, after a last look at its metrics."""
        self.metrics()
        self.crash()

    def crash(self) -> None:
        """At once, wherever it is."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As a kubelet does, after a last look at its metrics. What it returns."""
        self.metrics()
        return self._end(signal.SIGTERM)

    def stand_still(self) -> None:
        """As SIGSTOP does: it finds out later that time has passed."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_looped(self, more: int = 1) -> None:
        """So many more loops have ended."""
        began = _count_loops(wait_for("it answers", self.metrics))
        wait_for("the next loop", self.loops, lambda now: now >= began + more)

    def loops(self) -> int:
        return _count_loops(self.metrics())

    def read_log(self) -> str:
        """What it has written up to now; the last line may be half written."""
        return self.log.read_text(errors="replace")

    def find_loops(self, since_s: float, until_s: float = float("inf")) -> list[float]:
        """When loops began, between two moments; all by the monotonic clock."""
        offset_s = time.time() - time.monotonic()
        begun_s = [when - offset_s for when in map(_read_time, _LOOP.findall(self.read_log()))]
        return [at_s for at_s in begun_s if since_s < at_s <= until_s]

    def metrics(self) -> dict[str, float]:
        """Each series and its value; nothing while it does not answer."""
        return scrape(self.port)

    def wait_metric(self, name: str, **labels: str) -> float:
        """The largest value of a metric's series that have these labels, once it is above 0."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}

        def inspect_state() -> float:
            series = ((*key.rstrip("}").partition("{")[::2], value) for key, value in self.metrics().items())
            found = (value for sample, shown, value in series if sample == name and wanted <= set(shown.split(",")))
            return max(found, default=0.0)

        return wait_for(f"{name} {labels or ''} is above 0", inspect_state)

    def get(self, path: str) -> str:
        return get(self.port, path)

    def find(self, path: str) -> str:
        """What it answers; why not, while it does not, or does not know yet of what is asked."""
        try:
            return self.get(path)
        except urllib.error.HTTPError as error:
            with error:
                return str(error)
        except (OSError, http.client.HTTPException) as error:
            return str(error)

    def _signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(_END_S)


_LOOP = re.compile(r"^I(\d{4} \S+) .*\] Starting main loop$", re.MULTILINE)


def _read_time(text: str) -> float:
    """Seconds since 1970 of what klog writes, `1116 05:08:23.296504`, of the last twelve months."""
    now = datetime.datetime.now()
    when = datetime.datetime.strptime(f"{now.year}{text}", "%Y%m%d %H:%M:%S.%f")
    return (when if when <= now else when.replace(year=now.year - 1)).timestamp()


def _count_loops(metrics: Mapping[str, float]) -> int:
    return int(metrics.get('cluster_autoscaler_function_duration_seconds_count{function="main"}', 0.0))


def get(port: int, path: str) -> str:
    with _OPENER.open(f"http://127.0.0.1:{port}{path}", timeout=_ANSWER_S) as answer:
        found: bytes = answer.read()
    return found.decode()


def scrape(port: int) -> dict[str, float]:
    """What a process shows on /metrics, each series and its value; nothing while it does not answer."""
    try:
        lines = get(port, "/metrics").splitlines()
    except (OSError, http.client.HTTPException):
        return {}
    series = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    found = {name: float(value) for name, _, value in series}
    emissions.note_scrape(found)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def write_kubeconfig(path: Path, of_user: Path, port: int) -> Path:
    """The kubeconfig of a user who goes through a gateway."""
    config = json.loads(of_user.read_text())
    config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path
