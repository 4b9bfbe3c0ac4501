"""Keys, certificates, tokens and the kubeconfigs that carry them: made anew for each test bed, by openssl.

One CA signs the server certificate, shared by everything that listens, and one client certificate. The components
and people are known by tokens.
"""

import base64
import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
"""Elliptic curve keys cost nothing; RSA keys can take seconds on a busy machine."""
_NAMES = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:10.96.0.1"
_SERVER = f"subjectAltName={_NAMES}\nextendedKeyUsage=serverAuth\n"
_CLIENT = "extendedKeyUsage=clientAuth\n"

USERS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", "system:authenticated"),
    "controllers": ("system:kube-controller-manager", "system:authenticated"),
    "kwok": ("kwok-controller", "system:masters"),
    "capi": ("capi-manager", "system:masters"),
    "infrastructure": ("fake-infrastructure", "system:masters"),
    "nobody": ("nobody", "system:authenticated"),
}
"""Kubeconfig: user and group. `nobody` may do nothing but look around: for tests of refusals."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything lies, under one directory that only its owner can read."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def serving(self) -> Path:
        """The directory of `tls.crt` and `tls.key`, by the names that Cluster API's manager looks for."""
        return self.directory / "serving"

    @property
    def service_accounts(self) -> Path:
        return self.directory / "service-accounts.key"

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.csv"

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self.ca.read_bytes()).decode()


def make(files: Files, kubeconfigs: Path, server: str) -> None:
    """Make everything that a control plane at `server` needs, and a kubeconfig for each user."""
    files.serving.mkdir(parents=True)
    kubeconfigs.mkdir()
    subject = ("-subj", "/CN=testbed-ca", "-days", "3650")
    _openssl("req", "-x509", *_KEY, *subject, "-keyout", files.ca_key, "-out", files.ca)
    _issue(files, files.serving / "tls", "/CN=testbed-server", _SERVER)
    _issue(files, files.directory / "admin", "/O=system:masters/CN=admin-by-certificate", _CLIENT)
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", files.service_accounts)
    tokens = {name: secrets.token_hex(16) for name in USERS}
    lines = [f'{tokens[name]},{user},{user},"{group}"\n' for name, (user, group) in USERS.items()]
    files.tokens.write_text("".join(lines))
    for name, token in tokens.items():
        _write_kubeconfig(kubeconfigs / name, files, server, {"token": token})
    certificate, key = (files.directory / f"admin.{kind}" for kind in ("crt", "key"))
    by_certificate = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
    _write_kubeconfig(kubeconfigs / "admin-by-certificate", files, server, by_certificate)


def _issue(files: Files, stem: Path, subject: str, extensions: str) -> None:
    key, request, certificate, wanted = (stem.with_suffix(kind) for kind in (".key", ".csr", ".crt", ".ext"))
    wanted.write_text(extensions)
    _openssl("req", *_KEY, "-subj", subject, "-keyout", key, "-out", request)
    signer = ("-CA", files.ca, "-CAkey", files.ca_key, "-CAserial", stem.with_suffix(".srl"), "-CAcreateserial")
    _openssl("x509", "-req", "-in", request, *signer, "-days", "3650", "-extfile", wanted, "-out", certificate)


def _write_kubeconfig(path: Path, files: Files, server: str, user: dict[str, str]) -> None:
    cluster = {"server": server, "certificate-authority-data": files.ca_bundle}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": path.name, "user": user}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": path.name}}],
        "current-context": "testbed",
    }
    path.write_text(json.dumps(content, indent=2))
    path.chmod(0o600)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.strip()}")
