"""Values that users of other charts expect: each is in the objects that it is about, and in no others."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.install import rendered_manifests
from tests.install.rendered_manifests import CHART, NAMESPACE, Object, chart_of, of_kind, path_of, rules, shipped
from tools import chart_schema, source_analysis
from windlass.autoscaler.options import flag_values, flags
from windlass.errors import InvalidInput

BOTH = {"operator": {"controllers": ["machine_pool"]}}


def pod_of(objects: list[Object], name: str = "windlass-autoscaler") -> Any:
    (deployment,) = [body for body in of_kind(objects, "Deployment") if body["metadata"]["name"] == name]
    return deployment["spec"]["template"]["spec"]


def one(objects: list[Object], kind: str) -> Any:
    (found,) = of_kind(objects, kind)
    return found


def test_what_is_made_from_values_and_flags_is_current() -> None:
    stale = [str(path.relative_to(source_analysis.ROOT)) for path in chart_schema.find_stale()]
    assert stale == [], "run `make reference` and commit what it writes"


def test_arguments_in_the_forms_of_the_other_chart() -> None:
    values = {
        "flags": {"expander": "random"},
        "extraArgs": {
            "balancing-ignore-label_1": "a",
            "balancing-ignore-label_2": "b",
            "cordon-node-before-terminating": None,
            "v": 4,
        },
        "customArgs": ["--expander=least-waste"],
    }
    objects = chart_of({**BOTH, "autoscaler": values})
    (container,) = pod_of(objects)["containers"]
    rendered_manifests.accept(container)
    args = container["args"]
    assert args[-5:] == [
        "--balancing-ignore-label=a",
        "--balancing-ignore-label=b",
        "--cordon-node-before-terminating",
        "--v=4",
        "--expander=least-waste",
    ]
    assert args.index("--expander=random") < len(args) - 5, "what is given last counts"
    (other,) = pod_of(objects, "windlass-operator")["containers"]
    assert not any("expander" in word for word in other["args"])


def test_a_flag_of_the_operator_replaces_what_the_chart_says() -> None:
    given = {"flags": {"leader-elect-name": "mine"}, "extraArgs": {"concurrency": 3, "record-duplicated-events": None}}
    objects = chart_of({"operator": {**BOTH["operator"], **given, "customArgs": ["--metrics-address=:9090"]}})
    (container,) = pod_of(objects, "windlass-operator")["containers"]
    rendered_manifests.accept(container)  # which refuses repetition
    assert {"--leader-elect-name=mine", "--concurrency=3", "--metrics-address=:9090"} <= set(container["args"])
    assert "--record-duplicated-events" in container["args"]


def test_every_flag_of_the_programs_is_known_to_the_chart() -> None:
    known = yaml.safe_load((CHART / "files" / "flags.yaml").read_text())
    assert known["autoscaler"] == sorted(flags.READERS)
    assert {"concurrency", "leader-elect", "no-leader-elect"} <= set(known["operator"])
    taken = {"autoscaler": {"flags": dict.fromkeys(("v", "max-nodes-total"), 7)}}
    assert {"--v=7", "--max-nodes-total=7"} <= set(pod_of(chart_of(taken))["containers"][0]["args"])


def test_the_schema_of_a_flag_takes_its_default_and_what_the_program_takes() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["autoscaler"]["properties"]["flags"]

    def accepts(flag: str, text: str) -> bool:
        wanted = schema["properties"][flag]
        wanted = wanted.get("anyOf", [wanted])[0]
        return "pattern" not in wanted or re.search(wanted["pattern"], text) is not None

    def reads(flag: str, text: str) -> bool:
        try:
            flags.READERS[flag]([text])
        except (ValueError, InvalidInput):
            return False
        return True

    durations = [name for name, read in flags.READERS.items() if read is flag_values.read_duration_s]
    switches = [name for name, read in flags.READERS.items() if read in flag_values.BOOL_READERS]
    assert len(durations) > 30
    assert len(switches) > 80
    texts = [
        "10m",
        "1h30m",
        "1.5h",
        ".5s",
        "0",
        "-1s",
        "500ms",
        "2µs",
        "10",
        "10m0",
        "ten",
        "1d",
        "",
        "true",
        "False",
        "on",
    ]
    for flag in (*durations, *switches):
        for text in texts:
            # Of a few switches the program takes one of the values only.
            assert accepts(flag, text) or not reads(flag, text), (flag, text)
            if flags.READERS[flag] in (flag_values.read_bool, flag_values.read_duration_s):
                assert accepts(flag, text) == reads(flag, text), (flag, text)


def test_environment() -> None:
    values = {
        "env": [{"name": "CAPI_GROUP", "value": "cluster.x-k8s.io"}],
        "extraEnv": {"HTTPS_PROXY": "http://proxy:3128", "TOKEN": {"secretKeyRef": {"name": "s", "key": "k"}}, "N": 1},
        "envFrom": [{"secretRef": {"name": "proxy"}}, {"configMapRef": {"name": "zones"}}],
    }
    (container,) = pod_of(chart_of({"autoscaler": values}))["containers"]
    assert container["env"] == [
        {"name": "CAPI_GROUP", "value": "cluster.x-k8s.io"},
        {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
        {"name": "N", "value": "1"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert container["envFrom"] == values["envFrom"]


def test_additional_objects_are_templates() -> None:
    as_text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "{{ .Release.Name }}-text"}\n'
    as_object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": '{{ include "windlass.fullname" . }}-object'},
    }
    found = of_kind(chart_of({"extraObjects": [as_text, as_object]}), "ConfigMap")
    assert [body["metadata"]["name"] for body in found] == ["windlass-text", "windlass-object"]


@pytest.mark.parametrize("component", ["autoscaler", "operator"])
def test_pods_take_what_a_pod_spec_has(component: str) -> None:
    spec = {
        "hostNetwork": True,
        "dnsConfig": {"nameservers": ["1.2.3.4"], "options": [{"name": "ndots", "value": "2"}]},
        "initContainers": [{"name": "wait", "image": "windlass:0.1.0", "command": ["windlass", "version"]}],
    }
    values = {
        **spec,
        "securityContext": {"runAsUser": 1000, "supplementalGroups": [7]},
        "containerSecurityContext": {"readOnlyRootFilesystem": False},
        "livenessProbe": {"timeoutSeconds": 5, "initialDelaySeconds": 0},
        "readinessProbe": {"httpGet": {"scheme": "HTTPS"}},
        "startupProbe": {"failureThreshold": 30},
    }
    objects = chart_of({**BOTH, component: {**BOTH.get(component, {}), **values}})
    pod = pod_of(objects, f"windlass-{component}")
    assert {key: pod[key] for key in spec} == spec
    assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
        "supplementalGroups": [7],
    }
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    health = {"path": "/health-check" if component == "autoscaler" else "/healthz", "port": "metrics"}
    assert (
        container["livenessProbe"].items()
        >= {"httpGet": health, "timeoutSeconds": 5, "periodSeconds": 10, "initialDelaySeconds": 0}.items()
    )
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics", "scheme": "HTTPS"}
    assert container["startupProbe"] == {"httpGet": health, "failureThreshold": 30}
    others = {"autoscaler": "windlass-operator", "operator": "windlass-autoscaler"}
    assert "hostNetwork" not in pod_of(objects, others[component])
    chosen = chart_of({"autoscaler": {"dnsPolicy": "Default", "hostNetwork": True}})
    assert pod_of(chosen)["dnsPolicy"] == "Default"


def test_a_null_takes_a_default_away() -> None:
    pod = pod_of(
        chart_of({"autoscaler": {"securityContext": {"fsGroup": None}, "nodeSelector": {"kubernetes.io/os": None}}})
    )
    assert "fsGroup" not in pod["securityContext"]
    assert "nodeSelector" not in pod


def test_on_openshift_users_and_groups_are_left_to_it() -> None:
    pod = pod_of(
        chart_of({"autoscaler": {"enabled": False}, "operator": {"controllers": ["machineset_sync"]}}),
        "machineset-sync",
    )
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_deployments() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    values = {"deploymentAnnotations": {"a/b": "c"}, "updateStrategy": strategy, "revisionHistoryLimit": 0}
    deployment = one(
        chart_of({"autoscaler": {**values, "podAnnotations": {"x/y": "z"}, "podLabels": {"l": "m"}}}), "Deployment"
    )
    assert deployment["metadata"]["annotations"] == {"a/b": "c"}
    assert deployment["spec"]["strategy"] == strategy
    assert deployment["spec"]["revisionHistoryLimit"] == 0
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"x/y": "z", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    assert metadata["labels"]["l"] == "m"
    kept = chart_of({"autoscaler": {"podAnnotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}})
    (annotation,) = one(kept, "Deployment")["spec"]["template"]["metadata"]["annotations"].values()
    assert annotation == "false"


def test_services() -> None:
    spec = {
        "type": "LoadBalancer",
        "clusterIP": "10.0.0.9",
        "externalIPs": ["192.0.2.1"],
        "loadBalancerIP": "192.0.2.2",
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
    }
    about = {"annotations": {"a": "b"}, "labels": {"c": "d"}, "port": 80}
    service = one(chart_of({"autoscaler": {"service": {**spec, **about}}}), "Service")
    assert {key: service["spec"][key] for key in spec} == spec
    assert service["spec"]["ports"] == [{"name": "metrics", "port": 80, "targetPort": "metrics", "protocol": "TCP"}]
    assert service["metadata"]["annotations"] == {"a": "b"}
    assert service["metadata"]["labels"]["c"] == "d"
    without = {"autoscaler": {"service": {"enabled": False}}}
    assert of_kind(chart_of(without), "Service") == []
    scraped = rendered_manifests.render_values({**without, "monitoring": {"serviceMonitor": {"enabled": True}}})
    assert "autoscaler.service.enabled=false, expected a Service to scrape" in scraped.stderr
    webhooks = {
        "autoscaler": {"enabled": False},
        "operator": {"controllers": ["machine_autoscaler"], "service": {"enabled": False}},
    }
    kept = one(chart_of(webhooks), "Service")
    assert [port["name"] for port in kept["spec"]["ports"]] == ["webhooks"]
    assert kept["metadata"]["annotations"] == {
        "service.beta.openshift.io/serving-cert-secret-name": "machine-autoscaler-cert"
    }


def test_scraping_and_alerts() -> None:
    relabeling = [{"sourceLabels": ["pod"], "targetLabel": "instance"}]
    extra = [{"alert": "Mine", "expr": "up == 0", "annotations": {"summary": "{{ $labels.pod }} is down"}}]
    monitoring = {
        "serviceMonitor": {
            "enabled": True,
            "namespace": "monitoring",
            "interval": "10s",
            "scrapeTimeout": "5s",
            "path": "/other",
            "labels": {"release": "prometheus"},
            "annotations": {"a": "b"},
            "relabelings": relabeling,
            "metricRelabelings": relabeling,
        },
        "prometheusRule": {
            "enabled": True,
            "namespace": "monitoring",
            "interval": "1m",
            "labels": {"role": "alerts"},
            "annotations": {"c": "d"},
            "additionalRules": extra,
        },
    }
    objects = chart_of({"monitoring": monitoring})
    monitor, rule = one(objects, "ServiceMonitor"), one(objects, "PrometheusRule")
    assert (monitor["metadata"]["namespace"], monitor["metadata"]["annotations"]) == ("monitoring", {"a": "b"})
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    assert monitor["spec"]["endpoints"] == [
        {
            "port": "metrics",
            "path": "/other",
            "interval": "10s",
            "scrapeTimeout": "5s",
            "relabelings": relabeling,
            "metricRelabelings": relabeling,
        }
    ]
    assert (rule["metadata"]["namespace"], rule["metadata"]["annotations"]) == ("monitoring", {"c": "d"})
    assert rule["metadata"]["labels"]["role"] == "alerts"
    shipped_groups = yaml.safe_load(path_of("monitoring/alerts.yaml").read_text())["spec"]["groups"]
    *groups, last = rule["spec"]["groups"]
    assert last == {"name": "windlass-additional", "interval": "1m", "rules": extra}
    assert groups == [{**group, "interval": "1m"} for group in shipped_groups]


def test_disruption_budgets() -> None:
    budget = {"minAvailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow", "annotations": {"a": "b"}}
    found = one(chart_of({"podDisruptionBudget": budget}), "PodDisruptionBudget")
    assert found["spec"].keys() == {"minAvailable", "unhealthyPodEvictionPolicy", "selector"}
    assert (found["spec"]["minAvailable"], found["metadata"]["annotations"]) == ("50%", {"a": "b"})
    none = one(chart_of({"podDisruptionBudget": {"minAvailable": 0}}), "PodDisruptionBudget")
    assert none["spec"]["minAvailable"] == 0
    default = one(chart_of({}), "PodDisruptionBudget")
    assert default["spec"].keys() == {"maxUnavailable", "selector"}


def test_vertical_autoscaling() -> None:
    vpa = {
        "enabled": True,
        "updateMode": "Off",
        "containerPolicy": {"controlledResources": ["memory"]},
        "recommender": "own",
    }
    objects = chart_of({**BOTH, "autoscaler": {"vpa": vpa}})
    found = one(objects, "VerticalPodAutoscaler")
    assert found["spec"] == {
        "recommenders": [{"name": "own"}],
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "windlass-autoscaler"},
        "updatePolicy": {"updateMode": "Off"},
        "resourcePolicy": {"containerPolicies": [{"containerName": "autoscaler", "controlledResources": ["memory"]}]},
    }
    (container,) = pod_of(objects)["containers"]
    assert container["name"] == "autoscaler"
    assert of_kind(chart_of({}), "VerticalPodAutoscaler") == []


ELSEWHERE = {"workload": {"secret": "work-kubeconfig"}}


def test_rights_in_the_namespaces_of_the_groups_only() -> None:
    discovery = ["clusterapi:namespace=team-a,clusterName=a", "clusterapi:clusterName=b,namespace=team-b"]
    values = {"rbac": {"clusterScoped": False}, "autoscaler": {"kubeconfigs": ELSEWHERE, "discovery": discovery}}
    objects = chart_of(values)
    assert {body["kind"] for body in objects if "Role" in body["kind"]} == {"Role", "RoleBinding"}
    account = f"{NAMESPACE}/windlass-autoscaler"
    wanted = rules(shipped("autoscaler-clusterapi"))[account, ""]
    assert rules(objects) == {(account, "team-a"): wanted, (account, "team-b"): wanted}
    # Nothing else can be watched with these rights.
    alone = chart_of({**values, "autoscaler": {"kubeconfigs": ELSEWHERE}})
    assert rules(alone).keys() == {(account, NAMESPACE)}
    assert f"--node-group-auto-discovery=clusterapi:namespace={NAMESPACE}" in pod_of(alone)["containers"][0]["args"]


@pytest.mark.parametrize(
    ("autoscaler", "told"),
    [
        ({}, "rbac.clusterScoped: found false without autoscaler.kubeconfigs.workload.secret"),
        ({"kubeconfigs": ELSEWHERE, "discovery": ["clusterapi:clusterName=a"]}, "expected namespace=… in it"),
    ],
)
def test_rights_that_would_not_suffice_are_refused(autoscaler: Object, told: str) -> None:
    answer = rendered_manifests.render_values({"rbac": {"clusterScoped": False}, "autoscaler": autoscaler})
    assert answer.returncode != 0
    assert told in answer.stderr


def test_additional_rules_and_annotations_of_roles() -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["templates"], "verbs": ["get", "list"]}
    rbac = {"additionalRules": [rule], "annotations": {"owner": "team"}}
    objects = chart_of({"rbac": rbac})
    account = f"{NAMESPACE}/windlass-autoscaler"
    assert json.dumps(rule, sort_keys=True) in rules(objects)[account, ""]
    roles = [body for body in objects if "Role" in body["kind"]]
    assert {body["metadata"]["annotations"]["owner"] for body in roles} == {"team"}
    scoped = chart_of({"rbac": {**rbac, "clusterScoped": False}, "autoscaler": {"kubeconfigs": ELSEWHERE}})
    assert json.dumps(rule, sort_keys=True) in rules(scoped)[account, NAMESPACE]
    assert rules(chart_of({"rbac": {**rbac, "create": False}})) == {}


def test_a_service_account_that_exists() -> None:
    given = {"autoscaler": {"serviceAccount": {"create": False, "name": "mine"}}}
    objects = chart_of(given)
    assert of_kind(objects, "ServiceAccount") == []
    assert pod_of(objects)["serviceAccountName"] == "mine"
    assert {account for account, _ in rules(objects)} == {f"{NAMESPACE}/mine"}
    unnamed = rendered_manifests.render_values({"autoscaler": {"serviceAccount": {"create": False}}})
    assert "autoscaler.serviceAccount.name: found none" in unnamed.stderr
    account = {"automountServiceAccountToken": False, "annotations": {"a": "b"}}
    made = one(chart_of({"autoscaler": {"serviceAccount": account}}), "ServiceAccount")
    assert made["automountServiceAccountToken"] is False
    assert made["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("side", ["workload", "management"])
def test_a_shadow_of_two_clusters_reads_in_this_one_what_is_in_it(side: str) -> None:
    values = {"mode": "shadow", "kubeconfigs": {side: {"secret": "other"}}}
    granted = rules(chart_of({"autoscaler": values}))[f"{NAMESPACE}/windlass-autoscaler", ""]
    groups = {group for rule in granted for group in json.loads(rule)["apiGroups"]}
    of_cluster_api = {"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"}
    if side == "workload":
        assert groups == of_cluster_api
    else:
        assert "policy" in groups
        assert not groups & of_cluster_api
    assert {verb for rule in granted for verb in json.loads(rule)["verbs"]} == {"list", "watch"}


def test_annotations_of_the_priorities() -> None:
    values = {"priorities": {"10": [".*"]}, "prioritiesAnnotations": {"owner": "team"}}
    config_map = one(chart_of({"autoscaler": values}), "ConfigMap")
    assert config_map["metadata"]["annotations"] == {"owner": "team"}


def test_helm_test_asks_each_process_with_the_image_of_the_release(tmp_path: Path) -> None:
    objects = chart_of(
        {**BOTH, "image": {"repository": "registry.example/w"}, "networkPolicy": {"metricsFrom": [{"podSelector": {}}]}}
    )
    pod = one(objects, "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.example/w:0.1.0"
    assert container["args"] == [
        f"http://windlass-autoscaler.{NAMESPACE}.svc:8085/health-check",
        f"http://windlass-operator.{NAMESPACE}.svc:8080/healthz",
    ]
    services = {body["metadata"]["name"]: body for body in of_kind(objects, "Service")}
    assert services["windlass-autoscaler"]["spec"]["ports"][0]["port"] == 8085
    # A policy that lets Prometheus in lets this pod in.
    for policy in of_kind(objects, "NetworkPolicy"):
        _, own = policy["spec"]["ingress"][0]["from"]
        assert own["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert of_kind(chart_of({"autoscaler": {"service": {"enabled": False}}}), "Pod") == []


def test_helm_test_fails_where_a_process_is_not_well() -> None:
    (container,) = one(chart_of({}), "Pod")["spec"]["containers"]
    program, *words = container["command"]
    assert program == "python3"
    serve = (
        "import http.server as h\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/health-check' else 500); self.end_headers()\n"
        "s = h.HTTPServer(('127.0.0.1', 0), H); print(s.server_port, flush=True); s.serve_forever()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", serve], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            for path, wanted in (("/health-check", 0), ("/unwell", 1)):
                done = subprocess.run(
                    [sys.executable, *words, f"{address}{path}"], capture_output=True, text=True, check=False
                )
                assert done.returncode == wanted, done.stderr
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("values", "told", "not_told"),
    [
        ((), "helm test windlass -n windlass-system", "windlass operator"),
        ((), "set\nimage.repository", "changes nothing"),
        (
            ("image.repository=registry.example/w", "autoscaler.mode=shadow"),
            "(shadow: it changes nothing)",
            "set\nimage",
        ),
        (
            ("operator.controllers={machine_pool}",),
            "Turn Cluster API's own MachinePool controller off",
            "Nothing is deployed",
        ),
        (("autoscaler.enabled=false",), "Nothing is deployed", "rollout status"),
    ],
)
def test_notes_say_what_to_do_next(values: tuple[str, ...], told: str, not_told: str) -> None:
    chosen = [word for value in values for word in ("--set", value)]
    words = ("install", "windlass", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", *chosen)
    made = rendered_manifests.helm(*words)
    assert made.returncode == 0, made.stderr
    _, _, notes = made.stdout.partition("NOTES:\n")
    assert told in notes
    assert not_told not in notes


def test_what_catalogues_show_is_what_the_chart_has() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    annotations = about["annotations"]
    (image,) = yaml.safe_load(annotations["artifacthub.io/images"])
    assert image["image"] == pod_of(chart_of({}))["containers"][0]["image"]
    told = {
        (item["name"], item["kind"], item["version"]) for item in yaml.safe_load(annotations["artifacthub.io/crds"])
    }
    definitions = [yaml.safe_load(path.read_text()) for path in sorted(path_of("crds").glob("*.yaml"))]
    assert told == {
        (body["metadata"]["name"], body["spec"]["names"]["kind"], body["spec"]["versions"][0]["name"])
        for body in definitions
    }
    assert {change["kind"] for change in yaml.safe_load(annotations["artifacthub.io/changes"])} <= {
        "added",
        "changed",
        "fixed",
    }
    assert yaml.safe_load(annotations["artifacthub.io/links"])
    assert annotations["artifacthub.io/license"] == "Apache-2.0"


def test_the_icon_is_the_drawing_of_the_documents() -> None:
    import base64

    kind, _, data = yaml.safe_load((CHART / "Chart.yaml").read_text())["icon"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    drawing = (source_analysis.ROOT / "docs" / "pictures" / "icon.svg").read_text()
    assert base64.b64decode(data).decode() == drawing.replace("\n", "")


def test_the_package_has_the_readme_and_no_leftovers(tmp_path: Path) -> None:
    import shutil
    import tarfile

    place = tmp_path / "windlass"
    shutil.copytree(CHART, place)
    for name in (".git/config", "values.yaml.orig", "notes.swp", "old-0.0.1.tgz"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("left")
    made = rendered_manifests.helm("package", str(place), "--destination", str(tmp_path))
    assert made.returncode == 0, made.stderr
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as packed:
        names = {name.removeprefix("windlass/") for name in packed.getnames()}
    assert {"README.md", "Chart.yaml", "values.schema.json", "files/flags.yaml", "templates/tests/health.yaml"} <= names
    assert not any(name.endswith((".orig", ".swp", ".tgz")) or name.startswith(".git/") for name in names)
    shown = rendered_manifests.helm("show", "readme", str(package))
    assert shown.stdout.strip() == (CHART / "README.md").read_text().strip()
