"""Just enough of a client to set a test bed up and to look at it from tests.

On the standard library on purpose: the test bed shares no code with what is tested on it.
"""

import base64
import copy
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib import parse

Object = dict[str, Any]
T = TypeVar("T")

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_POLL_S = 0.1
_INITIALIZING = "storage is (re)initializing"
_INITIALIZING_S = 30.0


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, call: str, code: int, body: str) -> None:
        super().__init__(f"{call}: {code}: {body[:1000]}")
        self.code = code
        self.body = body


class Api:
    """A user of an API server, as a kubeconfig with a token describes them."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.server: str = cluster["server"]
        self._token: str = config["users"][0]["user"]["token"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=ca))
        # Without proxies: urlopen would look for them in the environment at each request, which may change meanwhile.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
        self._more: dict[str, str] = {}

    def acting_as(self, user: str, group: str = "system:masters") -> "Api":
        """The same server, asked in the name of someone else; as one of that group, whom RBAC denies nothing."""
        other = copy.copy(self)
        other._more = {"Impersonate-User": user, "Impersonate-Group": group}
        return other

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Object:
        """The answer, as JSON. A resource whose definition is new, and which is not served yet, is asked again."""
        deadline_s = time.monotonic() + _INITIALIZING_S
        while True:
            try:
                return self._call(method, path, body, content_type)
            except Refused as error:
                if error.code != 429 or _INITIALIZING not in error.body or time.monotonic() > deadline_s:
                    raise
            time.sleep(_POLL_S)

    def _call(self, method: str, path: str, body: Any, content_type: str) -> Object:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, **self._more}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=30) as response:
                found: Object = json.load(response)
        except urllib.error.HTTPError as error:
            raise Refused(f"{method} {path}", error.code, error.read().decode(errors="replace")) from None
        return found

    def get(self, path: str) -> Object:
        return self.call("GET", path)

    def find(self, path: str) -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except Refused as error:
            if error.code != 404:
                raise
            return None

    def items(self, path: str, **selectors: str) -> list[Object]:
        """A list; `labelSelector` and `fieldSelector` narrow it."""
        items: list[Object] = self.get(f"{path}?{parse.urlencode(selectors)}")["items"]
        return items

    def add(self, body: Object) -> Object:
        """Create an object at the place that its own kind and namespace say."""
        return self.call("POST", path_of(body), body)

    def merge(self, path: str, patch: Object) -> Object:
        return self.call("PATCH", path, patch, MERGE)

    def delete(self, path: str) -> None:
        self.call("DELETE", path)


def path_of(body: Object) -> str:
    """The collection that an object belongs to. Enough for the kinds used here: their plurals end in s or es."""
    version, namespace, kind = body["apiVersion"], body["metadata"].get("namespace"), body["kind"].lower()
    root = "/api/" if version == "v1" else "/apis/"
    return f"{root}{version}/{f'namespaces/{namespace}/' if namespace else ''}{kind}{'es' if kind[-1] == 's' else 's'}"


_NOT_YET = frozenset({404, 429, 500, 502, 503, 504})
"""Answers for an object that is still to come, and of a server that starts or has too much to do."""


def wait_for(
    what: str,
    look: Callable[[], T],
    until: Callable[[T], object] = bool,
    within_s: float = 120.0,
    poll_s: float = _POLL_S,
) -> T:
    """What is seen, as soon as it is what is waited for; otherwise `TimeoutError`, with what was seen last.

    A look that the server refuses because the object is not there yet is one at which nothing was seen.
    """
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            seen = look()
            if until(seen):
                return seen
            last = repr(seen)
        except Refused as error:
            if error.code not in _NOT_YET:
                raise
            last = str(error)
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {within_s:g} s: {what}; last seen: {last:.2000}")
        time.sleep(poll_s)
