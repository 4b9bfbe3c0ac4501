"""Every controller, by the name that `windlass operator --controllers` takes. A new one is one line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from windlass import errors
from windlass.controllers import controller, eks_anywhere, lattice, machine_pool
from windlass.controllers.eks_anywhere import settings as eks_anywhere_settings
from windlass.controllers.lattice import settings as lattice_settings
from windlass.controllers.machine_pool import hooks as machine_pool_hooks
from windlass.controllers.machine_pool import settings as machine_pool_settings
from windlass.controllers.openshift import cluster_autoscaler, machine_autoscaler, machineset_sync
from windlass.controllers.openshift.cluster_autoscaler import hooks as cluster_autoscaler_hooks
from windlass.controllers.openshift.cluster_autoscaler import settings as cluster_autoscaler_settings
from windlass.controllers.openshift.machine_autoscaler import hooks as machine_autoscaler_hooks
from windlass.controllers.openshift.machine_autoscaler import settings as machine_autoscaler_settings
from windlass.controllers.openshift.machineset_sync import settings as machineset_sync_settings
from windlass.controllers.webhooks import reviewing


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of every controller."""

    machine_pool: machine_pool_settings.Settings = field(default_factory=machine_pool_settings.Settings)
    eks_anywhere: eks_anywhere_settings.Settings = field(default_factory=eks_anywhere_settings.Settings)
    lattice: lattice_settings.Settings = field(default_factory=lattice_settings.Settings)
    cluster_autoscaler: cluster_autoscaler_settings.Settings = field(
        default_factory=cluster_autoscaler_settings.Settings
    )
    machine_autoscaler: machine_autoscaler_settings.Settings = field(
        default_factory=machine_autoscaler_settings.Settings
    )
    machineset_sync: machineset_sync_settings.Settings = field(default_factory=machineset_sync_settings.Settings)


Make = Callable[[controller.Site, Settings], controller.Controller]

EVERY: tuple[tuple[str, Make], ...] = (
    ("machine_pool", lambda site, settings: machine_pool.make(site, settings.machine_pool)),
    ("eks_anywhere", lambda site, settings: eks_anywhere.make(site, settings.eks_anywhere)),
    ("lattice", lambda site, settings: lattice.make(site, settings.lattice)),
    ("cluster_autoscaler", lambda site, settings: cluster_autoscaler.make(site, settings.cluster_autoscaler)),
    ("machine_autoscaler", lambda site, settings: machine_autoscaler.make(site, settings.machine_autoscaler)),
    ("machineset_sync", lambda site, settings: machineset_sync.make(site, settings.machineset_sync)),
)


def check(names: str) -> list[str]:
    """Names of controllers, separated by commas. InvalidInput if there is none of a name, or no name at all."""
    known = [name for name, _ in EVERY]
    wanted = list(dict.fromkeys(name for part in names.split(",") if (name := part.strip().replace("-", "_"))))
    for name in wanted or [""]:
        if name not in known:
            raise errors.InvalidInput(f"controllers: found {name!r}, expected some of {', '.join(known)}")
    return wanted


def make(names: str, site: controller.Site, settings: Settings) -> list[controller.Controller]:
    """Controllers by their names, separated by commas."""
    known = dict(EVERY)
    return [known[name](site, settings) for name in check(names)]


Hooks = Mapping[str, reviewing.Hook]

HOOKS: tuple[tuple[str, Callable[[Settings], Hooks]], ...] = (
    ("machine_pool", lambda _: machine_pool_hooks.HOOKS),
    ("cluster_autoscaler", lambda settings: cluster_autoscaler_hooks.make(settings.cluster_autoscaler)),
    ("machine_autoscaler", lambda _: machine_autoscaler_hooks.HOOKS),
)
"""The webhooks of every controller that has some."""


def hooks(names: str, settings: Settings) -> Hooks:
    """The webhooks of controllers by their names, separated by commas; by path."""
    wanted = check(names)
    return {path: hook for name, make in HOOKS if name in wanted for path, hook in make(settings).items()}
