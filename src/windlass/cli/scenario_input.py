"""Scenario input: scenarios, traces and settings to compare, validated before any run starts."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

import windlass
from windlass import errors, input_files
from windlass.autoscaler.options import command_line, flags
from windlass.cli import capture, output_files
from windlass.kube import yaml_documents
from windlass.simulator import workload_trace
from windlass.simulator.scenario import loader, model

AS_WRITTEN = "as written"

_PACKAGE = Path(windlass.__file__).parent
_SCENARIO_FOLDERS = (_PACKAGE / "scenarios", _PACKAGE.parents[1] / "scenarios")
"""Folders in an installed package and in a working copy."""


def list_shipped() -> dict[str, Path]:
    """The scenarios that come with windlass, by name."""
    return {path.stem: path for place in _SCENARIO_FOLDERS for path in sorted(place.glob("*.yaml"))}


def read_scenarios(names: Sequence[str | Path], changes: Sequence[str], seed: int | None) -> list[model.Scenario]:
    """Read scenarios. InvalidInput names file, line and field of every mistake in all files."""
    scenarios, mistakes = list[model.Scenario](), list[str]()
    for name in names:
        try:
            story = _read_scenario(name if isinstance(name, Path) else _find_scenario(name), changes)
        except errors.InvalidInput as error:
            mistakes.append(str(error))
            continue
        scenarios.append(story if seed is None else msgspec.structs.replace(story, seed=seed))
    if mistakes:
        raise errors.InvalidInput("\n".join(mistakes))
    return scenarios


def _find_scenario(name: str) -> Path:
    path, known = Path(name), list_shipped()
    if path.exists() or path.suffix in (".yaml", ".yml") or "/" in name:
        return path
    if name not in known:
        raise errors.InvalidInput(f"{name:.100}: found no such file, accepted is a file or one of {', '.join(known)}")
    return known[name]


def _read_scenario(path: Path, changes: Sequence[str]) -> model.Scenario:
    text = _read_recorded(path)
    story = loader.load_scenario(path) if text is None else loader.parse_scenario(text, str(path))
    if not changes:
        return story
    plain = yaml.safe_load(input_files.read_text(path) if text is None else text)
    for change in changes:
        _set_field(plain, change)
    return loader.parse_scenario(yaml.safe_dump(plain, sort_keys=False), f"{path} with --set {' --set '.join(changes)}")


def _read_recorded(path: Path) -> str | None:
    """The scenario of a recording; None for another file."""
    try:
        with path.open("rb") as file:
            if file.read(len(output_files.RECORDING_BEGINNING)) != output_files.RECORDING_BEGINNING:
                return None
    except (OSError, ValueError):
        return None
    return capture.read_recorded_scenario(path)


def _set_field(plain: Any, change: str) -> None:
    """Set one field; items of a list are addressed by index or by name."""
    path, equals, value = change.partition("=")
    steps = path.split(".")
    if not equals or not all(steps):
        raise errors.InvalidInput(f"--set: found {change!r}, accepted is path.of.field=value")
    at = plain
    for step in steps[:-1]:
        at = _descend(at, step, change)
    if not isinstance(at, dict):
        raise errors.InvalidInput(f"--set {change}: found no fields in front of {steps[-1]!r}")
    try:
        at[steps[-1]] = yaml_documents.load_yaml(value)
    except yaml.YAMLError as error:
        raise errors.InvalidInput(f"--set {path}: found {value!r:.100}, expected YAML: {error}") from error


def _descend(at: Any, step: str, change: str) -> Any:
    if isinstance(at, dict):
        return at.setdefault(step, {})
    if isinstance(at, list):
        named = {str(part.get("name")): part for part in at if isinstance(part, dict)}
        numbered = {str(number): part for number, part in enumerate(at)}
        if step in named or step in numbered:
            return named.get(step, numbered.get(step))
        accepted = ", ".join(name for name in named if name != "None") or f"a number below {len(at)}"
        raise errors.InvalidInput(f"--set {change}: found {step!r}, accepted is {accepted}")
    raise errors.InvalidInput(f"--set {change}: found no field {step!r} there")


def read_trace(place: Path, compress: float, seed: int) -> tuple[model.Scenario, workload_trace.Trace]:
    """A trace, and the scenario that replays it."""
    folder, pods = (place, _find_table(place, "pods")) if place.is_dir() else (place.parent, place)
    trace = workload_trace.load_trace(pods, _find_table(folder, "nodes"), compress)
    name = (folder if place.is_dir() else place).name.partition(".")[0] or "trace"
    return workload_trace.make_scenario(trace, name, seed), trace


def _find_table(folder: Path, name: str) -> Path:
    for suffix in (".csv", ".csv.gz"):
        if (folder / f"{name}{suffix}").exists():
            return folder / f"{name}{suffix}"
    raise errors.InvalidInput(f"{folder}: found no {name}.csv, accepted is a folder with pods.csv and nodes.csv")


def read_settings(worlds: Sequence[model.Scenario], compared: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """The settings to run each scenario with: (label, flags on top of the scenario's)."""
    settings = [(AS_WRITTEN, dict[str, str]()), *((text, _split_flags(text)) for text in compared)]
    for world in worlds:
        for _, given in settings:
            _check_flags({**world.flags, **given})
    return settings


def _split_flags(text: str) -> dict[str, str]:
    try:
        words = command_line.split_arguments(shlex.split(text))
    except ValueError as error:  # a quotation mark without its other half
        raise errors.InvalidInput(f"--compare: found {text!r}: {str(error).lower()}") from None
    if words.stray or not words.given:
        raise errors.InvalidInput(f"--compare: found {text!r}, accepted are flags: --compare '--expander=price'")
    return {name: values[-1] for name, values in words.given.items()}


def _check_flags(given: dict[str, Any]) -> None:
    spelled = {name: [model.format_flag(value)] for name, value in given.items()}
    flags.parse_settings(spelled)
    flags.parse_process_options(spelled)
