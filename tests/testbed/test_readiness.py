"""`windlass operator` as a process on a server that serves none of the kinds it looks after: it says so, everywhere."""

import urllib.error
import urllib.request
from pathlib import Path

from testbed import api
from tests.e2e import autoscaler_process, operator_process
from windlass.controllers.operator_process import CONTROLLERS

NAMES = [name for name, _ in CONTROLLERS]
EVENTS = "/api/v1/namespaces/default/events"


def _ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def test_kinds_that_are_not_served_are_told_of_by_readiness_log_and_event(
    real_api_server: Path, tmp_path: Path
) -> None:
    server, port, log = api.Api(real_api_server), autoscaler_process.free_port(), tmp_path / "log"
    flags = ("--leader-elect-namespace=default", "--leader-elect-name=readiness")
    address = f"127.0.0.1:{port}"

    def told() -> dict[str, str]:
        selector = "involvedObject.kind=Lease,involvedObject.name=readiness"
        found = server.items(EVENTS, fieldSelector=selector)
        return {item["message"].partition(":")[0]: item["reason"] for item in found}

    with operator_process.run(real_api_server, log, ",".join(NAMES), *flags, metrics_address=address):
        api.wait_for("each has an event", told, lambda seen: seen == dict.fromkeys(NAMES, "ControllerNotReady"))
        status, text = _ask(port, "/readyz")
        assert status == 500
        assert [name for name in NAMES if f"{name} failed" not in text and name not in text] == []
        assert "API group cluster.x-k8s.io: expected v1beta2 or v1beta1, the server serves none" in text
        assert _ask(port, "/healthz")[0] == 200
    lines = log.read_text()
    assert [name for name in NAMES if f"controller not ready: controller={name} reason=" not in lines] == []
