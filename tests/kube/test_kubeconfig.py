import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from windlass import clock, errors
from windlass.kube import auth, http_transport, kubeconfig, rest_config
from windlass.kube import errors as kube_errors
from windlass.kube.transport import Certificate

CA = trustme.CA()
CA_PEM = CA.cert_pem.bytes()


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else msgspec.yaml.encode(content))
    return path


def config(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "c"
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": "https://host:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def read(path: Path, context: str = "", **options: Any) -> rest_config.RestConfig:
    return rest_config.load_rest_config(clock.VirtualClock(), str(path), context, environment={}, **options)


def credential(found: rest_config.RestConfig) -> auth.Credential:
    return clock.VirtualClock().run(found.credentials.current())


# Files


def test_the_first_file_that_has_a_name_has_it_whole(tmp_path: Path) -> None:
    item = write(tmp_path / "one", {"clusters": [{"name": "red", "cluster": {"server": "https://one"}}]})
    two = write(
        tmp_path / "two",
        {
            "current-context": "second",
            "clusters": [
                {"name": "red", "cluster": {"server": "https://two", "tls-server-name": "x"}},
                {"name": "blue", "cluster": {"server": "https://blue"}},
            ],
        },
    )
    three = write(tmp_path / "three", {"current-context": "third"})

    merged = kubeconfig.load([item, two, three])
    assert merged.clusters["red"].entry == kubeconfig.Cluster(server="https://one")
    assert merged.clusters["blue"].file == two
    assert merged.current_context == "second"


def test_kubeconfig_is_a_list_of_which_missing_files_are_passed_over(tmp_path: Path) -> None:
    item, two = write(tmp_path / "one", b""), write(tmp_path / "two", config())
    listed = os.pathsep.join(["", str(tmp_path / "missing"), str(item), str(two), str(item)])

    assert kubeconfig.find_files("", {"KUBECONFIG": listed}, tmp_path) == [item, two]


def test_without_kubeconfig_it_is_the_file_in_the_home_directory(tmp_path: Path) -> None:
    assert kubeconfig.find_files("", {}, tmp_path) == []
    file = write(tmp_path / ".kube" / "config", config())
    assert kubeconfig.find_files("", {}, tmp_path) == [file]


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="nowhere: no such file"):
        kubeconfig.find_files(str(tmp_path / "nowhere"), {"KUBECONFIG": "x"}, tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a: [", "not YAML"),
        (b"[]", "Expected `object`, got `array`"),
        (b"clusters: {}", "Expected `array | null`, got `object` - at `$.clusters`"),
        (b"clusters: [{name: a}, {name: a}]", "'a' is there twice"),
        (b"users: [{name: a, user: {token: 5}}]", "Expected `str`, got `int` - at `$.users[0].user.token`"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = write(tmp_path / "bad", content)

    with pytest.raises(errors.InvalidInput) as caught:
        kubeconfig.load([file])
    assert str(file) in str(caught.value)
    assert complaint in str(caught.value)


# Contexts


def test_a_context_names_cluster_user_and_namespace(tmp_path: Path) -> None:
    whole = config()
    whole["contexts"].append({"name": "other", "context": {"cluster": "c", "user": "c", "namespace": "mine"}})
    file = write(tmp_path / "config", whole)

    assert read(file).namespace == "default"
    found = read(file, "other")
    assert (found.server, found.namespace) == ("https://host:6443", "mine")


def test_a_context_may_do_without_a_user(tmp_path: Path) -> None:
    whole = config()
    del whole["contexts"][0]["context"]["user"]

    assert credential(read(write(tmp_path / "config", whole))) == auth.ANONYMOUS


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"current-context": "x"}, "context: found 'x', expected one of c"),
        ({"current-context": ""}, "no current-context; contexts: c"),
        ({"clusters": []}, "context 'c': cluster: found 'c', expected one of none"),
        ({"users": []}, "context 'c': user: found 'c', expected one of none"),
        ({"clusters": [{"name": "c", "cluster": {"server": "host:6443"}}]}, "expected https://host:port"),
    ],
)
def test_what_leads_nowhere_is_said_so(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(errors.InvalidInput, match=complaint):
        read(write(tmp_path / "config", {**config(), **change}))


# Servers


def test_the_ca_is_in_the_file_or_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "pki" / "ca.crt", CA_PEM)
    by_path = config(cluster={"certificate-authority": "pki/ca.crt"})
    by_data = config(cluster={"certificate-authority-data": base64.b64encode(CA_PEM).decode()})

    for whole in (by_path, by_data):
        assert read(write(tmp_path / "config", whole)).tls == http_transport.TlsConfig(CA_PEM)


