"""Bootstrap: whether new instances can be given what they need to join, and the name of the Secret that holds it."""

from dataclasses import dataclass

from windlass.controllers.machine_pool import contract, names
from windlass.controllers.machine_pool.decide import conditions
from windlass.controllers.machine_pool.facts import Condition, External, Missing, Pool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of the pool's bootstrap data."""

    created: bool | None
    data_secret_name: str | None
    condition: Condition | None = None
    """None: it stays as it was."""
    problem: str = ""


def judge(pool: Pool, config: External | Missing | None, *, rotate: bool) -> Verdict:
    """A name that a user set is ready for use, whatever the config says; otherwise the config's is waited for.

    A name is copied into an empty field only, unless names are to be rotated: then always, over a user's, too.
    """
    if config is None:
        return _judge_without_config(pool)
    if pool.data_secret_name and not pool.is_secret_copied and not rotate:
        return Verdict(True, pool.data_secret_name, conditions.true(names.BOOTSTRAP_READY))
    if isinstance(config, Missing):
        return _stay(pool, problem=describe_missing(config, pool))
    if config.is_deleting:
        return _stay(pool)
    return _judge_config(pool, config, rotate)


def _judge_config(pool: Pool, config: External, rotate: bool) -> Verdict:
    created = contract.is_data_secret_created(config.status, config.contract)
    waiting = conditions.false(names.BOOTSTRAP_READY, "WaitingForDataSecret", conditions.INFO)
    fallback = conditions.true(names.BOOTSTRAP_READY) if created else waiting
    condition = conditions.mirror(contract.ready_condition(config.status), names.BOOTSTRAP_READY, fallback)
    if not created:
        return Verdict(False, pool.data_secret_name, condition)
    named = contract.data_secret_name(config.status)
    if not named:
        where = f"{config.reference.kind} {pool.namespace}/{config.reference.name}"
        problem = f"bootstrap: {where} is ready but has no status.dataSecretName"
        return Verdict(pool.status.bootstrap_created, pool.data_secret_name, condition, problem)
    keep = bool(pool.data_secret_name) and not rotate
    return Verdict(True, pool.data_secret_name if keep else named, condition)


def _judge_without_config(pool: Pool) -> Verdict:
    if pool.data_secret_name is None:
        problem = "bootstrap: neither spec.template.spec.bootstrap.configRef nor .dataSecretName is set"
        return _stay(pool, problem=problem)
    return Verdict(True, pool.data_secret_name, conditions.true(names.BOOTSTRAP_READY))


def _stay(pool: Pool, problem: str = "") -> Verdict:
    return Verdict(pool.status.bootstrap_created, pool.data_secret_name, None, problem)


def describe_missing(missing: Missing, pool: Pool) -> str:
    """What is not there, in words."""
    what = f"{missing.reference.kind} {pool.namespace}/{missing.reference.name}"
    if missing.unlabelled:
        labels = " or ".join(f"{names.GROUP}/{version}" for version in contract.CONTRACTS)
        return f"{what}: CustomResourceDefinition {missing.definition} has no label {labels}"
    if missing.definition:
        return f"{what}: there is no CustomResourceDefinition {missing.definition}"
    return f"{what} not found"
