"""Scenario loader: YAML to `model.Scenario`; every mistake is reported with file, line and field.

For an unknown field or value, the message lists the accepted ones. Validation across fields: contradicting sizes,
unknown names, pods that fit no machine, unknown measures.
"""

import datetime
import difflib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from windlass import errors, input_files, quantity
from windlass.kube import yaml_documents
from windlass.simulator.scenario import model

MAX_REPLICAS = 2**31 - 1
"""Of a node group, as in Cluster API."""
MAX_MACHINES, MAX_PODS = 100_000, 1_000_000
"""Of one group at the beginning, and of one workload: ten times what has been measured, and what memory holds."""

_NAME = re.compile(r"(?![.\s])[^/\\\x00-\x1f\x7f]{1,100}")
"""Of a scenario: files are named after it."""

TOTAL_MEASURES = (
    "pods",
    "pods_that_waited",
    "pending_p50_s",
    "pending_p95_s",
    "pending_max_s",
    "pods_never_placed",
    "pods_given_up",
    "node_hours",
    "node_hours_lower_bound",
    "cost",
    "cost_lower_bound",
    "cost_ratio",
    "utilization_cpu",
    "utilization_memory",
    "evictions",
    "evictions_by_machines",
    "preemptions",
    "nodes_added",
    "nodes_removed",
    "scale_ups",
    "scale_downs",
    "most_nodes",
    "least_nodes",
    "violations",
)
"""Measures with one value per run."""

SERIES_MEASURES = (
    "nodes",
    "pending",
    "utilization_cpu",
    "utilization_memory",
    "cost_per_hour",
    "cost_per_hour_lower_bound",
)
"""Measures with a value per sample; `nodes` also by group."""

Path = tuple[str | int, ...]

FieldError = tuple[Path, str]


def validate(scenario: model.Scenario) -> list[FieldError]:
    """All mistakes, in the order of the file."""
    return [
        *_check_head(scenario),
        *_check_groups(scenario),
        *_check_workloads(scenario),
        *_check_buffers(scenario),
        *_check_timeline(scenario),
        *_check_expectations(scenario),
    ]


def node_group_names(scenario: model.Scenario) -> set[str]:
    """Names of groups, and of their node groups in each zone."""
    names = {group.name for group in scenario.groups}
    return names | {node_group_name(group, zone) for group in scenario.groups for zone in group.zones}


def node_group_name(group: model.Group, zone: str) -> str:
    """The name of a group's MachineDeployment in a zone."""
    return f"{group.name}-{zone}" if len(group.zones) > 1 else group.name


def _check_head(scenario: model.Scenario) -> Iterator[FieldError]:
    if not _NAME.fullmatch(scenario.name):
        yield ("name",), f"found {scenario.name!r:.120}, expected 1 to 100 characters that a file name can have"
    if scenario.duration <= 0:
        yield ("duration",), "found 0, accepted is a duration above zero"
    if scenario.sample <= 0:
        yield ("sample",), "found 0, accepted is a duration above zero"
    if not scenario.groups:
        yield ("groups",), "found none, accepted is one group or more"
    try:
        datetime.datetime.fromisoformat(scenario.begins)
    except ValueError:
        yield ("begins",), f"found {scenario.begins!r}, accepted is a time like 2026-01-05T00:00:00Z"


def _check_groups(scenario: model.Scenario) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, group in enumerate(scenario.groups):
        at: Path = ("groups", i)
        if group.name in seen:
            yield (*at, "name"), f"found {group.name!r} a second time, accepted is another name"
        seen.add(group.name)
        if not group.zones or len(set(group.zones)) < len(group.zones):
            yield (*at, "zones"), f"found {list(group.zones)}, accepted is one zone or more, each once"
        yield from _check_sizes(group, at)
        yield from _check_amounts(group.capacity, (*at, "capacity"))
        yield from _check_amounts(group.reserved, (*at, "reserved"))
        for name in ("cpu", "memory"):
            if not group.capacity.get(name):
                yield (*at, "capacity"), f"found no {name}, accepted is an amount above zero"
        for field in ("failure_rate", "unready_rate"):
            if not 0 <= getattr(group, field) <= 1:
                yield (*at, field), f"found {getattr(group, field)}, accepted is a share between 0 and 1"
        if group.price < 0:
            yield (*at, "price"), f"found {group.price}, accepted is zero or more"


