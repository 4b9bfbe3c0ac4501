"""Names, labels and keys: what they may look like, and how the real server says that they do not."""

import functools
import re
from collections.abc import Callable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_IS_LABEL = re.compile(_LABEL)
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN)
_IS_KEY = re.compile(_KEY)
_IS_VALUE = re.compile(_VALUE)

_BETWEEN = "and must start and end with an alphanumeric character"

Check = Callable[[str], tuple[str, ...]]
"""Complaints about a name; none if it will do."""


def _regex(said: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{said} (e.g. {shown}regex used for validation is '{pattern}')"


@functools.lru_cache(maxsize=4096)
def check_label(name: str) -> tuple[str, ...]:
    """A lower-case RFC 1123 label: a namespace, a container."""
    complaints = ["must be no more than 63 bytes"] if len(name) > 63 else []
    if not _IS_LABEL.fullmatch(name):
        if _IS_SUBDOMAIN.fullmatch(name):
            complaints.append("must not contain dots")
        else:
            said = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_BETWEEN}"
            complaints.append(_regex(said, _LABEL, "my-name", "123-abc"))
    return tuple(complaints)


@functools.lru_cache(maxsize=4096)
def check_subdomain(name: str) -> tuple[str, ...]:
    """A lower-case RFC 1123 subdomain: what most objects are called."""
    complaints = ["must be no more than 253 bytes"] if len(name) > 253 else []
    if not _IS_SUBDOMAIN.fullmatch(name):
        said = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        complaints.append(_regex(said + _BETWEEN, _SUBDOMAIN, "example.com"))
    return tuple(complaints)


@functools.lru_cache(maxsize=4096)
def check_key(key: str) -> tuple[str, ...]:
    """A label's, annotation's or taint's key: a name, with or without a domain in front."""
    prefix, slash, name = key.rpartition("/")
    said = f"must consist of alphanumeric characters, '-', '_' or '.', {_BETWEEN}"
    spelled = _regex(said, _KEY, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        aside = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {spelled}{aside}",)
    complaints = []
    if slash:
        found = check_subdomain(prefix) if prefix else ("must be non-empty",)
        complaints += [f"prefix part {complaint}" for complaint in found]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > 63:
        complaints.append("name part must be no more than 63 bytes")
    if not _IS_KEY.fullmatch(name):
        complaints.append(f"name part {spelled}")
    return tuple(complaints)


@functools.lru_cache(maxsize=4096)
def check_value(value: str) -> tuple[str, ...]:
    """A label's value."""
    complaints = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _IS_VALUE.fullmatch(value):
        said = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        complaints.append(_regex(said + _BETWEEN, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(complaints)
