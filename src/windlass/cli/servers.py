"""Servers: an autoscaler or a simulation that answers over HTTP, and what it must be shown to be let in."""

import os
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

from windlass import errors

TOKEN = "WINDLASS_TOKEN"
"""The environment's word for a token."""

_WITHIN_S = 60.0
_VISIBLE = f"windlass: --token: others on this machine can read it; rather use --token-file, or {TOKEN}"
_SCHEMES = ("http", "https")
_UNTRUSTED = "its certificate is not trusted; expected --certificate-authority, the certificate of whoever signed it"


class NotFound(errors.WindlassError):
    """There is no such pod, node or group."""


class Unready(errors.InvalidInput):
    """There is an autoscaler, and it has decided nothing yet."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is, and what it is shown and trusted by."""

    address: str
    """Host and port."""
    scheme: str = "http"
    token: str = ""
    certificate_authority: Path | None = None

    @property
    def url(self) -> str:
        """Without a path."""
        return f"{self.scheme}://{self.address}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def tls(self) -> ssl.SSLContext | None:
        """None where the system's own authorities will do. InvalidInput if the file holds no certificate."""
        if self.certificate_authority is None:
            return None
        try:
            return ssl.create_default_context(cafile=str(self.certificate_authority))
        except (OSError, ssl.SSLError) as error:
            found = f"--certificate-authority {self.certificate_authority}: cannot be used: {error}"
            raise errors.InvalidInput(found) from None


def find(
    address: str, token: str | None = None, token_file: Path | None = None, certificate_authority: Path | None = None
) -> Server:
    """The server of HOST:PORT, :PORT, or what a dashboard prints, token and all. InvalidInput if it is none of them."""
    import urllib.parse

    scheme, colon, rest = address.partition("://")
    if not colon:
        scheme, rest = "http" if certificate_authority is None else "https", address
    if scheme not in _SCHEMES:
        raise errors.InvalidInput(f"--address: found {address!r}, accepted are HOST:PORT, http://… and https://…")
    if scheme == "http" and certificate_authority is not None:
        raise errors.InvalidInput(f"--certificate-authority: found {address!r}, expected an address of https://")
    place, _, fragment = rest.partition("#")
    host = place.partition("/")[0]
    given = urllib.parse.parse_qs(fragment).get("token", [""])[0]
    shown = _read_token(token, token_file) or _check_token("--address", given)
    shown = shown or _check_token(TOKEN, os.environ.get(TOKEN, ""))
    return Server(f"127.0.0.1{host}" if host.startswith(":") else host, scheme, shown, certificate_authority)


def fetch(server: Server, path: str) -> bytes:
    """What it says there. NotFound, Unready, or InvalidInput if none answers."""
    import urllib.error
    import urllib.parse
    import urllib.request

    tls = server.tls
    try:
        request = urllib.request.Request(f"{server.url}{urllib.parse.quote(path)}", headers=server.headers)
        with urllib.request.urlopen(request, timeout=_WITHIN_S, context=tls) as answer:
            said: bytes = answer.read()
            return said
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        error.close()
        raise _refusal(server, error.code, text) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise errors.InvalidInput(f"{server.address}: {_UNTRUSTED}: {reason.verify_message}") from None
        raise errors.InvalidInput(f"{server.address}: no autoscaler answers there: {reason}") from None


def _refusal(server: Server, status: int, said: str) -> errors.WindlassError:
    if status == 401:
        what = "another token is needed than this" if server.token else f"a token is needed: --token-file, or {TOKEN}"
        return errors.InvalidInput(f"{server.address}: {what}")
    return {404: NotFound, 503: Unready}.get(status, errors.InvalidInput)(f"{server.address}: {said}")


def _read_token(token: str | None, file: Path | None) -> str:
    if token:
        print(_VISIBLE, file=sys.stderr)
    if file is None:
        return _check_token("--token", token or "")
    if token:
        raise errors.InvalidInput("--token: found --token-file as well, expected one of them")
    try:
        return _check_token(f"--token-file {file}", file.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(f"--token-file {file}: cannot be read: {error}") from None


def _check_token(where: str, token: str) -> str:
    """Nothing that would end the header in which it is sent."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise errors.InvalidInput(f"{where}: found characters that no token has, expected printable ones of ASCII")
    return token