def _check_sizes(group: model.Group, at: Path) -> Iterator[FieldError]:
    for field in ("min", "max"):
        yield from _check_limit(getattr(group, field), MAX_REPLICAS, (*at, field))
    first = group.min if group.initial is None else group.initial
    yield from _check_limit(first, MAX_MACHINES, (*at, "min" if group.initial is None else "initial"))
    if group.min < 0:
        yield (*at, "min"), f"found {group.min}, accepted is zero or more"
    if group.max < max(group.min, 1):
        yield (*at, "max"), f"found {group.max}, accepted is at least {max(group.min, 1)}"
    if group.initial is not None and group.initial < 0:
        yield (*at, "initial"), f"found {group.initial}, accepted is zero or more"


def _check_limit(found: int, most: int, at: Path) -> Iterator[FieldError]:
    if found > most:
        yield at, f"found {found}, expected at most {most}"


def _check_amounts(amounts: model.Amounts, at: Path) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        try:
            if quantity.read_quantity(str(amount)).nano < 0:
                yield (*at, name), f"found {amount}, accepted is zero or more"
        except ValueError:
            yield (*at, name), f"found {amount!r}, accepted is a quantity like 500m or 2Gi"


def _check_workloads(scenario: model.Scenario) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, workload in enumerate(scenario.workloads):
        at: Path = ("workloads", i)
        if workload.name in seen:
            yield (*at, "name"), f"found {workload.name!r} a second time, accepted is another name"
        seen.add(workload.name)
        bad = list(_check_amounts(workload.requests, (*at, "requests")))
        yield from bad
        if workload.replicas < 0:
            yield (*at, "replicas"), f"found {workload.replicas}, accepted is zero or more"
        yield from _check_limit(workload.replicas, MAX_PODS, (*at, "replicas"))
        if workload.daily is not None and not 0 <= workload.daily.low <= workload.daily.high:
            yield (
                (*at, "daily"),
                f"found low {workload.daily.low} and high {workload.daily.high}, accepted is low ≤ high",
            )
        if workload.daily is not None and workload.daily.every <= 0:
            yield (*at, "daily", "every"), "found 0, accepted is a duration above zero"
        yield from _check_kind(workload, at)
        if workload.provisioning is not None:
            yield from _check_flags(scenario, (*at, "provisioning"), "enable-provisioning-requests")
        if not bad and not workload.may_wait and not _is_possible(scenario, workload):
            message = "more than any group has that its selector allows; accepted is less, or may_wait: true"
            yield (*at, "requests"), f"found {_format_amounts(workload.requests)}: {message}"


def _check_kind(workload: model.Workload, at: Path) -> Iterator[FieldError]:
    is_job = workload.kind == "Job"
    if is_job and workload.run is None:
        yield (*at, "run"), "found nothing, accepted for a Job is how long its pods work"
    if not is_job and workload.run is not None:
        yield (*at, "run"), f"found for a {workload.kind}, accepted for a Job only"
    if not is_job and workload.arrivals is not None:
        yield (*at, "arrivals"), f"found for a {workload.kind}, accepted for a Job only"
    if not is_job and workload.provisioning is not None:
        yield (*at, "provisioning"), f"found for a {workload.kind}, accepted for a Job only"
    if workload.kind in ("Job", "DaemonSet") and workload.daily is not None:
        yield (*at, "daily"), f"found for a {workload.kind}, accepted for a Deployment or a StatefulSet"
    budget = workload.budget
    if budget is not None and (budget.min_available is None) == (budget.max_unavailable is None):
        yield (*at, "budget"), "accepted is one of min_available and max_unavailable"


def _check_buffers(scenario: model.Scenario) -> Iterator[FieldError]:
    kept = {workload.name: workload.kind for workload in scenario.workloads}
    followed = sorted(name for name, kind in kept.items() if kind in ("Deployment", "StatefulSet"))
    seen: set[str] = set()
    for i, buffer in enumerate(scenario.buffers):
        at: Path = ("buffers", i)
        if buffer.workload in seen:
            yield (*at, "workload"), f"found {buffer.workload!r} a second time, accepted is one buffer for each"
        seen.add(buffer.workload)
        if buffer.workload not in followed:
            accepted = f"one of the Deployments and StatefulSets: {', '.join(followed) or 'none'}"
            yield (*at, "workload"), f"found {buffer.workload!r}, accepted is {accepted}"
        if buffer.replicas is None and buffer.percentage is None:
            yield at, "accepted is replicas, percentage or both"
        for field in ("replicas", "percentage"):
            if (getattr(buffer, field) or 0) < 0:
                yield (*at, field), f"found {getattr(buffer, field)}, accepted is zero or more"
        for flag in ("capacity-buffer-controller-enabled", "capacity-buffer-pod-injection-enabled"):
            yield from _check_flags(scenario, at, flag)