@pytest.mark.parametrize(
    "cluster", [{"certificate-authority": "missing"}, {"certificate-authority-data": base64.b64encode(b"no").decode()}]
)
def test_a_ca_that_cannot_be_used_is_said_so(tmp_path: Path, cluster: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput, match="cluster 'c'"):
        read(write(tmp_path / "config", config(cluster=cluster)))


def test_an_unverified_server_is_refused_unless_asked_for(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config(cluster={"insecure-skip-tls-verify": True, "tls-server-name": "name"}))

    with pytest.raises(errors.InvalidInput, match="insecure-skip-tls-verify"):
        read(file)
    assert read(file, allow_insecure=True).tls == http_transport.TlsConfig(None, "name", verify=False)


def test_a_proxy_is_used_where_one_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config(cluster={"proxy-url": "http://proxy:3128"}))

    assert read(file).proxy == "http://proxy:3128"


def test_the_proxy_of_a_kubeconfig_counts_before_that_of_the_environment(tmp_path: Path) -> None:
    environment = {"HTTPS_PROXY": "other:3128", "NO_PROXY": "10.0.0.0/8"}
    named = write(tmp_path / "named", config(cluster={"proxy-url": "http://proxy:3128"}))
    plain = write(tmp_path / "plain", config())
    inner = write(tmp_path / "inner", config(cluster={"server": "https://10.1.2.3:6443"}))
    found = [
        rest_config.load_rest_config(clock.VirtualClock(), str(file), environment=environment).proxy
        for file in (named, plain, inner)
    ]
    assert found == ["http://proxy:3128", "http://other:3128", None]


def test_a_proxy_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config(cluster={"proxy-url": "socks5://proxy:1080"}))
    with pytest.raises(errors.InvalidInput, match="found a proxy of scheme 'socks5', expected http or https"):
        read(file)


# Users


def test_tokens_passwords_and_certificates_are_taken_as_they_are(tmp_path: Path) -> None:
    data = {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key-data": base64.b64encode(b"KEY").decode(),
    }
    cases: list[tuple[dict[str, Any], auth.Credential]] = [
        ({"token": "t"}, auth.bearer_credential("t")),
        ({"username": "u", "password": "p"}, auth.basic_credential("u", "p")),
        (data, auth.Credential(certificate=Certificate(b"CERT", b"KEY"))),
        ({"token": "t", **data}, auth.bearer_credential("t", Certificate(b"CERT", b"KEY"))),
    ]
    for user, expected in cases:
        assert credential(read(write(tmp_path / "config", config(user=user)))) == expected


def test_files_of_a_user_are_relative_to_the_config(tmp_path: Path) -> None:
    for name, content in (("t", b"tok\n"), ("crt", b"CERT"), ("key", b"KEY")):
        write(tmp_path / "pki" / name, content)
    files = {"client-certificate": "pki/crt", "client-key": "pki/key"}

    pair = Certificate(b"CERT", b"KEY")
    assert credential(read(write(tmp_path / "config", config(user=files)))).certificate == pair
    both = config(user={**files, "tokenFile": "pki/t", "token": "older"})
    assert credential(read(write(tmp_path / "config", both))) == auth.bearer_credential("tok", pair)


@pytest.mark.parametrize(
    ("user", "complaint"),
    [
        ({"auth-provider": {"name": "gcp"}}, "auth-provider"),
        ({"as": "someone"}, "impersonation"),
        ({"client-certificate-data": "QQ=="}, "one without the other"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "apiVersion"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "no command"),
        (
            {"exec": {"command": "x", "apiVersion": auth.API_VERSIONS[0], "interactiveMode": "Always"}},
            "interactiveMode",
        ),
    ],
)
def test_what_is_not_supported_is_refused_with_its_name(tmp_path: Path, user: dict[str, Any], complaint: str) -> None:
    with pytest.raises(errors.InvalidInput, match=complaint):
        read(write(tmp_path / "config", config(user=user)))


# In a cluster


def test_in_a_cluster_the_service_account_is_used_and_its_token_read_again(tmp_path: Path) -> None:
    write(tmp_path / "token", b"one")
    write(tmp_path / "ca.crt", CA_PEM)
    write(tmp_path / "namespace", b"kube-system")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    virtual = clock.VirtualClock()

    found = rest_config.load_rest_config(virtual, environment=environment, home=tmp_path, service_account=tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert found.tls == http_transport.TlsConfig(CA_PEM)

    async def rotate() -> list[str]:
        seen = []
        for token in (b"one", b"two", b"two"):
            write(tmp_path / "token", token)
            seen.append((await found.credentials.current()).headers["authorization"])
            await virtual.sleep(45)
        return seen

    assert virtual.run(rotate()) == ["Bearer one", "Bearer one", "Bearer two"]


def test_a_kubeconfig_that_is_named_comes_before_the_cluster_we_run_in(tmp_path: Path) -> None:
    write(tmp_path / "token", b"one")
    file = write(tmp_path / "config", config())
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    for options in ({"path": str(file), "environment": inside}, {"environment": {**inside, "KUBECONFIG": str(file)}}):
        found = rest_config.load_rest_config(clock.VirtualClock(), home=tmp_path, service_account=tmp_path, **options)
        assert found.server == "https://host:6443"


def test_no_cluster_at_all_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="no cluster"):
        rest_config.load_rest_config(clock.VirtualClock(), environment={}, home=tmp_path, service_account=tmp_path)


