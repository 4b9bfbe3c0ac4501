"""Infrastructure: whether the instances are managed, which ones there are, and how many there should be."""

import dataclasses
from dataclasses import dataclass

from windlass.controllers.machine_pool import contract, names
from windlass.controllers.machine_pool.decide import conditions
from windlass.controllers.machine_pool.decide.bootstrap import describe_missing
from windlass.controllers.machine_pool.facts import Condition, External, Missing, Pool

INVALID_CONFIGURATION = "InvalidConfiguration"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of the pool's infrastructure."""

    provisioned: bool | None
    provider_ids: tuple[str, ...]
    replicas: int | None
    condition: Condition | None = None
    """None: it stays as it was."""
    problem: str = ""
    failure: tuple[str, str] = ("", "")
    """(reason, message), if it can never be well again."""
    repeated: tuple[str, ...] = ()
    """Provider IDs that the list has more than once."""
    has_empty: bool = False
    """The list has a provider ID that is no text at all."""


def judge(pool: Pool, infrastructure: External | Missing) -> Verdict:
    """Provider IDs and replicas are copied from infrastructure that is ready."""
    stay = Verdict(pool.status.infrastructure_provisioned, pool.provider_ids, pool.status.replicas)
    if isinstance(infrastructure, Missing):
        return _judge_missing(pool, infrastructure, stay)
    if infrastructure.is_deleting:
        return stay
    provisioned = contract.is_provisioned(infrastructure.status, infrastructure.contract)
    waiting = conditions.false(names.INFRASTRUCTURE_READY, "WaitingForInfrastructure", conditions.INFO)
    fallback = conditions.true(names.INFRASTRUCTURE_READY) if provisioned else waiting
    ready = contract.ready_condition(infrastructure.status)
    stay = dataclasses.replace(
        stay, provisioned=provisioned, condition=conditions.mirror(ready, names.INFRASTRUCTURE_READY, fallback)
    )
    return _copy(pool, infrastructure, stay) if provisioned else stay


def _copy(pool: Pool, infrastructure: External, stay: Verdict) -> Verdict:
    listed = contract.provider_ids(infrastructure.spec)
    ids = tuple(dict.fromkeys(each for each in listed if each))
    told = contract.replicas(infrastructure.status)
    repeated = tuple(each for each in ids if listed.count(each) > 1) if len(ids) < len(listed) else ()
    found = dataclasses.replace(stay, repeated=repeated, has_empty="" in listed)
    if not ids and told:
        return dataclasses.replace(found, replicas=told)  # instances are there, their names are still to come
    if not ids and told is None and pool.replicas != 0:
        return found  # nothing was said: an empty list here is no order to forget every node
    return dataclasses.replace(found, provider_ids=ids, replicas=len(ids) if told is None else told)


def _judge_missing(pool: Pool, missing: Missing, stay: Verdict) -> Verdict:
    problem = f"infrastructure: {describe_missing(missing, pool)}"
    if missing.definition:
        message = describe_missing(missing, pool)
    else:
        message = f"could not find infra reference of kind {missing.reference.kind} with name {missing.reference.name}"
    condition = conditions.false(names.INFRASTRUCTURE_READY, "IncorrectExternalRef", conditions.ERROR, message)
    failure = ("", "")
    if pool.status.infrastructure_provisioned and not missing.definition:
        what = f"{missing.reference.kind} {pool.namespace}/{missing.reference.name}"
        gone = f"MachinePool infrastructure resource {what} has been deleted after being ready"
        failure = (INVALID_CONFIGURATION, gone)
    return dataclasses.replace(stay, condition=condition, problem=problem, failure=failure)
