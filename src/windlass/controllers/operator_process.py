"""Operator process: the registry of controllers, their webhooks, leader election, health and metrics endpoints.

`CONTROLLERS` and `WEBHOOKS` list every controller by the name that `windlass operator --controllers` takes. Controllers
run on the leader only; webhooks are served by every replica, over TLS with a certificate that may be rotated.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from windlass import clock, errors, klog
from windlass.controllers import admission, controller_interface, controller_runtime
from windlass.controllers.eks_anywhere import controller, model
from windlass.controllers.lattice import controller as lattice_controller
from windlass.controllers.lattice import model as lattice_settings
from windlass.controllers.machine_pool import controller as machine_pool_controller
from windlass.controllers.machine_pool import model as machine_pool_settings
from windlass.controllers.machine_pool import webhook
from windlass.controllers.openshift.cluster_autoscaler import controller as cluster_autoscaler_controller
from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler_settings
from windlass.controllers.openshift.cluster_autoscaler import webhook as cluster_autoscaler_hooks
from windlass.controllers.openshift.machine_autoscaler import controller as machine_autoscaler_controller
from windlass.controllers.openshift.machine_autoscaler import model as machine_autoscaler_settings
from windlass.controllers.openshift.machine_autoscaler import webhook as machine_autoscaler_hooks
from windlass.controllers.openshift.machineset_sync import controller as machineset_sync_controller
from windlass.controllers.openshift.machineset_sync import model as machineset_sync_settings
from windlass.runtime import health, http_server


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The settings of every controller."""

    machine_pool: machine_pool_settings.MachinePoolSettings = field(
        default_factory=machine_pool_settings.MachinePoolSettings
    )
    eks_anywhere: model.EksAnywhereSettings = field(default_factory=model.EksAnywhereSettings)
    lattice: lattice_settings.LatticeSettings = field(default_factory=lattice_settings.LatticeSettings)
    cluster_autoscaler: cluster_autoscaler_settings.ClusterAutoscalerSettings = field(
        default_factory=cluster_autoscaler_settings.ClusterAutoscalerSettings
    )
    machine_autoscaler: machine_autoscaler_settings.MachineAutoscalerSettings = field(
        default_factory=machine_autoscaler_settings.MachineAutoscalerSettings
    )
    machineset_sync: machineset_sync_settings.MachineSetSyncSettings = field(
        default_factory=machineset_sync_settings.MachineSetSyncSettings
    )


ControllerFactory = Callable[[controller_runtime.ControllerContext, OperatorSettings], controller_interface.Controller]

CONTROLLERS: tuple[tuple[str, ControllerFactory], ...] = (
    ("machine_pool", lambda site, settings: machine_pool_controller.new_controller(site, settings.machine_pool)),
    ("eks_anywhere", lambda site, settings: controller.new_controller(site, settings.eks_anywhere)),
    ("lattice", lambda site, settings: lattice_controller.new_controller(site, settings.lattice)),
    (
        "cluster_autoscaler",
        lambda site, settings: cluster_autoscaler_controller.new_controller(site, settings.cluster_autoscaler),
    ),
    (
        "machine_autoscaler",
        lambda site, settings: machine_autoscaler_controller.new_controller(site, settings.machine_autoscaler),
    ),
    (
        "machineset_sync",
        lambda site, settings: machineset_sync_controller.new_controller(site, settings.machineset_sync),
    ),
)


def parse_controller_names(names: str) -> list[str]:
    """Names of controllers, separated by commas. InvalidInput if there is none of a name, or no name at all."""
    known = [name for name, _ in CONTROLLERS]
    wanted = list(dict.fromkeys(name for part in names.split(",") if (name := part.strip().replace("-", "_"))))
    for name in wanted or [""]:
        if name not in known:
            raise errors.InvalidInput(f"controllers: found {name!r}, expected some of {', '.join(known)}")
    return wanted


def new_controllers(
    names: str, site: controller_runtime.ControllerContext, settings: OperatorSettings
) -> list[controller_interface.Controller]:
    """Controllers by their names, separated by commas."""
    known = dict(CONTROLLERS)
    return [known[name](site, settings) for name in parse_controller_names(names)]


WebhooksByPath = Mapping[str, admission.Webhook]

