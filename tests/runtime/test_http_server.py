import aiohttp
import prometheus_client
import pytest

from windlass import errors
from windlass.runtime import health, http_server
from windlass.runtime.health import Health


async def get(port: int, path: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text(), answer.headers["Content-Type"]


async def test_health_is_asked_at_every_path_and_complaints_are_told() -> None:
    trouble = {"live": "", "ready": ""}
    state = Health({"loop": lambda: trouble["live"]}, {"informers": lambda: trouble["ready"]})
    app = health.make_health_app(state, prometheus_client.CollectorRegistry())

    async with http_server.serve("127.0.0.1:0", app) as port:
        for path in (*health.LIVE_PATHS, health.READY_PATH):
            assert (await get(port, path))[:2] == (200, "ok")
        trouble["ready"] = "pods not synced"
        assert (await get(port, "/healthz"))[0] == 200
        assert (await get(port, "/readyz"))[:2] == (500, "informers: pods not synced\n")
        trouble["live"] = "stuck"
        assert (await get(port, "/livez"))[:2] == (500, "loop: stuck\n")
        assert (await get(port, "/readyz"))[1] == "loop: stuck\ninformers: pods not synced\n"


async def test_metrics_are_served_as_prometheus_wants_them() -> None:
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("windlass_turns", "Turns of the loop.", registry=registry).inc(3)

    async with http_server.serve("127.0.0.1:0", health.make_health_app(Health(), registry)) as port:
        status, text, kind = await get(port, "/metrics")
    assert status == 200
    assert "windlass_turns_total 3.0" in text
    assert kind.startswith("text/plain")


@pytest.mark.parametrize("address", ["", "8085", "host:", "host:http", "host:٣"])
async def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(errors.InvalidInput, match="expected host:port"):
        async with http_server.serve(address, health.make_health_app(Health(), prometheus_client.CollectorRegistry())):
            pass


async def test_a_port_that_cannot_be_is_named() -> None:
    with pytest.raises(errors.InvalidInput, match="found port 99999"):
        async with http_server.serve(
            "127.0.0.1:99999", health.make_health_app(Health(), prometheus_client.CollectorRegistry())
        ):
            pass


async def test_an_address_that_is_taken_is_named() -> None:
    app = health.make_health_app(Health(), prometheus_client.CollectorRegistry())
    async with http_server.serve("127.0.0.1:0", app) as port:
        other = health.make_health_app(Health(), prometheus_client.CollectorRegistry())
        with pytest.raises(errors.InvalidInput, match=f"127.0.0.1:{port}"):
            async with http_server.serve(f"127.0.0.1:{port}", other):
                pass
