"""REST configuration of an API server: address, TLS and credentials, from a kubeconfig or from within the cluster.

    config = rest_config.load_rest_config(clock.RealClock(), kubeconfig_path, context)
    api = client.Client(config.connect(), clock.RealClock())

A kubeconfig from a Secret is not trusted: files, exec plugins, plain HTTP, proxies, unverified servers and internal
addresses are refused.

HTTP proxy of a URL from the environment, chosen as Go's golang.org/x/net/http/httpproxy does. Pure.

HTTPS_PROXY, HTTP_PROXY   the proxy for https and for http; lower case names count where these are empty
NO_PROXY                  hosts, domains and networks that are reached directly, separated by commas
"""

import base64
import contextlib
import dataclasses
import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib import parse

from windlass import clock, errors, input_files
from windlass.kube import auth, http_transport, kubeconfig, transport

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4-mapped IPv6 addresses."""
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class _Domain:
    suffix: str
    """The domain with a leading dot."""
    port: str
    counts_itself: bool
    """True if the domain itself matches too, not only its subdomains."""


@dataclass(frozen=True, slots=True)
class _Host:
    address: Address
    port: str


@dataclass(frozen=True, slots=True)
class _All:
    """`*`"""


_NoProxyRule = _Domain | _Host | _All | Network


def find_proxy(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy of a URL; None to connect directly."""
    parts = parse.urlsplit(url)
    names = {"https": "HTTPS_PROXY", "http": "HTTP_PROXY"}
    if parts.scheme not in names:
        return None
    if parts.scheme == "http" and environment.get("REQUEST_METHOD"):
        return None
    proxy = _proxy_url(_get_variable(environment, names[parts.scheme]))
    if not proxy:
        return None
    host, port = _split_netloc(parts.netloc.rpartition("@")[2])
    return proxy if _needs_proxy(_to_ascii(host), port or _PORTS[parts.scheme], environment) else None


def _needs_proxy(host: str, port: str, environment: Mapping[str, str]) -> bool:
    address = _read_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    exceptions = _read_exceptions(_get_variable(environment, "NO_PROXY"))
    return not any(_matches(item, host.strip().lower(), port, address) for item in exceptions)


def _matches(exception: _NoProxyRule, host: str, port: str, address: Address | None) -> bool:
    match exception:
        case _All():
            return True
        case _Domain(suffix, desired, counts_itself):
            is_meant = host.endswith(suffix) or (counts_itself and host == suffix[1:])
            return address is None and is_meant and desired in ("", port)
        case _Host(wanted_address, desired):
            return address == wanted_address and desired in ("", port)
    return address is not None and address.version == exception.version and address in exception


def _read_exceptions(text: str) -> Iterator[_NoProxyRule]:
    for part in text.split(","):
        entry = part.strip().lower()
        if entry == "*":
            yield _All()
        elif (network := _read_network(entry)) is not None:
            yield network
        elif entry:
            host, port = _split_entry(entry)
            if (address := _read_address(host)) is not None and "%" not in host:
                yield _Host(address, port)
            elif host:
                suffix = host.removeprefix("*") if host.startswith("*.") else host
                is_name = not suffix.startswith(".")
                yield _Domain(f".{_to_ascii(suffix.removeprefix('.'))}", port, is_name)


def _split_entry(entry: str) -> tuple[str, str]:
    """(host, port) of an entry; (entry, "") where Go's SplitHostPort fails."""
    host, colon, port = entry.rpartition(":")
    if not colon:
        return entry, ""
    if host.startswith("[") and host.endswith("]") and "]" not in host[:-1] and "[" not in host[1:]:
        return host[1:-1], port
    return (entry, "") if ":" in host or "[" in entry or "]" in entry else (host, port)


