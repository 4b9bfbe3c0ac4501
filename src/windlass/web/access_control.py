"""Access control of the dashboard: loopback only, or a bearer token with a session cookie.

On loopback every local user may read, as with `kubectl port-forward`, but no other site through the user's browser: a
name that resolves to 127.0.0.1 (DNS rebinding) is not a loopback name. Elsewhere a token is required, as
`Authorization: Bearer …` or by the cookie that the page gets for it. The cookie is derived from the token, so that it
survives a restart and is void once the token has changed.
"""

import hashlib
import hmac
import time
from dataclasses import dataclass
from pathlib import Path

from windlass import errors

COOKIE = "windlass-dashboard"
COOKIE_MAX_AGE_S = 12 * 3600
MIN_TOKEN_LENGTH = 16
"""Least number of characters of a token."""

_SCHEME = "bearer "
_CONTEXT = b"windlass dashboard "


@dataclass(frozen=True, slots=True)
class LoopbackAccess:
    """All users of this machine, and no others."""


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """Holders of the token in a file. The file is read for every request, because Secrets are updated in place."""

    file: Path | None = None
    given: str = ""
    """The token itself, instead of a file."""

    def read(self) -> str:
        """The token. InvalidInput if the file cannot be read, or the token is too short."""
        if self.file is None:
            return self.given
        try:
            found = self.file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InvalidInput(f"--dashboard-token-file {self.file}: cannot be read: {error}") from error
        if len(found) < MIN_TOKEN_LENGTH:
            accepted = f"found {len(found)} characters, expected at least {MIN_TOKEN_LENGTH}"
            raise errors.InvalidInput(f"--dashboard-token-file {self.file}: {accepted}")
        return found

    def is_authorized(self, authorization: str, cookie: str, now_s: float) -> bool:
        """Does the header or the cookie prove knowledge of the token? Compared in constant time."""
        token = self.read()
        scheme, offered = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :]
        if scheme.lower() == _SCHEME and _equal(offered.strip(), token):
            return True
        until, _, proof = cookie.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) < 19):
            return False
        return _equal(proof, _sign(token, until)) and now_s < int(until)

    def make_cookie(self, now_s: float) -> str:
        """A signed cookie that proves knowledge of the token until it expires."""
        until = str(int(now_s) + COOKIE_MAX_AGE_S)
        return f"{until}.{_sign(self.read(), until)}"


AccessPolicy = LoopbackAccess | TokenAccess


def now_s() -> float:
    """The wall clock: cookies outlive the process."""
    return time.time()


def _sign(token: str, until: str) -> str:
    return hmac.new(token.encode(), _CONTEXT + until.encode(), hashlib.sha256).hexdigest()


def _equal(one: str, other: str) -> bool:
    """Compare in constant time. Bytes of a header that are no UTF-8 arrive as lone surrogates; no token has any."""
    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))
