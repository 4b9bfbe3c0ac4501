"""`windlass capture`: a scenario of the simulator from a cluster, a running autoscaler or a recording."""

import contextlib
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from windlass import errors, input_files
from windlass.cli import output_files, query_source

if TYPE_CHECKING:
    from windlass.engine.model.settings import Settings
    from windlass.simulator.capture.cluster_history import ClusterHistory
    from windlass.simulator.capture.scenario_writer import CapturedScenario

_KEY_BYTES = 32

_DEFAULT_NAME = "captured"


def capture_(
    *flags: Annotated[str, Parameter(name="FLAGS", allow_leading_hyphen=True)],
    recording: Path | None = None,
    address: str | None = None,
    token_file: Path | None = None,
    certificate_authority: Path | None = None,
    for_: Annotated[str | None, Parameter(name="--for")] = None,
    since: str | None = None,
    until: str | None = None,
    name: str | None = None,
    anonymise: Annotated[bool, Parameter(name=["--anonymise", "--anonymize"], negative=())] = False,
    key_file: Path | None = None,
    out: Path | None = None,
) -> int:
    """Write a scenario of what was observed: node groups, workloads and what happened to them.

    windlass capture --recording tuesday.rec --out tuesday.yaml

    windlass simulate --from tuesday.yaml --compare "--scale-down-unneeded-time=3m"

    Reads a recording (--recording), a running autoscaler (--address, or WINDLASS_ADDRESS; what it recorded with
    --record, else its cluster at this moment), or the cluster of the current kubeconfig, at this moment or for a time
    (--for). Changes nothing.

    Exit code: 0, or 2 if no source can be read.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`, where the cluster itself is read: --kubeconfig, --context …
    recording
        File written by --record. A file that was rotated out of it just before is read as well.
    address
        Address of a running autoscaler: HOST:PORT, as in its --address flag.
    token_file
        File with the token of the autoscaler's API, where it needs one.
    certificate_authority
        File with the certificate authority of the autoscaler, if the system does not trust it.
    for_
        Observe the cluster of the kubeconfig for this time: 2h30m. Ctrl-C ends it early.
    since
        Leave out what was recorded before: 2026-11-17T00:00:00Z, or 1h after the beginning of the recording.
    until
        Leave out what was recorded after.
    name
        Name of the scenario; that of the recording by default.
    anonymise
        Replace names of namespaces, workloads, groups, zones, labels and taints by keyed hashes, so that the scenario
        can be shared. Names of pods and nodes are never written.
    key_file
        File with the key of --anonymise; made if it does not exist. With the same key the same names get the same
        hashes. Without a file the key is random and is not kept.
    out
        File for the scenario; standard output by default. A scenario that is there is replaced, another file is not.
    """
    if out is not None:
        output_files.check("--out", out)
    if key_file is not None and not anonymise:
        raise errors.InvalidInput("--key-file: found without --anonymise, expected with it only")
    source = query_source.find_source(address, recording, None, flags)
    _check_options(source, since or until, for_)
    key = _read_key(key_file) if anonymise else b""
    if source.recording is not None:
        history, settings = _read_recording(source.recording, since, until)
        shown = f"the recording {source.recording.name}"
    elif source.server is not None:
        server = query_source.parse_server(address or source.server.url, None, token_file, certificate_authority)
        history, settings = _fetch_history(server)
        shown = "a running autoscaler"
    else:
        history, settings = _observe_history(flags, for_)
        shown = "a cluster"
    captured = _write(history, settings, name or _choose_name(recording), shown)
    if anonymise:
        captured = _anonymize(captured, key)
    _print(captured, out)
    return 0


def _check_options(source: query_source.QuerySource, window: str | None, for_: str | None) -> None:
    if window and source.recording is None:
        raise errors.InvalidInput("--since, --until: found no --recording, expected with --recording only")
    if for_ and (source.recording is not None or source.server is not None):
        raise errors.InvalidInput("--for: found another source, expected the cluster of the kubeconfig alone")
    _read_duration(for_)


def _read_duration(for_: str | None) -> float:
    from windlass.kube import time_formats

    if for_ is None:
        return 0.0
    try:
        duration_s = time_formats.parse_duration(for_)
    except ValueError:
        duration_s = 0.0
    if not 0.0 < duration_s < float("inf"):
        raise errors.InvalidInput(f"--for: found {for_!r}, expected a time such as 30m or 2h30m")
    return duration_s


