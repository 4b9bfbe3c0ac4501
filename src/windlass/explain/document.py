"""Documents: accounts as JSON, and read back. Times are seconds since the epoch, amounts in each resource's own unit:
`cpu` in millicores, memory and storage in bytes, everything else in pieces.
"""

from typing import TypeVar

import msgspec

from windlass.errors import InvalidInput
from windlass.explain.cluster import ClusterAccount
from windlass.explain.groups import GroupAccount
from windlass.explain.nodes import NodeAccount
from windlass.explain.pods import PodAccount

Account = PodAccount | NodeAccount | GroupAccount | ClusterAccount
T = TypeVar("T", PodAccount, NodeAccount, GroupAccount, ClusterAccount)


def write(account: Account, *, indented: bool = False) -> bytes:
    """JSON; indented for people."""
    found = msgspec.json.encode(account)
    return msgspec.json.format(found, indent=2) if indented else found


def read(kind: type[T], text: bytes) -> T:
    """An account from its JSON. InvalidInput if it is none, as from a server of another version."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"what was answered is no {kind.__name__}: {error}") from error