def _check_flags(scenario: model.Scenario, at: Path, needed: str) -> Iterator[FieldError]:
    if scenario.flags.get(needed) is not True:
        yield at, f"found no flag {needed}, accepted with it only, because nothing reads it otherwise"


def _is_possible(scenario: model.Scenario, workload: model.Workload) -> bool:
    """Does one of its pods fit on an empty machine of any group?"""
    return any(
        all(group.labels.get(key, value) == value for key, value in workload.node_selector.items())
        and all(_fits(group, name, amount) for name, amount in workload.requests.items())
        for group in scenario.groups
    )


def _fits(group: model.Group, name: str, amount: str | int | float) -> bool:
    try:
        has = (
            quantity.read_quantity(str(group.capacity.get(name, 0))).nano
            - quantity.read_quantity(str(group.reserved.get(name, 0))).nano
        )
        return quantity.read_quantity(str(amount)).nano <= has
    except ValueError:
        return True


def _format_amounts(amounts: model.Amounts) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _check_timeline(scenario: model.Scenario) -> Iterator[FieldError]:
    workloads = {workload.name: workload.kind for workload in scenario.workloads}
    groups = node_group_names(scenario)
    zones = {zone for group in scenario.groups for zone in group.zones}
    for i, step in enumerate(scenario.timeline):
        at: Path = ("timeline", i)
        if step.at > scenario.duration:
            yield (*at, "at"), f"found {step.at:g} s, accepted is within the {scenario.duration:g} s of the scenario"
        for field, known in (("workload", set(workloads)), ("group", groups), ("zone", zones)):
            named = getattr(step, field, None)
            if named is not None and named not in known:
                yield (*at, field), f"found {named!r}, accepted is one of {', '.join(sorted(known)) or 'none'}"
        if isinstance(step, model.Jobs) and workloads.get(step.workload, "Job") != "Job":
            yield (*at, "workload"), f"found a {workloads[step.workload]}, accepted is a Job"
        if isinstance(step, model.Rollout) and workloads.get(step.workload, "Deployment") != "Deployment":
            yield (*at, "workload"), f"found a {workloads[step.workload]}, accepted is a Deployment"
        if isinstance(step, model.Trouble) and not 0 <= step.errors <= 1:
            yield (*at, "errors"), f"found {step.errors}, accepted is a share between 0 and 1"
        for field in ("to", "count", "times"):
            if getattr(step, field, 0) < 0:
                yield (*at, field), f"found {getattr(step, field)}, accepted is zero or more"
            yield from _check_limit(getattr(step, field, 0), MAX_PODS, (*at, field))


def _check_expectations(scenario: model.Scenario) -> Iterator[FieldError]:
    for i, expected in enumerate(scenario.expect):
        at: Path = ("expect", i)
        is_series = expected.start is not None or expected.end is not None or expected.group is not None
        series_measures = SERIES_MEASURES if is_series else TOTAL_MEASURES
        if expected.measure not in series_measures:
            yield (*at, "measure"), f"found {expected.measure!r}, accepted is one of {', '.join(series_measures)}"
        if expected.at_least is None and expected.at_most is None:
            yield at, "accepted is at_least, at_most or both"
        if expected.group is not None and expected.group not in node_group_names(scenario):
            yield (
                (*at, "group"),
                f"found {expected.group!r}, accepted is one of {', '.join(sorted(node_group_names(scenario)))}",
            )


def accepted_fields(plain: Any, path: Path) -> list[str]:
    """Accepted fields at a path of a partly valid file; none where the schema has no object."""
    return sorted({name for part in _parts_at(plain, path) for name in _fields_of(part)})


def accepted_values(plain: Any, path: Path) -> list[str]:
    """Accepted values of the field at a path; none where any value is accepted."""
    values: list[str] = []
    for part in _parts_of(_type_at(plain, path[:-1])):
        values += [str(part.tag)] if part.tag_field == path[-1] else []
        for field in part.fields:
            if field.encode_name == path[-1]:
                values += [str(word) for item in _options(field.type) if isinstance(item, inspect.LiteralType)
                          for word in item.values]  # fmt: skip
    return sorted(set(values))