def _choose_name(recording: Path | None) -> str:
    return _DEFAULT_NAME if recording is None else recording.name.partition(".")[0] or _DEFAULT_NAME


def read_recorded_scenario(path: Path) -> str:
    """The text of the scenario of a recording."""
    return _write(*_read_recording(path, None, None), _choose_name(path), f"the recording {path.name}").render()


def _write(history: "ClusterHistory", settings: "Settings", name: str, shown: str) -> "CapturedScenario":
    from windlass.kube import time_formats
    from windlass.simulator.capture import scenario_writer

    times = f"{time_formats.format_time(history.begin_s)} to {time_formats.format_time(history.end_s)}"
    return scenario_writer.write_scenario(history, settings, name, f"Captured from {shown}, {times}.")


# ── Sources ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_recording(path: Path, since: str | None, until: str | None) -> "tuple[ClusterHistory, Settings]":
    from windlass.simulator.capture import cluster_history

    first = cluster_history.list_parts(path)[0]
    since_s = query_source.parse_time(since, first, "--since") if since else float("-inf")
    until_s = query_source.parse_time(until, first, "--until") if until else float("inf")
    if since_s > until_s:
        raise errors.InvalidInput(f"--since: found {since!r}, expected a time before --until")
    return cluster_history.read_history(path, since_s, until_s)


def _fetch_history(server: query_source.StatusServer) -> "tuple[ClusterHistory, Settings]":
    """The recording of a running autoscaler, or its cluster at this moment."""
    from windlass.autoscaler import http_endpoints
    from windlass.autoscaler.record_replay import recording_file
    from windlass.simulator.capture import cluster_history

    with tempfile.TemporaryDirectory(prefix="windlass-capture-") as folder:
        path = Path(folder) / "running.rec"
        with contextlib.suppress(query_source.ObjectNotFound):
            older = query_source.fetch(server, http_endpoints.RECORDING_PATH, "?part=older")
            recording_file.rotated_path(path).write_bytes(older)
        path.write_bytes(query_source.fetch(server, http_endpoints.RECORDING_PATH))
        return cluster_history.read_history(path)


def _observe_history(flags: Sequence[str], for_: str | None) -> "tuple[ClusterHistory, Settings]":
    from windlass.simulator.capture import cluster_history

    command = query_source.parse_flags(flags)
    if for_ is None:
        observation, _, settings, now_s = query_source.observe_cluster(command)
        builder = cluster_history.HistoryBuilder(settings.scale_down.scan_interval_s)
        builder.observe(observation, now_s)
        return builder.history, settings
    with tempfile.TemporaryDirectory(prefix="windlass-capture-") as folder:
        path = Path(folder) / "observed.rec"
        print(f"windlass: observing the cluster for {for_}; Ctrl-C ends it early", file=sys.stderr)
        query_source.record_cluster(command, path, _read_duration(for_))
        return cluster_history.read_history(path)


# ── Names ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_key(file: Path | None) -> bytes:
    if file is None:
        return secrets.token_bytes(_KEY_BYTES)
    try:
        if not file.exists():
            file.touch(mode=0o600, exist_ok=False)
            file.write_text(secrets.token_hex(_KEY_BYTES) + "\n")
        key = input_files.read_bytes(file).strip()
    except (OSError, ValueError) as error:
        raise errors.InvalidInput(f"--key-file {file}: cannot be used: {error}") from None
    if not key:
        raise errors.InvalidInput(f"--key-file {file}: found nothing, expected a key")
    return key


def _anonymize(captured: "CapturedScenario", key: bytes) -> "CapturedScenario":
    from windlass.simulator.capture import anonymizer, scenario_writer

    return scenario_writer.CapturedScenario(*anonymizer.Anonymizer(key).anonymize(captured.plain, captured.left_out))


def _print(captured: "CapturedScenario", out: Path | None) -> None:
    text = captured.render()
    for what in captured.left_out:
        print(f"windlass: not captured: {what}", file=sys.stderr)
    if out is None:
        print(text, end="")
        return
    out.write_text(text, encoding="utf-8")
    counts = ", ".join(f"{len(captured.plain.get(part, ()))} {part}" for part in ("groups", "workloads"))
    steps = len(captured.plain.get("timeline", ()))
    print(f"scenario: {out}, {counts}, {steps} steps; windlass simulate --from {out}")
