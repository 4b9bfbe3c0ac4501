"""Access: all that it takes to reach a cluster, from a kubeconfig or from within the cluster.

access = access.find(clock.Real(), kubeconfig_path, context)
client = client.Client(access.transport(), clock.Real())
"""

import base64
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib import parse

from windlass import clock, errors
from windlass.kube import auth, exec_credentials, http, kubeconfig, proxies, transport

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """A server, how it is verified, and who we are to it."""

    server: str
    tls: http.Tls
    credentials: auth.Credentials
    namespace: str = "default"
    proxy: str | None = None
    is_guarded: bool = False
    """Does a stranger choose the server? Then `addresses` says which are not connected to."""

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[transport.Transport]:
        """A transport to the server; its connections are closed in the end."""
        connections = http.Http(self.server, self.tls, self.proxy, is_guarded=self.is_guarded)
        try:
            yield auth.Authenticated(connections, self.credentials)
        finally:
            await connections.aclose()


def find(
    time: clock.Clock,
    path: str = "",
    context: str = "",
    *,
    allow_insecure: bool = False,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Access:
    """The cluster to talk to: of a kubeconfig that is named, of KUBECONFIG, the one we run in, of `~/.kube/config`."""
    if not path and not environment.get("KUBECONFIG") and is_in_cluster(environment, service_account):
        return in_cluster(time, environment, service_account)
    files = kubeconfig.find_files(path, environment, home or Path.home())
    if not files:
        raise errors.InvalidInput(
            "no cluster: name a kubeconfig, set KUBECONFIG, have a ~/.kube/config, or run in a cluster"
        )
    config = kubeconfig.load(files)
    return of_context(time, config, context, allow_insecure=allow_insecure, environment=environment)


def is_in_cluster(environment: Mapping[str, str], service_account: Path = _SERVICE_ACCOUNT) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def in_cluster(time: clock.Clock, environment: Mapping[str, str], service_account: Path = _SERVICE_ACCOUNT) -> Access:
    """The cluster that we run in, as our pod's service account. Its token is replaced under way and read again."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = service_account / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=http.Tls(_read(service_account / "ca.crt", "in-cluster configuration")),
        credentials=auth.Files(time, token=service_account / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def of_context(
    time: clock.Clock,
    config: kubeconfig.Kubeconfig,
    name: str = "",
    *,
    allow_insecure: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """What a context of a kubeconfig names; the current one if none is asked for."""
    where = f"kubeconfig {', '.join(map(str, config.files))}"
    name = name or config.current_context
    if not name:
        raise errors.InvalidInput(f"{where}: no current-context; contexts: {_names(config.contexts)}")
    context = _look_up(config.contexts, name, f"{where}: context").found
    cluster = _look_up(config.clusters, context.cluster, f"{where}: context {name!r}: cluster")
    server = _read_server(cluster, context.cluster)
    tls = _read_tls(cluster, context.cluster, allow_insecure)
    credentials: auth.Credentials = auth.Fixed(auth.ANONYMOUS)
    if context.user:
        user = _look_up(config.users, context.user, f"{where}: context {name!r}: user")
        credentials = _read_user(time, user, context.user, _describe(cluster.found, tls), environment)
    return Access(
        server=server,
        tls=tls,
        credentials=credentials,
        namespace=context.namespace or "default",
        proxy=_read_proxy(cluster, context.cluster, environment),
    )


def _read_server(cluster: kubeconfig.From[kubeconfig.Cluster], name: str) -> str:
    server = cluster.found.server
    if not _is_server(server):
        raise errors.InvalidInput(
            f"kubeconfig {cluster.file}: cluster {name!r}: server: found {server!r:.200}, expected https://host:port"
        )
    return server


def _is_server(server: str) -> bool:
    """Whether it is an address that can be asked: with a host that DNS can have, and a port there can be."""
    try:
        url = parse.urlsplit(server)
        host, _ = url.hostname or "", url.port
        host.encode("idna")
    except ValueError:  # of which UnicodeError is one
        return False
    return url.scheme in ("http", "https") and bool(host) and server.isprintable() and " " not in server


def _read_tls(cluster: kubeconfig.From[kubeconfig.Cluster], name: str, allow_insecure: bool) -> http.Tls:
    found, where = cluster.found, f"kubeconfig {cluster.file}: cluster {name!r}"
    if found.insecure_skip_tls_verify and not allow_insecure:
        raise errors.InvalidInput(
            f"{where}: insecure-skip-tls-verify: anyone on the way could read and change what we send; "
            "allow it explicitly if that is meant"
        )
    if found.insecure_skip_tls_verify:
        return http.Tls(server_name=found.tls_server_name or None, verify=False)
    ca = found.certificate_authority_data
    if ca is None and found.certificate_authority:
        ca = _read(cluster.resolve(found.certificate_authority), where)
    tls = http.Tls(ca, found.tls_server_name or None)
    try:
        http.make_context(tls)
    except (ssl.SSLError, ValueError) as error:
        raise errors.InvalidInput(f"{where}: certificate-authority: {error}") from error
    return tls


def _read_user(
    time: clock.Clock,
    user: kubeconfig.From[kubeconfig.User],
    name: str,
    cluster: Mapping[str, object],
    environment: Mapping[str, str],
) -> auth.Credentials:
    found, where = user.found, f"kubeconfig {user.file}: user {name!r}"
    if found.as_ or found.as_uid or found.as_groups or found.as_user_extra:
        raise errors.InvalidInput(f"{where}: as: impersonation is not supported")
    if found.auth_provider is not None:
        raise errors.InvalidInput(f"{where}: auth-provider: no longer part of Kubernetes, use an exec plugin")
    if found.exec is not None:
        return exec_credentials.Plugin(exec_credentials.prepare(user, environment, cluster), time)
    if found.token_file:
        files = (user.resolve(found.client_certificate), user.resolve(found.client_key))
        pair = files if found.client_certificate else None
        return auth.Files(time, token=user.resolve(found.token_file), certificate=pair)
    if found.client_certificate and not found.client_certificate_data and not found.token:
        return auth.Files(time, certificate=(user.resolve(found.client_certificate), user.resolve(found.client_key)))
    certificate = _read_certificate(user, where)
    if found.token:
        return auth.Fixed(auth.bearer(found.token, certificate))
    if found.username:
        return auth.Fixed(auth.basic(found.username, found.password, certificate))
    return auth.Fixed(auth.Credential(certificate=certificate))


def _read_certificate(user: kubeconfig.From[kubeconfig.User], where: str) -> transport.Certificate | None:
    found = user.found
    certificate, key = found.client_certificate_data, found.client_key_data
    if certificate is None and found.client_certificate:
        certificate = _read(user.resolve(found.client_certificate), where)
    if key is None and found.client_key:
        key = _read(user.resolve(found.client_key), where)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise errors.InvalidInput(f"{where}: client-certificate and client-key: one without the other")
    return transport.Certificate(certificate, key)


def _describe(cluster: kubeconfig.Cluster, tls: http.Tls) -> dict[str, object]:
    """The cluster as exec plugins are told of it."""
    return {
        "server": cluster.server,
        **({"tls-server-name": tls.server_name} if tls.server_name else {}),
        **({"insecure-skip-tls-verify": True} if not tls.verify else {}),
        **({"certificate-authority-data": base64.b64encode(tls.ca).decode()} if tls.ca else {}),
        **({"proxy-url": cluster.proxy_url} if cluster.proxy_url else {}),
    }


def _read_proxy(cluster: kubeconfig.From[kubeconfig.Cluster], name: str, environment: Mapping[str, str]) -> str | None:
    """The proxy that the kubeconfig names, or else the environment."""
    proxy = cluster.found.proxy_url or proxies.find(cluster.found.server, environment)
    try:
        scheme = parse.urlsplit(proxy).scheme if proxy else "http"
    except ValueError:
        scheme = ""
    if scheme not in ("http", "https"):
        raise errors.InvalidInput(
            f"kubeconfig {cluster.file}: cluster {name!r}: found a proxy of scheme {scheme!r}, expected http or https"
        )
    return proxy


def _look_up(among: Mapping[str, kubeconfig.From[kubeconfig.T]], name: str, what: str) -> kubeconfig.From[kubeconfig.T]:
    if name not in among:
        raise errors.InvalidInput(f"{what}: found {name!r}, expected one of {_names(among)}")
    return among[name]


def _names(among: Mapping[str, object]) -> str:
    return ", ".join(sorted(among)) or "none"


def _read(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.InvalidInput(f"{where}: {path}: {error.strerror}") from error