def _fields_of(part: inspect.StructType) -> list[str]:
    return [*([part.tag_field] if part.tag_field else []), *(field.encode_name for field in part.fields)]


def _parts_at(plain: Any, path: Path) -> list[inspect.StructType]:
    """The schema type at a path, or several candidates; the tag field selects one of them."""
    parts = _parts_of(_type_at(plain, path))
    there = plain
    for step in path:
        there = there[step]
    selected = [item for item in parts if item.tag_field is None or there.get(item.tag_field) == item.tag]
    return selected or parts


def _type_at(plain: Any, path: Path) -> inspect.Type | None:
    type_: inspect.Type | None = inspect.type_info(model.Scenario)
    for number, step in enumerate(path):
        if isinstance(step, int):
            type_ = next((item.item_type for item in _options(type_) if isinstance(item, inspect.VarTupleType)), None)
            continue
        fields = [field for part in _parts_at(plain, path[:number]) for field in part.fields]
        type_ = next((field.type for field in fields if field.encode_name == step), None)
    return type_


def _parts_of(type_: inspect.Type | None) -> list[inspect.StructType]:
    return [item for item in _options(type_) if isinstance(item, inspect.StructType)]


def _options(type_: inspect.Type | None) -> tuple[inspect.Type, ...]:
    if type_ is None:
        return ()
    return type_.types if isinstance(type_, inspect.UnionType) else (type_,)


_AT = re.compile(r" - at `\$(.*)`$")

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

_UNKNOWN = re.compile(r"unknown field `([^`]+)`")

_INVALID = re.compile(r"invalid (?:enum )?value ('.*')$")


class InvalidScenario(errors.InvalidInput):
    """An invalid scenario; one line for each mistake."""


def load_scenario(path: pathlib.Path) -> model.Scenario:
    try:
        text = input_files.read_text(path)
    except OSError as error:
        raise InvalidScenario(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"{path}: not text: {error}") from None
    return parse_scenario(text, str(path))


def parse_scenario(text: str, name: str) -> model.Scenario:
    """A scenario from the text of a file."""
    try:
        plain = yaml_documents.load_yaml(text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise InvalidScenario(f"{name}:{line}: {getattr(error, 'problem', None) or error}") from None
    try:
        scenario = model.convert(plain)
    except msgspec.ValidationError as error:
        path, said = _split_error(str(error))
        raise InvalidScenario(_format_mistake(name, tree, path, _describe_accepted(plain, path, said))) from None
    mistakes = validate(scenario)
    if mistakes:
        raise InvalidScenario("\n".join(_format_mistake(name, tree, path, said) for path, said in mistakes))
    return scenario


def _split_error(text: str) -> tuple[Path, str]:
    """Path and text of an error of msgspec."""
    at = _AT.search(text)
    path: list[str | int] = []
    for field, index in _STEP.findall(at[1] if at else ""):
        path.append(int(index) if index else field)
    message = text[: at.start()] if at else text
    if unknown := _UNKNOWN.search(message):
        path.append(unknown[1])
    return tuple(path), message[:1].lower() + message[1:]


def _describe_accepted(plain: Any, path: Path, message: str) -> str:
    """The text of an error of msgspec, with the accepted fields or values."""
    if _UNKNOWN.search(message):
        fields = accepted_fields(plain, path[:-1])
        close = difflib.get_close_matches(str(path[-1]), fields, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"found an unknown field, accepted are {', '.join(fields)}{hint}"
    if invalid := _INVALID.search(message):
        return f"found {invalid[1]}, accepted is one of {', '.join(accepted_values(plain, path))}"
    return message


def _format_mistake(name: str, tree: yaml.Node | None, path: Path, message: str) -> str:
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"{name}:{_line_of(tree, path)}: {field + ': ' if field else ''}{message}"


def _line_of(tree: Any, path: Path) -> int:
    """The line of a path, or of its innermost existing parent."""
    line = 1
    for step in path:
        if isinstance(tree, yaml.MappingNode):
            pairs = [(key, value) for key, value in tree.value if key.value == step]
            if not pairs:
                return line
            line, tree = pairs[0][0].start_mark.line + 1, pairs[0][1]
        elif isinstance(tree, yaml.SequenceNode) and isinstance(step, int) and step < len(tree.value):
            tree = tree.value[step]
            line = tree.start_mark.line + 1
    return line
