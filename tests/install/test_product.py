"""Names: manifests, messages and documents use those of `windlass.product`, and none that somebody else could own."""

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

from tests.install import rendered_manifests
from tests.install.containerfile import ROOT
from windlass import product

MANIFEST = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOREIGN_DISTRIBUTION = re.compile(r"""(?:pip install|--requirement[= ]|["'`])\s*["']?windlass\[""")


def find_tracked_texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    found = {}
    for path in map(Path, filter(None, names)):
        if path.suffix not in {".png", ".gz", ".bin"} and (ROOT / path).is_file():
            found[path.as_posix()] = (ROOT / path).read_text(errors="replace")
    return found


def test_the_distribution_is_the_one_that_is_built() -> None:
    assert MANIFEST["project"]["name"] == product.DISTRIBUTION
    assert product.version() == MANIFEST["project"]["version"]


def test_nothing_names_the_package_of_somebody_else_or_a_domain_of_nobody() -> None:
    texts = find_tracked_texts()
    own = {
        "src/windlass/product.py",
        "tests/install/test_product.py",
        "docs/decisions/094-names-that-are-ours.md",
        "CHANGELOG.md",
        "docs/reference/annotations.md",
        "tools/annotations_reference.yaml",
    }
    asked = {name for name, text in texts.items() if FOREIGN_DISTRIBUTION.search(text)} - own
    linked = {name for name, text in texts.items() if re.search(r"https?://[\w.-]*windlass\.", text)} - own
    annotated = {name for name, text in texts.items() if product.FORMER_PRICE_ANNOTATION in text} - own
    history = {"docs/decisions/094-names-that-are-ours.md", "tests/install/test_product.py"}
    rest = {name: text.replace(product.FORMER_PRICE_ANNOTATION, "") for name, text in texts.items()}
    named = {name for name, text in rest.items() if "windlass.dev" in text} - history
    assert (asked, linked, named) == (set(), set(), set())
    policy = "admission/node-group-annotations.yaml"
    assert annotated <= {f"deploy/{policy}", f"deploy/helm/windlass/files/{policy}"}, "still validated"


def test_links_lead_into_the_repository_until_a_site_is_configured() -> None:
    assert (ROOT / "docs" / "runbook.md").is_file()
    assert "home" not in yaml.safe_load((ROOT / "deploy/helm/windlass/Chart.yaml").read_text())


def test_the_chart_links_alerts_to_where_the_runbook_is_served() -> None:
    base = "https://runbooks.example/windlass/"
    enabled = "monitoring.prometheusRule.enabled=true"
    for values, start in (
        ((enabled,), "docs/runbook.md#"),
        ((enabled, f"monitoring.prometheusRule.runbook={base}"), base),
    ):
        (rule,) = [item for item in rendered_manifests.chart(values) if item["kind"] == "PrometheusRule"]
        links = {alert["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for alert in group["rules"]}
        assert all(re.fullmatch(re.escape(start) + "windlass[a-z]+", link) for link in links), links
