"""Operating: controllers as a process, as a ServiceAccount with its own rights and no others; and what they ask for."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from testbed import openshift, parts
from testbed.bed import Bed
from tests.e2e.gateway import Gateway


@contextlib.contextmanager
def entitled(bed: Bed, directory: Path, namespace: str, account: str) -> Iterator[tuple[Path, Gateway]]:
    """The kubeconfig of a ServiceAccount, and what it asks for. It has to have the right to all of it."""
    with Gateway(bed.site.server, str(bed.site.files.ca)) as gateway:
        token, url = openshift.token(bed.api, namespace, account), f"http://127.0.0.1:{gateway.port}"
        yield openshift.write_kubeconfig(directory / f"{account}.kubeconfig", bed.kubeconfig, token, url), gateway
    assert gateway.calls != []
    assert [call for call in gateway.calls if call.status in (401, 403)] == [], f"{account} lacks a right"


@contextlib.contextmanager
def operating(
    bed: Bed, directory: Path, controllers: str, namespace: str, account: str, *flags: str, metrics_address: str = ""
) -> Iterator[Gateway]:
    """Controllers at work as a ServiceAccount; and what they ask for."""
    log = directory / f"{account}.log"
    with (
        entitled(bed, directory, namespace, account) as (kubeconfig, gateway),
        run(kubeconfig, log, controllers, *flags, metrics_address=metrics_address),
    ):
        yield gateway


@contextlib.contextmanager
def run(kubeconfig: Path, log: Path, controllers: str, *flags: str, metrics_address: str = "") -> Iterator[None]:
    """Controllers as a process that ends as it is asked to."""
    command = [sys.executable, "-m", "windlass", "operator", "--controllers", controllers]
    # Workload clusters of the bed are on a loopback address.
    command += ["--kubeconfig", str(kubeconfig), "--metrics-address", metrics_address]
    command += ["--machine-pool-allow-insecure-kubeconfigs", *flags]
    with log.open("w") as lines:
        process = subprocess.Popen(command, stderr=lines, env={**os.environ, **parts.IMPORTABLE})
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(90)
        print(log.read_text()[-6000:])
    assert code == 0
    assert "Traceback" not in log.read_text()
