"""`cluster-autoscaler-operator`: OpenShift's operator under its own name, with its arguments and environment variables.

A Deployment of OpenShift's operator whose image is replaced runs windlass' controllers `cluster_autoscaler` and
`machine_autoscaler`, with metrics and webhooks where OpenShift's Service and ServiceMonitor look for them.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from windlass import cli, errors
from windlass.cli import error_messages

PROGRAM = "cluster-autoscaler-operator"

LEASE = f"{PROGRAM}-leader"
"""The Lease of OpenShift's operator. The two never act at the same time, because both compete for it."""

NAMESPACE = "openshift-machine-api"

_CERTIFICATE_DIRECTORY = "/etc/cluster-autoscaler-operator/tls"

_FIXED = (
    ("WATCH_NAMESPACE", NAMESPACE),
    ("CLUSTER_AUTOSCALER_NAMESPACE", NAMESPACE),
    ("CLUSTER_AUTOSCALER_NAME", "default"),
)
"""Variables with the only accepted value."""

_LOG_FLAGS = frozenset(
    ("alsologtostderr", "logtostderr", "stderrthreshold", "vmodule", "log_backtrace_at", "log_dir", "log_file")
)
"""klog's flags, which have no effect: the log is written to standard error."""

_SWITCHES = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
"""Values of a switch, as Go's strconv.ParseBool reads them, in lower case."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as `cluster-autoscaler-operator` and exit."""
    with error_messages.one_line_errors():
        words = operator_words(sys.argv[1:] if arguments is None else arguments, os.environ)
    cli.main(words)


def operator_words(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command line of `windlass` that does the same. InvalidInput for a value that windlass cannot serve."""
    for name, accepted in _FIXED:
        if environment.get(name, accepted) != accepted:
            raise errors.InvalidInput(f"{name}: found {environment[name]!r}, expected {accepted!r}")
    return [
        "operator",
        "--controllers=cluster_autoscaler,machine_autoscaler",
        *_election(environment),
        *_addresses(environment),
        *(_verbosity(word) for word in _own_flags(arguments)),
    ]


def _election(environment: Mapping[str, str]) -> Iterator[str]:
    if not _is_on(environment, "LEADER_ELECTION"):
        yield "--no-leader-elect"
    yield f"--leader-elect-namespace={environment.get('LEADER_ELECTION_NAMESPACE', NAMESPACE)}"
    yield f"--leader-elect-name={environment.get('LEADER_ELECTION_ID', LEASE)}"


def _addresses(environment: Mapping[str, str]) -> Iterator[str]:
    """Metrics have the webhooks' certificate: OpenShift's ServiceMonitor reads them over TLS."""
    directory = environment.get("WEBHOOKS_CERT_DIR", _CERTIFICATE_DIRECTORY)
    yield f"--metrics-address=:{environment.get('METRICS_PORT', '8080')}"
    yield f"--metrics-cert-dir={directory}"
    if _is_on(environment, "WEBHOOKS_ENABLED"):
        yield f"--webhook-address=:{environment.get('WEBHOOKS_PORT', '8443')}"
        yield f"--webhook-cert-dir={directory}"


def _is_on(environment: Mapping[str, str], name: str) -> bool:
    found = environment.get(name, "true")
    if found.lower() not in _SWITCHES:
        raise errors.InvalidInput(f"{name}: found {found!r}, expected true or false")
    return _SWITCHES[found.lower()]


def _own_flags(arguments: Sequence[str]) -> Iterator[str]:
    """Arguments without klog's flags, which Go accepts with one hyphen or two."""
    for word in arguments:
        if word.lstrip("-").partition("=")[0] not in _LOG_FLAGS:
            yield word


def _verbosity(word: str) -> str:
    name, equals, value = word.lstrip("-").partition("=")
    return f"--verbosity={value}" if (name, equals) == ("v", "=") else word
