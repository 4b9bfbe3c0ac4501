"""The contract with providers: where the definition of a kind is, which version of the contract it keeps, what its
objects say.

    v1beta1   bootstrap `status.ready`, infrastructure `status.ready`
    v1beta2   bootstrap `status.initialization.dataSecretCreated`, infrastructure `status.ready`, or, where a provider
              does not say that, `status.initialization.provisioned`

Fields that are of the wrong type count as not there: providers are not ours to mend, and one must not stop the others.
"""

import re
from collections.abc import Mapping
from typing import Any

from windlass.controllers.machine_pool import names, plural

CONTRACTS = ("v1beta2", "v1beta1")
"""The versions of the contract that are kept here, the best first."""

_API_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?", re.ASCII)
_STAGES = {"alpha": 0, "beta": 1, None: 2}

Json = Mapping[str, Any]


def definition_name(group: str, kind: str) -> str:
    """The name that the CustomResourceDefinition of a kind has to have."""
    return f"{plural.pluralize(kind.lower())}.{group}"


def choose_version(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """(version of the contract, version of the API) by the labels of a definition; None if they name none."""
    for contract in CONTRACTS:
        versions = [version for version in labels.get(f"{names.GROUP}/{contract}", "").split("_") if version]
        if versions:
            return contract, max(versions, key=_precedence)
    return None


def _precedence(version: str) -> tuple[int, int, int, str]:
    """As Kubernetes orders versions: v2, v1, v1beta2, v1beta1, v1alpha1, and whatever else there is."""
    match = _API_VERSION.fullmatch(version)
    if match is None:
        return -1, 0, 0, version
    return _STAGES[match[2]], int(match[1]), int(match[3] or 0), version


def is_data_secret_created(status: Json, contract: str) -> bool:
    if contract == "v1beta1":
        return status.get("ready") is True
    return _initialization(status).get("dataSecretCreated") is True


def is_provisioned(status: Json, contract: str) -> bool:
    ready = status.get("ready")
    if ready is None and contract != "v1beta1":
        ready = _initialization(status).get("provisioned")
    return ready is True


def data_secret_name(status: Json) -> str | None:
    return _text(status.get("dataSecretName"))


def provider_ids(spec: Json) -> tuple[str, ...]:
    found = spec.get("providerIDList")
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def replicas(status: Json) -> int | None:
    found = status.get("replicas")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def machine_kind(status: Json) -> str:
    """The kind of the machines of an infrastructure pool; empty if it has none that anyone should know of."""
    return _text(status.get("infrastructureMachineKind")) or ""


def failure(status: Json) -> tuple[str, str]:
    """(reason, message) of a failure that no retry will mend; both empty if there is none."""
    return _text(status.get("failureReason")) or "", _text(status.get("failureMessage")) or ""


def ready_condition(status: Json) -> Json | None:
    """The condition Ready, in whatever spelling the object has it."""
    found = status.get("conditions")
    for condition in found if isinstance(found, list) else ():
        if isinstance(condition, dict) and condition.get("type") == names.READY:
            return condition
    return None


def _initialization(status: Json) -> Json:
    found = status.get("initialization")
    return found if isinstance(found, dict) else {}


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None
