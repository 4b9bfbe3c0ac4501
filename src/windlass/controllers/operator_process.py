"""Operator process: the registry of controllers, their webhooks, leader election, health and metrics endpoints.

`CONTROLLERS` and `WEBHOOKS` list every controller by the name that `windlass operator --controllers` takes. Controllers
run on the leader only; webhooks are served by every replica, over TLS with a certificate that may be rotated.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from windlass import clock, errors, klog
from windlass.controllers import admission, controller_interface, controller_runtime
from windlass.controllers.eks_anywhere import controller as eks_anywhere_controller
from windlass.controllers.eks_anywhere import model as eks_anywhere_model
from windlass.controllers.lattice import controller as lattice_controller
from windlass.controllers.lattice import model as lattice_model
from windlass.controllers.machine_pool import controller as machine_pool_controller
from windlass.controllers.machine_pool import model as machine_pool_model
from windlass.controllers.machine_pool import webhook as machine_pool_webhook
from windlass.controllers.openshift.cluster_autoscaler import controller as cluster_autoscaler_controller
from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler_model
from windlass.controllers.openshift.cluster_autoscaler import webhook as cluster_autoscaler_webhook
from windlass.controllers.openshift.machine_autoscaler import controller as machine_autoscaler_controller
from windlass.controllers.openshift.machine_autoscaler import model as machine_autoscaler_model
from windlass.controllers.openshift.machine_autoscaler import webhook as machine_autoscaler_webhook
from windlass.controllers.openshift.machineset_sync import controller as machineset_sync_controller
from windlass.controllers.openshift.machineset_sync import model as machineset_sync_model
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.kube.resources import PODS
from windlass.runtime import health, http_server


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The settings of every controller."""

    machine_pool: machine_pool_model.MachinePoolSettings = field(default_factory=machine_pool_model.MachinePoolSettings)
    eks_anywhere: eks_anywhere_model.EksAnywhereSettings = field(default_factory=eks_anywhere_model.EksAnywhereSettings)
    lattice: lattice_model.LatticeSettings = field(default_factory=lattice_model.LatticeSettings)
    cluster_autoscaler: cluster_autoscaler_model.ClusterAutoscalerSettings = field(
        default_factory=cluster_autoscaler_model.ClusterAutoscalerSettings
    )
    machine_autoscaler: machine_autoscaler_model.MachineAutoscalerSettings = field(
        default_factory=machine_autoscaler_model.MachineAutoscalerSettings
    )
    machineset_sync: machineset_sync_model.MachineSetSyncSettings = field(
        default_factory=machineset_sync_model.MachineSetSyncSettings
    )


ControllerFactory = Callable[[controller_runtime.ControllerContext, OperatorSettings], controller_interface.Controller]

CONTROLLERS: tuple[tuple[str, ControllerFactory], ...] = (
    ("machine_pool", lambda context, settings: machine_pool_controller.new_controller(context, settings.machine_pool)),
    ("eks_anywhere", lambda context, settings: eks_anywhere_controller.new_controller(context, settings.eks_anywhere)),
    ("lattice", lambda context, settings: lattice_controller.new_controller(context, settings.lattice)),
    (
        "cluster_autoscaler",
        lambda context, settings: cluster_autoscaler_controller.new_controller(context, settings.cluster_autoscaler),
    ),
    (
        "machine_autoscaler",
        lambda context, settings: machine_autoscaler_controller.new_controller(context, settings.machine_autoscaler),
    ),
    (
        "machineset_sync",
        lambda context, settings: machineset_sync_controller.new_controller(context, settings.machineset_sync),
    ),
)


def parse_controller_names(names: str) -> list[str]:
    """Split a comma-separated list of controller names. InvalidInput if it is empty or a name is unknown."""
    known = [name for name, _ in CONTROLLERS]
    desired = list(dict.fromkeys(name for part in names.split(",") if (name := part.strip().replace("-", "_"))))
    for name in desired or [""]:
        if name not in known:
            raise errors.InvalidInput(f"controllers: found {name!r}, expected some of {', '.join(known)}")
    return desired


async def fill_autoscaler_image(
    names: str, settings: OperatorSettings, api: client.Client, pod: tuple[str, str]
) -> OperatorSettings:
    """The settings, with the image of this process for an autoscaler that it deploys, where none is set.

    `pod` is (namespace, name) of the pod that this process runs in; without a name nothing is read. Images that
    kustomize, Helm or kubectl set thereby reach the autoscaler. InvalidInput if the pod cannot be read.
    """
    enabled = parse_controller_names(names)
    openshift = "cluster_autoscaler" in enabled and not settings.cluster_autoscaler.image
    lattice = "lattice" in enabled and settings.lattice.deploys_autoscaler and not settings.lattice.autoscaler_image
    flags = ["--openshift-autoscaler-image"] * openshift + ["--lattice-autoscaler-image"] * lattice
    if not flags:
        return settings
    image = await _read_image(api, pod, " and ".join(flags)) if pod[1] else cluster_autoscaler_model.FALLBACK_IMAGE
    if openshift:
        filled = dataclasses.replace(settings.cluster_autoscaler, image=image)
        settings = dataclasses.replace(settings, cluster_autoscaler=filled)
    if lattice:
        deployed = dataclasses.replace(settings.lattice, autoscaler_image=image)
        settings = dataclasses.replace(settings, lattice=deployed)
    return settings