def _split_netloc(netloc: str) -> tuple[str, str]:
    """(host, port) of a URL, case preserved."""
    if netloc.startswith("["):
        host, _, rest = netloc[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = netloc.partition(":")
    return host, port


def _read_address(host: str) -> Address | None:
    """An IP address; IPv4-mapped IPv6 counts as IPv4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _read_network(entry: str) -> Network | None:
    _, slash, length = entry.partition("/")
    try:
        network = ipaddress.ip_network(entry, strict=False) if slash and length.isdigit() else None
    except ValueError:
        return None
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        first = network.network_address.ipv4_mapped
        return ipaddress.ip_network((first or 0, network.prefixlen - _MAPPED.prefixlen))
    return network


def _to_ascii(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def _get_variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _proxy_url(proxy: str) -> str:
    """The URL of a proxy; `host:port` means http."""
    if not proxy:
        return ""
    try:
        parts = parse.urlsplit(proxy)
    except ValueError:
        return ""
    return proxy if parts.scheme and parts.netloc else f"http://{proxy}"


_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class RestConfig:
    """Server, TLS and credentials."""

    server: str
    tls: http_transport.TlsConfig
    credentials: auth.Credentials
    namespace: str = "default"
    proxy: str | None = None
    blocks_internal_addresses: bool = False
    """True if the kubeconfig is untrusted; then `http_transport.explain_blocked_address` restricts addresses."""

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[transport.Transport]:
        """A transport to the server; its connections are closed at the end of the context."""
        connections = http_transport.HttpTransport(
            self.server, self.tls, self.proxy, is_guarded=self.blocks_internal_addresses
        )
        try:
            yield auth.AuthenticatedTransport(connections, self.credentials)
        finally:
            await connections.aclose()


def load_rest_config(
    time: clock.Clock,
    path: str = "",
    context: str = "",
    *,
    allow_insecure: bool = False,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> RestConfig:
    """The REST config of the given kubeconfig, of KUBECONFIG, of the pod's service account, or of `~/.kube/config`."""
    if not path and not environment.get("KUBECONFIG") and is_in_cluster(environment, service_account):
        return in_cluster_config(time, environment, service_account)
    files = kubeconfig.find_files(path, environment, home or Path.home())
    if not files:
        raise errors.InvalidInput(
            "no cluster: name a kubeconfig, set KUBECONFIG, have a ~/.kube/config, or run in a cluster"
        )
    config = kubeconfig.load(files)
    return context_config(time, config, context, allow_insecure=allow_insecure, environment=environment)


def is_in_cluster(environment: Mapping[str, str], service_account: Path = _SERVICE_ACCOUNT) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def in_cluster_config(
    time: clock.Clock, environment: Mapping[str, str], service_account: Path = _SERVICE_ACCOUNT
) -> RestConfig:
    """REST config from the pod's service account. Its token file is re-read."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = service_account / "namespace"
    return RestConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=http_transport.TlsConfig(_read_file(service_account / "ca.crt", "in-cluster configuration")),
        credentials=auth.FileCredentials(time, token=service_account / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def context_config(
    time: clock.Clock,
    config: kubeconfig.Kubeconfig,
    name: str = "",
    *,
    allow_insecure: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> RestConfig:
    """REST config of a kubeconfig context, by default the current one."""
    where = f"kubeconfig {', '.join(map(str, config.files))}"
    name = name or config.current_context
    if not name:
        raise errors.InvalidInput(f"{where}: no current-context; contexts: {_join_names(config.contexts)}")
    context = _look_up(config.contexts, name, f"{where}: context").entry
    cluster = _look_up(config.clusters, context.cluster, f"{where}: context {name!r}: cluster")
    server = _read_server(cluster, context.cluster)
    tls = _read_tls(cluster, context.cluster, allow_insecure)
    credentials: auth.Credentials = auth.StaticCredentials(auth.ANONYMOUS)
    if context.user:
        user = _look_up(config.users, context.user, f"{where}: context {name!r}: user")
        credentials = _read_user(time, user, context.user, _describe(cluster.entry, tls), environment)
    return RestConfig(
        server=server,
        tls=tls,
        credentials=credentials,
        namespace=context.namespace or "default",
        proxy=_read_proxy(cluster, context.cluster, environment),
    )


def _read_server(cluster: kubeconfig.FileEntry[kubeconfig.Cluster], name: str) -> str:
    server = cluster.entry.server
    if not _is_server(server):
        raise errors.InvalidInput(
            f"kubeconfig {cluster.file}: cluster {name!r}: server: found {server!r:.200}, expected https://host:port"
        )
    return server


def _is_server(server: str) -> bool:
    """True for a URL with a valid host and port."""
    try:
        url = parse.urlsplit(server)
        host, _ = url.hostname or "", url.port
        host.encode("idna")
    except ValueError:  # includes UnicodeError
        return False
    return url.scheme in ("http", "https") and bool(host) and server.isprintable() and " " not in server


def _read_tls(
    cluster: kubeconfig.FileEntry[kubeconfig.Cluster], name: str, allow_insecure: bool
) -> http_transport.TlsConfig:
    section, where = cluster.entry, f"kubeconfig {cluster.file}: cluster {name!r}"
    if section.insecure_skip_tls_verify and not allow_insecure:
        raise errors.InvalidInput(
            f"{where}: insecure-skip-tls-verify: anyone on the way could read and change what we send; "
            "expected certificate-authority, or --insecure-skip-tls-verify for a test cluster"
        )
    if section.insecure_skip_tls_verify:
        return http_transport.TlsConfig(server_name=section.tls_server_name or None, verify=False)
    ca = section.certificate_authority_data
    if ca is None and section.certificate_authority:
        ca = _read_file(cluster.resolve(section.certificate_authority), where)
    tls = http_transport.TlsConfig(ca, section.tls_server_name or None)
    try:
        http_transport.make_ssl_context(tls)
    except (ssl.SSLError, ValueError) as error:
        raise errors.InvalidInput(f"{where}: certificate-authority: {error}") from error
    return tls


def _read_user(
    time: clock.Clock,
    user: kubeconfig.FileEntry[kubeconfig.User],
    name: str,
    cluster: Mapping[str, object],
    environment: Mapping[str, str],
) -> auth.Credentials:
    section, where = user.entry, f"kubeconfig {user.file}: user {name!r}"
    if section.as_ or section.as_uid or section.as_groups or section.as_user_extra:
        raise errors.InvalidInput(f"{where}: as: impersonation is not supported")
    if section.auth_provider is not None:
        raise errors.InvalidInput(f"{where}: auth-provider: no longer part of Kubernetes, use an exec plugin")
    if section.exec is not None:
        return auth.ExecCredentials(auth.make_exec_command(user, environment, cluster), time)
    if section.token_file:
        files = (user.resolve(section.client_certificate), user.resolve(section.client_key))
        pair = files if section.client_certificate else None
        return auth.FileCredentials(time, token=user.resolve(section.token_file), certificate=pair)
    if section.client_certificate and not section.client_certificate_data and not section.token:
        return auth.FileCredentials(
            time, certificate=(user.resolve(section.client_certificate), user.resolve(section.client_key))
        )
    certificate = _read_certificate(user, where)
    if section.token:
        return auth.StaticCredentials(auth.bearer_credential(section.token, certificate))
    if section.username:
        return auth.StaticCredentials(auth.basic_credential(section.username, section.password, certificate))
    return auth.StaticCredentials(auth.Credential(certificate=certificate))


def _read_certificate(user: kubeconfig.FileEntry[kubeconfig.User], where: str) -> transport.Certificate | None:
    found = user.entry
    certificate, key = found.client_certificate_data, found.client_key_data
    if certificate is None and found.client_certificate:
        certificate = _read_file(user.resolve(found.client_certificate), where)
    if key is None and found.client_key:
        key = _read_file(user.resolve(found.client_key), where)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise errors.InvalidInput(f"{where}: client-certificate and client-key: one without the other")
    return transport.Certificate(certificate, key)


def _describe(cluster: kubeconfig.Cluster, tls: http_transport.TlsConfig) -> dict[str, object]:
    """Cluster information for exec plugins."""
    return {
        "server": cluster.server,
        **({"tls-server-name": tls.server_name} if tls.server_name else {}),
        **({"insecure-skip-tls-verify": True} if not tls.verify else {}),
        **({"certificate-authority-data": base64.b64encode(tls.ca).decode()} if tls.ca else {}),
        **({"proxy-url": cluster.proxy_url} if cluster.proxy_url else {}),
    }


def _read_proxy(
    cluster: kubeconfig.FileEntry[kubeconfig.Cluster], name: str, environment: Mapping[str, str]
) -> str | None:
    """The proxy of the kubeconfig, else of the environment."""
    proxy = cluster.entry.proxy_url or find_proxy(cluster.entry.server, environment)
    try:
        scheme = parse.urlsplit(proxy).scheme if proxy else "http"
    except ValueError:
        scheme = ""
    if scheme not in ("http", "https"):
        raise errors.InvalidInput(
            f"kubeconfig {cluster.file}: cluster {name!r}: found a proxy of scheme {scheme!r}, expected http or https"
        )
    return proxy


def _look_up(
    among: Mapping[str, kubeconfig.FileEntry[kubeconfig.T]], name: str, what: str
) -> kubeconfig.FileEntry[kubeconfig.T]:
    if name not in among:
        raise errors.InvalidInput(f"{what}: found {name!r}, expected one of {_join_names(among)}")
    return among[name]


def _join_names(among: Mapping[str, object]) -> str:
    return ", ".join(sorted(among)) or "none"


def _read_file(path: Path, where: str) -> bytes:
    try:
        return input_files.read_bytes(path)
    except OSError as error:
        raise errors.InvalidInput(f"{where}: {path}: {error.strerror}") from error


ALLOW_INSECURE_FLAG = "--machine-pool-allow-insecure-kubeconfigs"


def read_secret_kubeconfig(time: clock.Clock, text: bytes, name: str, *, allow_insecure: bool = False) -> RestConfig:
    """REST config of a kubeconfig from a Secret.

    InvalidInput names what is forbidden, and the setting that would allow it.
    """
    config = kubeconfig.parse(text, name)
    rest_config = context_config(time, config, allow_insecure=True)
    cluster = config.clusters[config.contexts[config.current_context].entry.cluster].entry
    if refusal := _explain_refusal(cluster):
        raise errors.InvalidInput(f"kubeconfig {name}: {refusal}")
    if not allow_insecure and (refusal := _explain_insecure(cluster)):
        raise errors.InvalidInput(f"kubeconfig {name}: {refusal} ({ALLOW_INSECURE_FLAG} allows it)")
    return dataclasses.replace(rest_config, blocks_internal_addresses=not allow_insecure)


def _explain_refusal(cluster: kubeconfig.Cluster) -> str:
    url = parse.urlsplit(cluster.server)
    if "?" in cluster.server or "#" in cluster.server:
        return "server: found a query or a fragment, expected https://host:port"
    if "@" in url.netloc:
        return "server: found a user, expected https://host:port"
    return ""


def _explain_insecure(cluster: kubeconfig.Cluster) -> str:
    url = parse.urlsplit(cluster.server)
    if url.scheme != "https":
        return f"server: found {url.scheme}, expected https"
    if cluster.insecure_skip_tls_verify:
        return "insecure-skip-tls-verify: found true, expected a certificate-authority"
    if cluster.proxy_url:
        return "proxy-url: found one, expected none"
    refusal = http_transport.explain_blocked_address(url.hostname or "")
    return f"server: {refusal}" if refusal else ""
