"""The page about releases of kube-scheduler: what differs, and which gates change that."""

from tools import markdown_tables, source_analysis
from windlass import scheduler_releases


def page() -> str:
    told = {
        name: text for name, _, text in source_analysis.find_told("windlass.scheduler_releases", "SchedulerRelease")
    }
    known = list(scheduler_releases.KNOWN_RELEASES.values())
    names = " and ".join(scheduler_releases.KNOWN_RELEASES)
    lines = markdown_tables.begin(
        "Releases of kube-scheduler",
        f"Pods are filtered as kube-scheduler {names} filters them. The autoscaler asks its API server for its version "
        "when it starts, and applies the filters of that release; of the oldest or newest of these, where the server "
        "is older or newer. `--kube-scheduler-version` overrides that, and is the way to tell of a scheduler that is "
        "not of the server's version. After an upgrade of the control plane, restart the autoscaler. `windlass fit` "
        "takes the same option; simulations have a scheduler of 1.36. A recording keeps the release that it was made "
        "with.",
        "Whatever is not in this table is the same in all of them.",
    )
    changed = sorted(
        {
            name
            for scheduler_release in known[1:]
            for name in scheduler_releases.release_differences(known[0], scheduler_release)
        }
    )
    gated = {gate.field for gate in scheduler_releases.FEATURE_GATES.values()}
    rows = [
        [markdown_tables.code(name), *("yes" if getattr(one, name) else "no" for one in known), told[name]]
        for name in sorted({*changed, *gated})
    ]
    lines += markdown_tables.table(
        ["difference", *scheduler_releases.KNOWN_RELEASES, "what holds where it is yes"], rows
    )
    effective = "`--feature-gates` takes what kube-scheduler is started with. These have an effect:"
    lines += ["## Feature gates", "", effective, ""]
    gates = [
        [
            markdown_tables.code(name),
            markdown_tables.code(gate.field),
            ", ".join(
                version for version in scheduler_releases.KNOWN_RELEASES if version not in gate.locked | gate.unknown
            ),
        ]
        for name, gate in scheduler_releases.FEATURE_GATES.items()
    ]
    lines += markdown_tables.table(["gate", "difference", "releases"], gates)
    return "\n".join(lines)
