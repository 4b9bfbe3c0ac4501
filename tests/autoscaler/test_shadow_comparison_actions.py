"""The other's events on an API server, as a shadow hears them."""

import asyncio
from typing import Any

from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.autoscaler import shadow_comparison
from windlass.autoscaler.shadow_comparison import AutoscalerEvent
from windlass.kube import client, resources

EVENTS = resources.EVENTS.untyped()


class Notes:
    """Writes down what is heard."""

    def __init__(self) -> None:
        self.heard: list[AutoscalerEvent] = []

    def on_event(self, autoscaler_event: AutoscalerEvent) -> None:
        self.heard.append(autoscaler_event)


def event(name: str, kind: str, about: str, reason: str, message: str, component: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": kind, "name": about, **({"namespace": "default"} if kind == "Pod" else {})},
        "reason": reason,
        "message": message,
        "type": "Normal",
        "source": {"component": component},
    }


def test_events_of_the_other_are_heard_and_those_of_third_parties_are_not() -> None:
    time, notes = clock.VirtualClock(), Notes()
    api = client.Client(
        embedded_server.InProcessTransport(server.Server(time), time), time, client.ClientSettings(qps=0)
    )
    step = "pod triggered scale-up: [{MachineDeployment/default/md-a 1->6 (max: 10)}]"

    async def script() -> None:
        await api.create(EVENTS, event("one", "Pod", "p", "TriggeredScaleUp", step, "cluster-autoscaler"))
        listening_task = asyncio.create_task(shadow_comparison.watch_events(api, notes))
        await time.sleep(1.0)
        await api.create(EVENTS, event("two", "Pod", "p", "FailedScheduling", "no", "default-scheduler"))
        await api.create(EVENTS, event("three", "Node", "n", "ScaleDown", "marked", "cluster-autoscaler"))
        await time.sleep(1.0)
        listening_task.cancel()
        await asyncio.gather(listening_task, return_exceptions=True)

    time.run(script())
    assert notes.heard == [
        AutoscalerEvent("default/p", "TriggeredScaleUp", step),
        AutoscalerEvent("n", "ScaleDown", "marked"),
    ]
    assert notes.heard[0].steps == {"MachineDeployment/default/md-a": (1, 6)}