# Plugins

PLUGIN = """
import json, os, pathlib, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
runs = pathlib.Path(sys.argv[1])
count = int(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text(str(count))
status = {"token": f"t{count}-{os.environ['GREETING']}", "expirationTimestamp": "2030-01-01T00:00:00Z"}
if info["spec"].get("cluster"):
    status["token"] = info["spec"]["cluster"]["server"]
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""
EXPIRES_S = 1893456000.0


def plugin(tmp_path: Path, script: str = PLUGIN, **more: Any) -> tuple[rest_config.RestConfig, clock.VirtualClock]:
    write(tmp_path / "plugin.py", script.encode())
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "runs")],
        "env": [{"name": "GREETING", "value": "hi"}],
        "interactiveMode": "Never",
        **more,
    }
    file = write(tmp_path / "config", config(user={"exec": spec}))
    virtual = clock.VirtualClock(now_s=EXPIRES_S - 3600)
    return rest_config.load_rest_config(virtual, str(file), environment=dict(os.environ)), virtual


async def token(found: rest_config.RestConfig) -> str:
    return (await found.credentials.current()).headers["authorization"].removeprefix("Bearer ")


async def test_a_plugin_is_run_once_until_what_it_printed_expires(tmp_path: Path) -> None:
    found, virtual = plugin(tmp_path)

    assert [await token(found), await token(found)] == ["t1-hi", "t1-hi"]
    virtual.set_wall(EXPIRES_S - 5)
    assert await token(found) == "t2-hi"


async def test_a_plugin_is_run_again_when_the_server_refuses_what_it_printed(tmp_path: Path) -> None:
    found, _ = plugin(tmp_path)

    first = await found.credentials.current()
    found.credentials.reject(first)
    found.credentials.reject(auth.bearer_credential("of someone else"))
    assert await token(found) == "t2-hi"
    assert await token(found) == "t2-hi"


async def test_a_plugin_is_told_of_the_cluster_if_it_asks(tmp_path: Path) -> None:
    found, _ = plugin(tmp_path, provideClusterInfo=True)

    assert await token(found) == "https://host:6443"


async def test_a_plugin_may_print_a_client_certificate(tmp_path: Path) -> None:
    printed = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"clientCertificateData": "CERT", "clientKeyData": "KEY"},
    }
    found, _ = plugin(tmp_path, f"print({json.dumps(json.dumps(printed))})")

    assert await found.credentials.current() == auth.Credential({}, Certificate(b"CERT", b"KEY"))


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("print('hello')", "printed no ExecCredential"),
        ('print(\'{"apiVersion":"v2","kind":"ExecCredential"}\')', "printed a v2 ExecCredential, expected"),
        (
            'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}\')',
            "neither a token nor a client certificate",
        ),
    ],
)
async def test_a_plugin_that_fails_is_named_with_what_it_said(tmp_path: Path, script: str, complaint: str) -> None:
    found, _ = plugin(tmp_path, script)

    with pytest.raises(kube_errors.CredentialsFailed) as caught:
        await found.credentials.current()
    assert sys.executable in str(caught.value)
    assert complaint in str(caught.value)


async def test_the_text_of_a_plugin_that_fails_is_logged_and_no_part_of_the_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each run writes another text, as one with a timestamp does."""
    found, _ = plugin(tmp_path, "import os, sys; sys.exit(f'no luck {os.getpid()}')")
    texts = set()
    for _ in range(2):
        with pytest.raises(kube_errors.CredentialsFailed) as caught:
            await found.credentials.current()
        texts.add(str(caught.value))
    assert texts == {f"credentials from exec plugin {sys.executable}: exit code 1"}
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == len(set(logged)) == 2
    assert all("exit_code=1 stderr=no luck " in line for line in logged)


async def test_a_plugin_that_is_not_installed_is_told_how_to_get(tmp_path: Path) -> None:
    found, _ = plugin(tmp_path, command="./nowhere", installHint="Ask the cook.")

    with pytest.raises(kube_errors.CredentialsFailed, match=r"nowhere: No such file or directory. Ask the cook"):
        await found.credentials.current()


async def test_a_plugin_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_TIME_S", 0.05)
    found, _ = plugin(tmp_path, "import time; time.sleep(600)")

    with pytest.raises(kube_errors.CredentialsFailed, match="not done within"):
        await found.credentials.current()
