"""Syntax of names, label keys and label values, with the error messages of apimachinery.

Each check returns the errors in the order of `k8s.io/apimachinery/pkg/util/validation`, empty if the text is valid.
Lengths are in bytes of UTF-8, as in Go.
"""

import functools
import re

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_VALUE = f"({_NAME})?"

_EDGES = "and must start and end with an alphanumeric character"

_LABEL_RULE = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_EDGES}"

_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_EDGES}"
)

_NAME_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"

_VALUE_RULE = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"

_LABEL_BYTES, _NAME_BYTES, _SUBDOMAIN_BYTES = 63, 63, 253


@functools.lru_cache(maxsize=4096)
def check_dns_label(name: str) -> tuple[str, ...]:
    """Errors of a lower-case RFC 1123 label, such as the name of a namespace or container."""
    errors = _check_length(name, _LABEL_BYTES)
    if not re.fullmatch(_DNS_LABEL, name):
        if re.fullmatch(_SUBDOMAIN, name):
            errors.append("must not contain dots")
        else:
            errors.append(_regex_error(_LABEL_RULE, _DNS_LABEL, "my-name", "123-abc"))
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def check_dns_subdomain(name: str) -> tuple[str, ...]:
    """Errors of a lower-case RFC 1123 subdomain, such as the name of most objects."""
    errors = _check_length(name, _SUBDOMAIN_BYTES)
    if not re.fullmatch(_SUBDOMAIN, name):
        errors.append(_regex_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def check_qualified_name(key: str) -> tuple[str, ...]:
    """Errors of the key of a label, annotation or taint: a name, optionally after a DNS subdomain and a slash."""
    prefix, slash, name = key.rpartition("/")
    syntax_error = _regex_error(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {syntax_error}{suffix}",)
    errors: list[str] = []
    if slash:
        prefix_errors = check_dns_subdomain(prefix) if prefix else ("must be non-empty",)
        errors += [f"prefix part {error}" for error in prefix_errors]
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors += [f"name part {error}" for error in _check_length(name, _NAME_BYTES)]
    if not re.fullmatch(_NAME, name):
        errors.append(f"name part {syntax_error}")
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def check_label_value(value: str) -> tuple[str, ...]:
    """Errors of the value of a label."""
    errors = _check_length(value, _LABEL_BYTES)
    if not re.fullmatch(_VALUE, value):
        errors.append(_regex_error(_VALUE_RULE, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(errors)


def _check_length(text: str, limit: int) -> list[str]:
    return [] if len(text.encode(errors="surrogatepass")) <= limit else [f"must be no more than {limit} bytes"]


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"
