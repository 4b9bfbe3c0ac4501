"""Wrong command lines: mistakes that people make, as many as can be thought of.

`python -m tests.cli.wrong_command_lines` runs each as a process of its own and prints the slowest.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

COMMANDS = (
    "apiserver",
    "completion",
    "explain",
    "fit",
    "operator",
    "plan",
    "replay",
    "simulate",
    "status",
    "sweep",
    "top",
    "version",
)

OPTIONS_WITH_VALUE = {
    "simulate burst": (
        "compare",
        "seed",
        "set",
        "trace",
        "compress",
        "report",
        "record",
        "output",
        "serve-address",
        "speed",
    ),
    "sweep burst": ("try", "runs", "seeds", "seed", "set", "trace", "compress", "processes", "dask", "out", "output"),
    "status": ("output", "address", "recording", "at"),
    "explain pod a": ("namespace", "output", "address", "recording", "at"),
    "plan": ("output", "kubeconfig", "context", "request-timeout"),
    "fit": ("output", "explain", "scheduler-config-file", "kube-scheduler-version"),
    "top": ("address", "token", "token-file", "certificate-authority", "recording", "at"),
    "replay": ("with", "at"),
    "apiserver": ("port", "address", "kubeconfig", "crds", "objects"),
    "operator": ("controllers", "concurrency", "kubeconfig", "context", "namespace"),
    "version": ("output",),
}

NUMBERS = {
    "simulate burst": ("seed", "compress"),
    "sweep burst --try --expander=price": ("runs", "seeds", "seed", "compress", "processes"),
    "apiserver": ("port",),
    "operator": ("concurrency",),
}

ADDRESSES = (
    "localhost:abc",
    "localhost",
    ":",
    "::::",
    "ftp://here:1",
    "here:99999999",
    "http://",
    "https://#token=a",
    "a b:1",
    "[::1",
    "127.0.0.1:1",
    ":1",
    "user@host:1",
    "\N{SNOWMAN}:1",
    "host:-1",
)

TIMES = ("noon", "", "-", "2026-13-45T99:99:99Z", "1x", "99999999999999h", "1h30", "nan", "2026-11-16")

SETS = (
    "",
    "=",
    "seed",
    "seed=",
    "seed=many",
    "groups=1",
    "groups.none.max=1",
    "groups.general=",
    "workloads.x.replicas=1",
    "workloads.99.replicas=1",
    "duration=soon",
    "duration=-1h",
    "nothing=1",
    "flags.expandr=price",
    "flags.expander=cheap",
    "groups..max=1",
    "...",
    "groups.general.max=1e99999",
    "[=1",
    "faults=5",
)

FLAGS = (
    "--scan-intervall=1s",
    "--max-nodes-total=many",
    "--cores-total=4",
    "--expander=cheapest",
    "--scan-interval=soon",
    "--v=loud",
    "--cloud-provider=aws",
    "--address=nowhere",
    "--feature-gates=A",
    "--unknown",
    "-x",
    "--=1",
    "---v=1",
    "--memory-total=a:b",
    "--gpu-total=x",
    "--behavior=mine",
    "--max-node-provision-time=-",
    "--balance-similar-node-groups=perhaps",
    "--logging-format=xml",
    "--kube-client-qps=x",
    "--namespace=Not A Name",
    "--leader-elect-resource-name=a_b",
    "--leader-elect-resource-namespace=a.b",
    "--status-config-map-name=A",
    "--memory-config-map=a/b",
)

KUBECONFIGS = {
    "empty": "",
    "not-yaml": "{",
    "a-list": "[]",
    "a-number": "5",
    "no-context": "{kind: Config}",
    "no-cluster": "{current-context: a, contexts: [{name: a, context: {cluster: b}}]}",
    "no-server": "{current-context: a, contexts: [{name: a, context: {cluster: a}}], "
    "clusters: [{name: a, cluster: {}}]}",
    "refused": "{current-context: a, contexts: [{name: a, context: {cluster: a}}], "
    "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}",
    "odd-server": "{current-context: a, contexts: [{name: a, context: {cluster: a}}], "
    "clusters: [{name: a, cluster: {server: 'ssh://x'}}]}",
    "insecure": "{current-context: a, contexts: [{name: a, context: {cluster: a}}], "
    "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]}",
    "no-user": "{current-context: a, contexts: [{name: a, context: {cluster: a, user: u}}], "
    "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}",
    "wrong-types": "{current-context: 5, contexts: {}, clusters: 7}",
}

SCENARIOS = {
    "empty": "",
    "text": "hello",
    "list": "- a",
    "number": "7",
    "unclosed": "{a: [",
    "unknown": "foo: 1\n",
    "tabs": "\tname: x\n",
    "nul": "name: \0",
    "deep": "[" * 3000,
    "alias-bomb": "a: &a [1]\nb: [*a, *a, *c]\n",
    "two": "---\nname: a\n---\nname: b\n",
    "types": "name: 5\nduration: []\ngroups: 7\n",
}


def find_wrong(folder: Path) -> Iterator[list[str]]:
    """Yield command lines that cannot be carried out. Files that they name are written below the folder."""
    for word in (
        "simul",
        "sttaus",
        "exlpain",
        "foo",
        "",
        " ",
        "--nope",
        "-z",
        "--",
        "status.",
        "Version",
        "\N{SNOWMAN}",
    ):
        yield [word]
    for command in COMMANDS:
        if command not in ("plan", "status", "operator", "apiserver"):
            yield [command, "--no-such-option"]
        yield [command, "--no-such-option=1", "x", "y", "z"]
    for command, names in OPTIONS_WITH_VALUE.items():
        yield from ([*command.split(), f"--{name}"] for name in names)
        yield from ([*command.split(), f"--{name[:-1]}x", "1"] for name in names)
    for command, names in NUMBERS.items():
        yield from ([*command.split(), f"--{name}", value] for name in names for value in ("x", "", "1.5x", "0x"))
    for address in ADDRESSES:
        yield from ([*words, "--address", address] for words in (["status"], ["explain", "node", "a"]))
    recording = folder / "no.rec"
    recording.write_bytes(b"windlass recording 1\nnonsense")
    for name in (recording, folder, folder / "missing", "/dev/null"):
        yield ["replay", str(name)]
        yield ["status", "--recording", str(name)]
        yield ["explain", "group", "g", "--recording", str(name), "--at", "5m"]
    yield from (["replay", str(recording), "--at", at] for at in TIMES)
    yield from (["simulate", "burst", "--report=", "--set", given] for given in SETS)
    yield from (["simulate", "burst", "--report=", "--compare", flag] for flag in FLAGS)
    yield from (["plan", flag] for flag in (*FLAGS, "--node-group-auto-discovery=x:y"))
    yield from (["sweep", "burst", "--out", str(folder / "out"), "--try", tried] for tried in _find_tried())
    for name, text in KUBECONFIGS.items():
        path = folder / f"{name}.kubeconfig"
        path.write_text(text)
        yield ["plan", f"--kubeconfig={path}"]
    yield ["plan", f"--kubeconfig={folder}"]
    yield ["plan", f"--kubeconfig={folder / 'refused.kubeconfig'}", "--context=other"]
    for name, text in SCENARIOS.items():
        path = folder / f"{name}.yaml"
        path.write_text(text)
        yield ["simulate", str(path), "--report="]
        yield ["simulate", "burst", "--report", str(path)] if text else ["simulate", str(path)]
    for place in ("/no/such/place/x", str(folder), "/dev/null/x", "/proc/x"):
        yield ["simulate", "burst", "--report", place]
        yield ["simulate", "burst", "--report=", "--record", place]
    yield from (["simulate", scenario] for scenario in ("brust", "/", "", "no.yaml", "-", "day.yml"))
    yield ["simulate", "burst", "--trace", str(folder / "missing")]
    yield ["simulate", "burst", "--record", str(folder / "a.rec"), "--compare", "--expander=price"]
    yield ["simulate", "burst", "--serve", "--compare", "--expander=price"]
    yield from (
        ["fit", str(name)] for name in (folder, folder / "missing", folder / "unclosed.yaml", folder / "nul.yaml")
    )
    yield from _find_endless(folder)
    yield from _find_too_large(folder)
    yield ["explain", "pod"]
    yield ["explain", "pod", "a\nb\nc\nd", "--recording", str(folder / "no.rec")]
    yield ["explain", "pod", "a", "-n", "\x1b[31m", "--recording", str(folder / "no.rec")]
    yield ["\x1b[31mred"]
    yield ["explain", "machine", "a"]
    yield ["completion", "tcsh"]
    yield ["operator", "--controllers=none_such"]
    yield from (
        ["operator", f"--kubeconfig={folder / 'refused.kubeconfig'}", wrong]
        for wrong in (
            "--concurrency=0",
            "--concurrency=-4",
            "--kube-api-qps=-1",
            "--kube-api-qps=nan",
            "--kube-api-burst=0",
            "--namespace=Not A Name",
            "--leader-elect-namespace=a.b",
            "--eks-anywhere-namespace=A",
            "--lattice-autoscaler-discovery=/",
        )
    )
    yield ["apiserver", "--crds", str(folder / "missing")]
    yield ["apiserver", "--port=0", "--crds", str(folder / "unreadable.yaml")]
    yield ["apiserver", "--objects", str(folder / "unclosed.yaml")]
    yield ["apiserver", "--address", "999.1.1.1"]
    yield ["top"]


ENDLESS = "/dev/zero"


def _find_endless(folder: Path) -> Iterator[list[str]]:
    """Files that never end: reading one takes all memory there is."""
    yield ["simulate", ENDLESS, "--report="]
    yield ["simulate", "--from", ENDLESS, "--report="]
    yield ["simulate", "--trace", ENDLESS, "--report="]
    yield ["fit", ENDLESS]
    yield ["fit", str(folder / "types.yaml"), "--scheduler-config-file", ENDLESS]
    yield ["plan", f"--kubeconfig={ENDLESS}"]
    yield ["plan", f"--kubeconfig={folder / 'refused.kubeconfig'}", f"--scheduler-config-file={ENDLESS}"]
    yield ["status", "--address", "127.0.0.1:1", "--token-file", ENDLESS]
    yield ["capture", "--recording", ENDLESS]
    yield ["capture", "--recording", str(folder / "no.rec"), "--anonymise", "--key-file", ENDLESS]
    yield ["apiserver", "--port=0", "--objects", ENDLESS]
    yield ["apiserver", "--port=0", "--crds", ENDLESS]
    yield ["apiserver", "--port=0", "--kubeconfig", ENDLESS]
    yield ["replay", ENDLESS]
    yield ["sweep", ENDLESS, "--try=--expander=price"]
    yield ["operator", "--kubeconfig", ENDLESS]
    yield ["simulate", "burst", "--report=", "--record", "/dev/null"]


def _find_too_large(folder: Path) -> Iterator[list[str]]:
    """Scenarios that no machine can hold, and names that no file can have."""
    group = "name: x\nduration: 1h\ngroups: [{name: a, max: 3, capacity: {cpu: 4, memory: 8Gi}}]\n"
    (folder / "fine.yaml").write_text(group)
    fine = str(folder / "fine.yaml")
    for change in (
        "groups.a.max=99999999999999999999",
        "groups.a.initial=999999999",
        "groups.a.min=999999999",
        "workloads=[{name: w, replicas: 999999999, requests: {cpu: 1}}]",
        "name=../../x",
        "name=a/b",
        'name="a\\nb"',
        "name=",
        f"name={'n' * 200}",
    ):
        yield ["simulate", fine, "--report=", "--set", change]
    yield ["simulate", fine, fine]
    yield ["simulate", fine, "--report=", "--compare", "'"]
    yield ["simulate", "b" * 5000]
    (folder / "unreadable.yaml").write_text("kind: Node\n")
    yield ["fit", str(folder / "unreadable.yaml")]


def _find_tried() -> tuple[str, ...]:
    return (
        "",
        "expander",
        "--expandr=price",
        "--expander=",
        "--expander=cheap",
        "--max-nodes-total=1..",
        "--scan-interval=5..1",
        "--max-nodes-total=a..b:3",
        "--max-nodes-total=1..5:0",
        "--address=:1",
    )


def main() -> None:
    """Run each as a process."""
    took: list[tuple[float, list[str], int, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for words in find_wrong(Path(folder)):
            began_s = time.monotonic()
            ran = subprocess.run(
                [sys.executable, "-m", "windlass", *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
                stdin=subprocess.DEVNULL,
                cwd=folder,
            )
            took.append((time.monotonic() - began_s, words, ran.returncode, ran.stderr))
    bad = [entry for entry in took if not entry[2] or "Traceback" in entry[3] or not 1 <= entry[3].count("\n") <= 2]
    for entry in [*bad, *sorted(took, reverse=True)[:5]]:
        print(f"{entry[0]:.2f} s  exit {entry[2]}  {entry[1]}\n  {entry[3].strip()}")
    print(f"{len(took)} command lines, {len(bad)} answered badly, the slowest in {max(took)[0]:.2f} s")


if __name__ == "__main__":
    main()