WEBHOOKS: tuple[tuple[str, Callable[[OperatorSettings], WebhooksByPath]], ...] = (
    ("machine_pool", lambda _: webhook.WEBHOOKS),
    ("cluster_autoscaler", lambda settings: cluster_autoscaler_hooks.new_webhooks(settings.cluster_autoscaler)),
    ("machine_autoscaler", lambda _: machine_autoscaler_hooks.WEBHOOKS),
)
"""The webhooks of every controller that has some."""


def select_webhooks(names: str, settings: OperatorSettings) -> WebhooksByPath:
    """The webhooks of controllers by their names, separated by commas; by path."""
    wanted = parse_controller_names(names)
    return {path: hook for name, make in WEBHOOKS if name in wanted for path, hook in make(settings).items()}


CERTIFICATE_FILE, KEY_FILE = "tls.crt", "tls.key"

MAX_REVIEW_BYTES = 8 * 2**20
"""An update has the object twice, and an API server takes up to 3 MiB of one."""

_MAX_BODY_BYTES = 2 * MAX_REVIEW_BYTES
"""More than is judged is read, so that it can be denied; beyond this, which no API server sends, it is an error."""


def make_webhook_app(hooks: Mapping[str, admission.Webhook]) -> web.Application:
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    for path, hook in hooks.items():
        app.router.add_post(path, _webhook_handler(hook))
    return app


def _webhook_handler(hook: admission.Webhook) -> http_server.Handler:
    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            if len(body) > MAX_REVIEW_BYTES:
                raise errors.InvalidInput(f"the review has more than {MAX_REVIEW_BYTES} bytes")
            made = admission.handle_review(body, hook)
        except errors.InvalidInput as error:
            return _deny_response(body, str(error))
        except Exception as error:
            klog.report_error(klog.ErrorPlace.WEBHOOK, request.path, "", error)
            return _deny_response(body, "it cannot be judged: an unexpected error, see the operator's log")
        return web.Response(body=made, content_type="application/json")

    return answer


def _deny_response(body: bytes, why: str) -> web.Response:
    made = admission.deny_review(body, why)
    if made is None:
        return web.Response(status=400, text=why)
    return web.Response(body=made, content_type="application/json")


@contextlib.asynccontextmanager
async def serve_webhooks(
    address: str, directory: Path, hooks: Mapping[str, admission.Webhook], time: clock.Clock
) -> AsyncIterator[int]:
    """Serve hooks at `host:port` with the certificate (tls.crt) and key (tls.key) of a directory; gives the port."""
    async with (
        http_server.reloading_ssl_context(find_certificate(directory, "webhook certificate"), time) as context,
        http_server.serve(address, make_webhook_app(hooks), context) as port,
    ):
        yield port


def find_certificate(directory: Path, told: str) -> http_server.CertificateFiles:
    """As cert-manager and Kubernetes' Secrets of type kubernetes.io/tls name them."""
    return http_server.CertificateFiles(directory / CERTIFICATE_FILE, directory / KEY_FILE, told)


@dataclass(frozen=True, slots=True)
class WebhookServer:
    """What is served for admission, and where."""

    address: str
    """host:port."""
    directory: Path
    """With the certificate (tls.crt) and its key (tls.key)."""
    hooks: Mapping[str, admission.Webhook]
    """By path."""


async def run(
    controllers: Sequence[controller_interface.Controller],
    site: controller_runtime.ControllerContext,
    *,
    address: str = "",
    certificate: Path | None = None,
    webhooks: WebhookServer | None = None,
) -> None:
    """Run controllers until cancelled: at once, or if the site has an election while it is won.

    Without an address nothing is served.

    Webhooks are served whether or not this process leads. `certificate`: the directory with that of the address.
    """
    state = health.Health()
    for each in controllers:
        state.ready[each.name] = each.check_ready
    async with contextlib.AsyncExitStack() as served:
        if address:
            files = None if certificate is None else find_certificate(certificate, "--metrics-cert-dir")
            context = await served.enter_async_context(http_server.reloading_ssl_context(files, site.api.clock))
            app = http_server.make_health_app(state, site.metrics.registry)
            await served.enter_async_context(http_server.serve(address, app, context))
        if webhooks is not None:
            await served.enter_async_context(
                serve_webhooks(webhooks.address, webhooks.directory, webhooks.hooks, site.api.clock)
            )
        if site.election is None:
            await _run_controllers(controllers)
        else:
            await site.election.run(lambda: _run_controllers(controllers))


async def _run_controllers(controllers: Sequence[controller_interface.Controller]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in controllers:
            group.create_task(each.run(), name=each.name)