async def _read_image(api: client.Client, pod: tuple[str, str], flags: str) -> str:
    namespace, name = pod
    try:
        found = await api.get(PODS.untyped(), name, namespace)
    except kube_errors.KubeError as error:
        raise errors.InvalidInput(f"{flags} is not set, and pod {namespace}/{name} cannot be read: {error}") from error
    image: str = found["spec"]["containers"][0]["image"]
    return image


def new_controllers(
    names: str, context: controller_runtime.ControllerContext, settings: OperatorSettings
) -> list[controller_interface.Controller]:
    """Create the controllers of a comma-separated list."""
    known = dict(CONTROLLERS)
    return [known[name](context, settings) for name in parse_controller_names(names)]


WebhooksByPath = Mapping[str, admission.Webhook]

WEBHOOKS: tuple[tuple[str, Callable[[OperatorSettings], WebhooksByPath]], ...] = (
    ("machine_pool", lambda _: machine_pool_webhook.WEBHOOKS),
    ("cluster_autoscaler", lambda settings: cluster_autoscaler_webhook.new_webhooks(settings.cluster_autoscaler)),
    ("machine_autoscaler", lambda _: machine_autoscaler_webhook.WEBHOOKS),
)
"""Webhooks by controller."""


def select_webhooks(names: str, settings: OperatorSettings) -> WebhooksByPath:
    """Webhooks of a comma-separated list of controllers, by path."""
    desired = parse_controller_names(names)
    return {path: hook for name, make in WEBHOOKS if name in desired for path, hook in make(settings).items()}


CERTIFICATE_FILE, KEY_FILE = "tls.crt", "tls.key"

MAX_REVIEW_BYTES = 8 * 2**20
"""Maximum size of a review. An update contains the object twice, and an object may have 3 MiB."""

_MAX_BODY_BYTES = 2 * MAX_REVIEW_BYTES
"""Maximum request body. Reviews between the two limits are denied with a message; larger bodies are an HTTP error."""


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


def _deny_response(body: bytes, reason: str) -> web.Response:
    made = admission.deny_review(body, reason)
    if made is None:
        return web.Response(status=400, text=reason)
    return web.Response(body=made, content_type="application/json")


@contextlib.asynccontextmanager
async def serve_webhooks(
    address: str, directory: Path, hooks: Mapping[str, admission.Webhook], time: clock.Clock
) -> AsyncIterator[int]:
    """Serve webhooks over TLS at `host:port`; yields the port.

    The directory contains the certificate (tls.crt) and its key (tls.key); both are reloaded when they change.
    """
    async with (
        http_server.reloading_ssl_context(find_certificate(directory, "webhook certificate"), time) as ssl_context,
        http_server.serve(address, make_webhook_app(hooks), ssl_context) as port,
    ):
        yield port


def find_certificate(directory: Path, description: str) -> http_server.CertificateFiles:
    """Certificate files as cert-manager and Secrets of type kubernetes.io/tls name them."""
    return http_server.CertificateFiles(directory / CERTIFICATE_FILE, directory / KEY_FILE, description)


@dataclass(frozen=True, slots=True)
class WebhookServer:
    """Address, certificate and webhooks of the admission server."""

    address: str
    """host:port."""
    directory: Path
    """With the certificate (tls.crt) and its key (tls.key)."""
    hooks: Mapping[str, admission.Webhook]
    """By path."""


async def run(
    controllers: Sequence[controller_interface.Controller],
    context: controller_runtime.ControllerContext,
    *,
    address: str = "",
    certificate: Path | None = None,
    webhooks: WebhookServer | None = None,
) -> None:
    """Run controllers until cancelled; with leader election only while leading.

    Webhooks are served whether or not this process leads. Without `address` neither health nor metrics are served;
    `certificate` is the directory of their TLS certificate.
    """
    state = health.Health()
    for controller in controllers:
        state.ready[controller.name] = controller.check_ready
    async with contextlib.AsyncExitStack() as served:
        if address:
            files = None if certificate is None else find_certificate(certificate, "--metrics-cert-dir")
            ssl_context = await served.enter_async_context(http_server.reloading_ssl_context(files, context.api.clock))
            app = health.make_health_app(state, context.metrics.registry)
            await served.enter_async_context(http_server.serve(address, app, ssl_context))
        if webhooks is not None:
            await served.enter_async_context(
                serve_webhooks(webhooks.address, webhooks.directory, webhooks.hooks, context.api.clock)
            )
        if context.election is None:
            await _run_controllers(controllers, context)
        else:
            await context.election.run(lambda: _run_controllers(controllers, context))


async def _run_controllers(
    controllers: Sequence[controller_interface.Controller], context: controller_runtime.ControllerContext
) -> None:
    async with asyncio.TaskGroup() as group:
        for controller in controllers:
            group.create_task(controller.run(), name=controller.name)
            group.create_task(controller_runtime.ReadinessReporter(context, controller).run())
