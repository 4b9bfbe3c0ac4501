"""REST configuration of an API server: address, TLS and credentials, from a kubeconfig or from within the cluster.

    config = rest_config.load_rest_config(clock.RealClock(), kubeconfig_path, context)
    api = client.Client(config.connect(), clock.RealClock())

A kubeconfig from a Secret is not trusted: files, exec plugins, plain HTTP, proxies, unverified servers and internal
addresses are refused.
"""

import base64
import contextlib
import dataclasses
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib import parse

from windlass import clock, errors
from windlass.kube import auth, http_proxy, http_transport, kubeconfig, transport

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
    found, where = cluster.entry, f"kubeconfig {cluster.file}: cluster {name!r}"
    if found.insecure_skip_tls_verify and not allow_insecure:
        raise errors.InvalidInput(
            f"{where}: insecure-skip-tls-verify: anyone on the way could read and change what we send; "
            "expected certificate-authority, or --insecure-skip-tls-verify for a test cluster"
        )
    if found.insecure_skip_tls_verify:
        return http_transport.TlsConfig(server_name=found.tls_server_name or None, verify=False)
    ca = found.certificate_authority_data
    if ca is None and found.certificate_authority:
        ca = _read_file(cluster.resolve(found.certificate_authority), where)
    tls = http_transport.TlsConfig(ca, found.tls_server_name or None)
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
    found, where = user.entry, f"kubeconfig {user.file}: user {name!r}"
    if found.as_ or found.as_uid or found.as_groups or found.as_user_extra:
        raise errors.InvalidInput(f"{where}: as: impersonation is not supported")
    if found.auth_provider is not None:
        raise errors.InvalidInput(f"{where}: auth-provider: no longer part of Kubernetes, use an exec plugin")
    if found.exec is not None:
        return auth.ExecCredentials(auth.make_exec_command(user, environment, cluster), time)
    if found.token_file:
        files = (user.resolve(found.client_certificate), user.resolve(found.client_key))
        pair = files if found.client_certificate else None
        return auth.FileCredentials(time, token=user.resolve(found.token_file), certificate=pair)
    if found.client_certificate and not found.client_certificate_data and not found.token:
        return auth.FileCredentials(
            time, certificate=(user.resolve(found.client_certificate), user.resolve(found.client_key))
        )
    certificate = _read_certificate(user, where)
    if found.token:
        return auth.StaticCredentials(auth.bearer_credential(found.token, certificate))
    if found.username:
        return auth.StaticCredentials(auth.basic_credential(found.username, found.password, certificate))
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
    proxy = cluster.entry.proxy_url or http_proxy.find_proxy(cluster.entry.server, environment)
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
        return path.read_bytes()
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
