"""`python -m testbed build | up | down | status`: a real control plane on this machine, without containers or root."""

import argparse
import sys
from pathlib import Path

from testbed import bed, building, cache, clusterapi, components, keeper, objects, processes
from testbed.site import Choice


def main() -> int:
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except (building.BuildFailed, processes.DidNotStart) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="build | up | down | status")
    build = commands.add_parser("build", help="compile what is missing, once per version (takes Go)")
    build.add_argument("--jobs", type=int, default=0, help="packages compiled at once; by default as many as cores")
    build.add_argument("--if-possible", action="store_true", help="without Go, say what is missing and succeed")
    build.set_defaults(run=_build)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--directory", type=Path, default=cache.root() / "up", help="logs, keys, data (%(default)s)")
    up = commands.add_parser("up", parents=[where], help="start one that stays, and say how to use it")
    up.add_argument("--bare", action="store_true", help="only what an API client needs: no nodes, no Cluster API")
    up.set_defaults(run=_up)
    commands.add_parser("down", parents=[where], help="end it").set_defaults(run=_down)
    commands.add_parser("status", parents=[where], help="what runs, and how large it is").set_defaults(run=_status)
    keep = commands.add_parser("keep", description="End a test bed once nobody uses it; started by the library.")
    keep.add_argument("directory", type=Path)
    keep.set_defaults(run=lambda arguments: keeper.keep(arguments.directory))
    return parser


def _build(arguments: argparse.Namespace) -> None:
    if arguments.if_possible and not building.has_go():
        if missing := [component.name for component in cache.missing(components.EVERY + components.TOOLS)]:
            what = "TESTS ON THE REAL CONTROL PLANE" if cache.missing() else "SOME TESTS"
            print(f"NO GO HERE: {what} WILL BE SKIPPED (Go 1.26 or newer builds {', '.join(missing)})", file=sys.stderr)
        return
    building.build(arguments.jobs)
    for tool in components.TOOLS:
        building.build_tool(tool, arguments.jobs)


def _up(arguments: argparse.Namespace) -> None:
    directory: Path = arguments.directory
    if bed.load(directory):
        raise processes.DidNotStart(f"already up in {directory}; `python -m testbed down` ends it")
    directory.mkdir(parents=True, exist_ok=True)
    full = not arguments.bare
    found = bed.up(directory, Choice(scheduler=full, kwok=full, capi=full))
    if full:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        for body in objects.machine_deployment("workers", 1):
            found.api.add(body)
    _report(found)


def _report(found: bed.Bed) -> None:
    kubectl = cache.binary(components.KUBECTL)
    print(f"export KUBECONFIG={found.kubeconfig}\nalias kubectl={kubectl}")
    hint = "kubectl scale machinedeployment workers --replicas=3; kubectl get nodes -w"
    print(f"# logs: {found.site.directory / 'log'}", file=sys.stderr)
    print(f"# try: {hint if found.site.choice.capi else 'kubectl get namespaces'}", file=sys.stderr)


def _down(arguments: argparse.Namespace) -> None:
    keeper.take_down(arguments.directory)


def _status(arguments: argparse.Namespace) -> None:
    every = components.EVERY + components.TOOLS
    for component in every:
        state = "built" if component not in cache.missing(every) else "not built"
        print(f"{component.name:25} {component.version:10} {state}")
    found = bed.load(arguments.directory)
    if found is None:
        print(f"nothing is up in {arguments.directory}")
        return
    for process in processes.alive(arguments.directory):
        print(f"{process.name:25} pid {process.pid:<8} {processes.resident_mb(process):5.0f} MB")
    _report(found)


if __name__ == "__main__":
    sys.exit(main())
