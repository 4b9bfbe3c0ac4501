"""`windlass fit`: where would each pending pod fit?"""

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from windlass import errors

if TYPE_CHECKING:
    from windlass.cli import fit_report

_FileArgument = Annotated[str, Parameter(name="FILE", allow_leading_hyphen=True)]
"""A hyphen alone is standard input."""

_WIDTH = 100
"""Columns of the report where the output is no terminal."""


def fit(
    first: _FileArgument,
    /,
    *more: _FileArgument,
    output: Annotated[Literal["table", "wide", "json", "yaml", "name"], Parameter(name=["--output", "-o"])] = "table",
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None,
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative=())] = False,
    explain: str | None = None,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative=(), show_default=False)] = False,
    check: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    scheduler_config_file: Path | None = None,
    kube_scheduler_version: Literal["1.36", "1.37"] = "1.36",
) -> int:
    """Print for each pending pod on which nodes it fits, or why it fits on none.

    Reads the output of kubectl, from files or from standard input:

    kubectl get nodes,pods,ns,pv,pvc,sc -A -o json | windlass fit -

    Where volumes matter, add csinodes,csidrivers,csistoragecapacities,volumeattachments.
    Where devices do, add resourceslices,resourceclaims,deviceclasses and, since Kubernetes 1.37, devicetaintrules.

    Every pending pod is checked alone against the nodes and the pods on them, as in one cycle of kube-scheduler: pods
    that fit may still compete for the same room. Pods of one owner that are equal for all filters share a line.

    Exit code: 0 if the input could be read, 2 if not. With --check, 1 if a pod fits nowhere or an object could not
    be read.

    Parameters
    ----------
    first
        JSON or YAML: lists, single objects, several documents, JSON lines. `-` is standard input.
    more
        More files; all of them together describe one cluster.
    output
        `table` for people, `wide` with the verdict of each node, `json` or `yaml` for programs, `name` for the names of
        pods that fit nowhere.
    namespace
        Print pending pods of this namespace alone; those of others count all the same.
    all_namespaces
        Print pending pods of all namespaces, which is the default.
    explain
        Check only this pod (`namespace/name`, or `name`), node by node.
    verbose
        Check every pod node by node.
    check
        Exit with 1 unless every pod fits somewhere and every object could be read.
    scheduler_config_file
        A KubeSchedulerConfiguration with one profile: its disabled filters and plugin arguments apply.
    kube_scheduler_version
        The release of kube-scheduler whose filters are applied.
    """
    # Imported late, so that `windlass fit --help` does not load NumPy.
    from windlass import scheduler_releases
    from windlass.autoscaler import scheduler_config
    from windlass.autoscaler.readers import cluster_dump
    from windlass.cli import fit_analysis, manifest_input

    for source in (first, *more):
        if source.startswith("-") and source != manifest_input.STANDARD_INPUT:
            raise errors.InvalidInput(f"fit: no such option: {source}; see windlass fit --help")
    profile = (
        scheduler_config.load_profile(scheduler_config_file)
        if scheduler_config_file
        else scheduler_config.DEFAULT_PROFILE
    )
    objects = manifest_input.read_documents([first, *more])
    cluster_objects = cluster_dump.read_objects(objects, scheduler_releases.KNOWN_RELEASES[kube_scheduler_version])
    if not (cluster_objects.nodes or cluster_objects.pods):
        sources, bad = ", ".join((first, *more)), cluster_objects.set_aside
        what = f"no Node and no Pod that can be read ({bad[0]})" if bad else "no Node and no Pod"
        raise errors.InvalidInput(f"{sources}: found {what}, expected {manifest_input.EXPECTED_OBJECTS}")
    verbose = verbose or output == "wide"
    found = fit_analysis.make_report(
        cluster_objects, fit_analysis.find_scheduling_gates(objects), profile, explain, verbose=verbose
    )
    if namespace is not None and not all_namespaces:
        pending = tuple(one for one in found.pending if one.pod.startswith(f"{namespace}/"))
        found = dataclasses.replace(found, pending=pending)
    _print_report(found, output, each=verbose or explain is not None)
    is_sure = all(finding.fits for finding in found.pending) and not found.set_aside
    return 1 if check and not is_sure else 0


def _print_report(found: "fit_report.FitReport", output: str, *, each: bool) -> None:
    """Print the report on standard output and unreadable objects on standard error."""
    from windlass.cli import answer_output, fit_report, terminal_output

    width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    if output in ("json", "yaml"):
        print(answer_output.format_json(_encode_report(found), output))
    elif output == "name":
        pods = [pod for finding in found.pending if not finding.fits for pod in finding.pods]
        print(*(f"pod/{pod.rpartition('/')[2]}" for pod in pods), sep="\n")
    elif each:
        for finding in found.pending:
            print(*fit_report.finding_lines(finding, terminal_output.style_for(sys.stdout), width), "", sep="\n")
    else:
        print(*fit_report.report_lines(found, terminal_output.style_for(sys.stdout), width), sep="\n")
    sys.stdout.flush()  # keeps the order of both streams on one terminal
    told = list(fit_report.unreadable_lines(found, terminal_output.style_for(sys.stderr)))
    if told:
        print("", *told, sep="\n", file=sys.stderr)


def _encode_report(found: "fit_report.FitReport") -> bytes:
    import msgspec

    return msgspec.json.encode(found, enc_hook=str)
