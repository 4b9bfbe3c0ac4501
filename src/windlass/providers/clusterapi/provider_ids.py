"""Provider ids: by which a Node and its Machine are known to be one.

Clouds spell the same id in more than one way (`aws:///zone/i-1`, `aws:////i-1`): what follows the last slash is what
counts, except for instances of Azure's scale sets, which are numbered within their set. A Machine without a node has an
id made of its name.
"""

import enum


class Kind(enum.StrEnum):
    """What an id made of a Machine's name begins with."""

    FAILED = "failed-machine-"
    DELETING = "deleting-machine-"
    PENDING = "pending-machine-"


def normalise(provider_id: str) -> str:
    """What two spellings of one id have in common."""
    if provider_id.startswith("azure://") and "virtualMachineScaleSets" in provider_id:
        return provider_id
    return provider_id.rpartition("/")[2]


def make(kind: Kind, namespace: str, name: str) -> str:
    """The id of a Machine without a node. No namespace has an underscore, so the name can be had back."""
    return f"{kind}{namespace}_{name}"


def is_made(provider_id: str) -> bool:
    """Is it made of a Machine's name?"""
    return provider_id.startswith(tuple(Kind))


def find_key(provider_id: str) -> str:
    """`namespace/name` of the Machine that an id was made of."""
    for kind in Kind:
        provider_id = provider_id.removeprefix(kind)
    return provider_id.replace("_", "/", 1)
