"""Refusals: why something was not done, as an error of the provider."""

from windlass.engine import facts
from windlass.kube import errors as kube_errors
from windlass.providers import base

CODE = "cloudProviderError"
"""The reason under which users' dashboards know that a provider refused."""


def refuse(message: str) -> base.Refused:
    return base.Refused(facts.InstanceError("Other", CODE, message))


def from_call(error: kube_errors.KubeError) -> base.Refused:
    return refuse(str(error))
