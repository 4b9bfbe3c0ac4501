"""Recordings as sources of a history: the file, and what was rotated out of it just before."""

from collections.abc import Iterator
from pathlib import Path

from windlass import errors
from windlass.autoscaler.record_replay import recording_file, replay
from windlass.engine.model.settings import Settings
from windlass.simulator.capture import cluster_history

_CONTIGUOUS_S = 3600.0
"""Longest time between the end of a rotated file and the beginning of the next that they are read as one."""


def read_history(
    path: Path, since_s: float = float("-inf"), until_s: float = float("inf")
) -> tuple[cluster_history.ClusterHistory, Settings]:
    """The history between two times, and the last settings. InvalidInput if nothing was recorded then."""
    builder: cluster_history.HistoryBuilder | None = None
    settings = Settings()
    for part in list_parts(path):
        recording = replay.Recording(part)
        settings = recording.settings
        if builder is None:
            builder = cluster_history.HistoryBuilder(settings.scale_down.scan_interval_s)
        first = _find_first(part, since_s)
        for step in recording:
            if step.now_s > until_s:
                break
            if step.number >= first:
                builder.observe(step.seen, max(step.now_s, since_s))
    if builder is None or not builder.history.groups or builder.history.end_s <= since_s:
        raise errors.InvalidInput(f"{path}: found no node group in the recorded time, expected one or more")
    return builder.history, settings


def _find_first(path: Path, since_s: float) -> int:
    """The number of the step that shows the state at a time: the last one until then."""
    before = [number for number, at_s in enumerate(_list_times(path)) if number and at_s <= since_s]
    return max(before, default=0)


def list_parts(path: Path) -> list[Path]:
    """The rotated file, if it ends where this one begins, and this one."""
    older = recording_file.rotated_path(path)
    if not older.exists():
        return [path]
    try:
        end_s = max(_list_times(older), default=0.0)
        begin_s = next(_list_times(path), float("inf"))
    except errors.InvalidInput:
        return [path]
    return [older, path] if 0.0 <= begin_s - end_s <= _CONTIGUOUS_S else [path]


def _list_times(path: Path) -> Iterator[float]:
    return (float(frame["at_s"]) for frame in recording_file.read_frames(path))
