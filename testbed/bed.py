"""A control plane that is up, and how it comes up."""

import json
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import api, cache, clusterapi, components, health, keeper, manifests, parts, pki, ports, processes, site

_DEFAULT = "/api/v1/namespaces/default"


@dataclass(frozen=True, slots=True)
class Bed:
    """A control plane that is up."""

    site: site.Site

    @property
    def kubeconfig(self) -> Path:
        """Of someone who may do everything. `site.kubeconfig` has the others."""
        return self.site.kubeconfig("admin")

    @property
    def api(self) -> api.Api:
        return api.Api(self.kubeconfig)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints, asked as the user of `kubeconfig`."""
        command = [cache.binary(components.KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(command, input=stdin, check=True, stdout=subprocess.PIPE, text=True).stdout

    def kill(self, name: str) -> None:
        """End one process at once, as a crash does."""
        processes.end(self.site.directory, name)

    def start(self, name: str) -> None:
        """Start one process again, on the same port and data, and wait until it is well."""
        part = self._part(name)
        self._launch(part)
        self._wait(part)

    def compact(self) -> int:
        """Let etcd forget everything before its newest revision, which is returned.

        What the API server keeps in its own watch cache stays; `kill` and `start` it to drop that too.
        """
        revision = _ask_etcd(f"{self.site.etcd}/v3/maintenance/status", {})["header"]["revision"]
        _ask_etcd(f"{self.site.etcd}/v3/kv/compaction", {"revision": revision, "physical": True})
        return int(revision)

    def bring_up(self) -> None:
        """Start each part as soon as what it needs is there, and wait for all."""
        first, second, *others = parts.of(self.site)
        self._launch(first)
        self._launch(second)  # retries until etcd answers
        self._wait(second)
        for part in others:
            if part.name == "capi-manager":
                clusterapi.install(self.api, self.site)
            self._launch(part)
        for part in others:
            self._wait(part)
        # Controllers are well before they have done anything, and without this no pod can be made.
        api.wait_for("ServiceAccount default", lambda: self.api.get(f"{_DEFAULT}/serviceaccounts/default"))

    def _part(self, name: str) -> parts.Part:
        return next(part for part in parts.of(self.site) if part.name == name)

    def _launch(self, part: parts.Part) -> None:
        started = processes.start(self.site.directory, part.name, part.command, part.environment)
        if part.goes_first:
            processes.let_go_first(started)

    def _wait(self, part: parts.Part) -> None:
        health.wait_well(part, self.site.directory, self.site.files.ca)


def load(directory: Path) -> Bed | None:
    """The test bed that is up in a directory, if there is one. One whose processes are all gone is not."""
    found = site.load(directory.resolve())
    return Bed(found) if found is not None and processes.alive(directory) else None


def up(directory: Path, choice: site.Choice) -> Bed:
    """Start a test bed that stays until someone takes it down. Everything in it is new, whatever was there."""
    missing = [component.name for component in cache.missing()]
    if missing:
        raise processes.DidNotStart(f"not built: {', '.join(missing)}. Run `python -m testbed build` (needs Go)")
    keeper.take_down(directory)
    directory.chmod(0o700)
    (directory / "log").mkdir(exist_ok=True)
    bed = Bed(site.Site(directory.resolve(), ports.choose(), choice))
    pki.make(bed.site.files, directory / "kubeconfig", bed.site.server)
    bed.site.stages.parent.mkdir()
    manifests.write_stages(bed.site.stages)
    if choice.audited:
        manifests.write_audit_policy(bed.site.audit_policy)
    try:
        bed.bring_up()
    except BaseException:
        keeper.take_down(directory)
        raise
    bed.site.save()
    return bed


def _ask_etcd(address: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
