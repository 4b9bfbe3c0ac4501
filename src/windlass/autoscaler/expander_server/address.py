"""Where the server is: --grpc-expander-url, as gRPC spells its targets."""

import re
from dataclasses import dataclass

from windlass.errors import InvalidInput

PLAIN = "http://"
ACCEPTED = "HOST:PORT, dns:///HOST:PORT or unix:PATH; http://HOST:PORT to do without TLS"

_SCHEMES = ("https://", "dns:///", "passthrough:///", "dns:", "passthrough:")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+):([0-9]{1,5})/?")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and its port, or the path of a socket; and whether what is said there is encrypted."""

    host: str
    port: int = 0
    path: str = ""
    is_encrypted: bool = True

    @property
    def authority(self) -> str:
        """By what name the server is called."""
        if self.path:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """InvalidInput for what is no address."""
    rest, is_encrypted = text.removeprefix(PLAIN), not text.startswith(PLAIN)
    if is_encrypted and text.startswith("unix:") and (path := re.sub("^unix:(//)?", "", text)):
        return Address("localhost", path=path)
    if is_encrypted:
        rest = next((text.removeprefix(one) for one in _SCHEMES if text.startswith(one)), text)
    found = _HOST.fullmatch(rest)
    if found is None or not 0 < int(found[2]) < 65536:
        raise InvalidInput(f"--grpc-expander-url: found {text!r}, expected {ACCEPTED}")
    return Address(found[1].strip("[]"), int(found[2]), is_encrypted=is_encrypted)
