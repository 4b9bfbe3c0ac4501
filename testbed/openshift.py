"""OpenShift on the test bed: Machine API's definitions, the two namespaces, and what is in files of one's own.

Machine API is there as kinds only; whoever needs its controllers plays them.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from testbed import api, clusterapi, modules

MODULE = "github.com/openshift/api@v0.0.0-20251015095338-264e80a2b6e7"
_AT = "machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_{}-{}.crd.yaml"
_CONFIG = (
    "0000_10_config-operator_01_featuregates",
    "0000_10_config-operator_01_infrastructures-Default",
    "0000_00_cluster-version-operator_01_clusteroperators",
    "0000_00_cluster-version-operator_01_clusterversions-Default",
)
NAMESPACES = ("openshift-machine-api", "openshift-cluster-api")


def definitions(feature_set: str = "CustomNoUpgrade") -> list[api.Object]:
    """Machine API's MachineSet and Machine, from the module that has them. `Missing` without Go, or without a proxy.

    By default they know of authority; those of the feature set Default do not.
    """
    return [_read(_AT.format(kind, feature_set)) for kind in ("machinesets", "machines")]


def config_definitions() -> list[api.Object]:
    """FeatureGate, Infrastructure, ClusterOperator and ClusterVersion, from the same module."""
    return [_read(f"config/v1/zz_generated.crd-manifests/{name}.crd.yaml") for name in _CONFIG]


def _read(path: str) -> api.Object:
    found: api.Object = yaml.safe_load((modules.download(MODULE) / path).read_text())
    return found


def install(server: api.Api, feature_set: str = "CustomNoUpgrade") -> None:
    """Definitions and namespaces, once they are served."""
    for body in definitions(feature_set):
        define(server, body)
    for name in NAMESPACES:
        server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def define(server: api.Api, body: api.Object) -> None:
    """A kind, once it is served."""
    server.add(body)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{body['metadata']['name']}"
    api.wait_for(path, lambda: server.get(path), lambda crd: clusterapi.has_condition(crd, "Established"))
    spec = body["spec"]
    for version in (item["name"] for item in spec["versions"] if item["served"]):
        wait_served(server, f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")


def wait_served(server: api.Api, collection: str) -> None:
    """Until the server answers for a kind: for a moment after it is Established there is still a 404."""
    api.wait_for(f"{collection} is served", lambda: server.get(f"{collection}?limit=1"))


def add_all(server: api.Api, path: Path) -> None:
    """Every object of a file."""
    for body in yaml.safe_load_all(path.read_text()):
        server.call("POST", _place(body), body)


def _place(body: api.Object) -> str:
    kind: str = body["kind"].lower()
    place = api.path_of(body)
    return f"{place.removesuffix(f'{kind}s')}{kind.removesuffix('y')}ies" if kind.endswith("y") else place


def token(server: api.Api, namespace: str, account: str) -> str:
    """A token of a ServiceAccount."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    found: dict[str, Any] = server.call("POST", path, asked)
    text: str = found["status"]["token"]
    return text


def write_kubeconfig(path: Path, of: Path, token_: str, server_url: str = "") -> Path:
    """The kubeconfig of whoever has a token; through another server if one is named."""
    config = json.loads(of.read_text())
    config["users"][0]["user"] = {"token": token_}
    if server_url:
        config["clusters"][0]["cluster"] = {"server": server_url}
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path
