"""What a run of the tests emits: metrics that move, reasons of events and conditions that are sent to an API server.

A plugin of pytest. A run of the whole suite fails if a documented metric moved in no test, or a documented reason was
sent in none. A run of all of tests/e2e fails if a metric of the autoscaler moved on no process beside the real control
plane, and a run of the whole suite if any documented metric did not. Other runs are not judged;
`pytest --emissions PATH` writes down what was emitted.

A reason counts when windlass sends it: neither one that a function returned to a test, nor one that a test wrote
itself. Of processes that a test starts only scraped metrics are noted.
"""

import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from tools import events_reference, metrics_reference
from windlass.kube import client, transport
from windlass.observability import metric_definitions

_REASON = re.compile(rb'"(?:reason|failureReason)":\s*"(\w+)"')
"""In the body of a request: of an event, of a condition, and of a status that says why it failed."""
_OUTPUT = "emissions"
_E2E = "tests/e2e/"
_OPTIONAL = frozenset({"test_install.py", "test_openshift.py", "test_outages.py"})
"""Files of tests/e2e that may be skipped, for lack of time or of definitions: no metric moves there alone."""
_DURATION = f"{metric_definitions.FUNCTION_DURATIONS.name}_count"


class Emissions:
    """Names of metrics that moved, and reasons that were sent, up to now."""

    def __init__(self) -> None:
        self.metrics: set[str] = set()
        self.reasons: set[str] = set()
        self.live: set[str] = set()
        """Samples that processes beside the real control plane showed with another value than 0. Without labels, but
        durations of functions, which are there with each."""

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Note every change of a metric to another value than 0, and every reason that the package sends."""
        for kind, method in (
            (prometheus_client.Counter, "inc"), (prometheus_client.Gauge, "set"), (prometheus_client.Gauge, "inc"),
            (prometheus_client.Histogram, "observe"), (prometheus_client.Summary, "observe"),
        ):  # fmt: skip
            patch.setattr(kind, method, self._note(getattr(kind, method)))
        patch.setattr(prometheus_client.CollectorRegistry, "collect", self._note_collected())
        send = client.Client._send

        async def note_and_send(self_: client.Client, request: transport.Request) -> transport.Response:
            found = _REASON.findall(request.body)
            if found and is_of_the_package(sys._getframe(1)):
                self.reasons.update(reason.decode() for reason in found)
            return await send(self_, request)

        patch.setattr(client.Client, "_send", note_and_send)

    def _note(self, method: Callable[..., None]) -> Callable[..., None]:
        def note(metric: Any, amount: float = 1.0, *given: Any) -> None:
            if amount:
                self.metrics.add(metric._name)
            method(metric, amount, *given)

        return note

    def _note_collected(self) -> Callable[..., Iterator[Any]]:
        collect = prometheus_client.CollectorRegistry.collect

        def note(registry: Any) -> Iterator[Any]:
            for family in collect(registry):
                if any(sample.value for sample in family.samples if not sample.name.endswith("_created")):
                    self.metrics.add(family.name)
                yield family

        return note

    def note_scrape(self, series: Mapping[str, float]) -> None:
        """Note what a process beside the real control plane shows: each series and its value."""
        for name, value in series.items():
            if value:
                sample = name.partition("{")[0]
                self.live.add(name if sample == _DURATION else sample)

    def add(self, found: Mapping[str, Iterable[str]]) -> None:
        self.metrics.update(found["metrics"])
        self.reasons.update(found["reasons"])
        self.live.update(found["live"])

    def to_text(self) -> dict[str, list[str]]:
        return {"metrics": sorted(self.metrics), "reasons": sorted(self.reasons), "live": sorted(self.live)}

    def find_gaps(self) -> Iterator[str]:
        """What is documented and was not emitted."""
        for family in metrics_reference.find():
            if not family.constant and family.name.removesuffix("_total") not in self.metrics:
                yield f"metric {family.name} moved in no test; if it cannot, say why in CONSTANT_METRICS"
        for entry in events_reference.find().values():
            if entry.section != events_reference.ALERTS and entry.name not in self.reasons:
                yield f"reason {entry.name} of docs/runbook.md was sent to an API server in no test"

    def find_live_gaps(self, documented: Iterable[metric_definitions.MetricFamily]) -> Iterator[str]:
        """Which of these metrics, and of the functions whose time is measured, no live process showed above 0."""
        wanted = [family for family in documented if not (family.constant or family.normally_zero)]
        for sample in (sample for family in wanted for sample in _find_samples(family)):
            if sample not in self.live:
                yield f"metric {sample} moved on no process beside the real control plane"


def is_of_the_package(frame: types.FrameType) -> bool:
    """Whether windlass uses the client here, and not a test: by the nearest frame outside of the client."""
    while frame.f_back is not None and frame.f_globals["__name__"] == client.__name__:
        frame = frame.f_back
    return str(frame.f_globals["__name__"]).startswith("windlass.")


def _find_samples(family: metric_definitions.MetricFamily) -> Iterator[str]:
    """The samples of a family that are above 0 once it has moved."""
    if family.name == metric_definitions.FUNCTION_DURATIONS.name:
        yield from (f'{_DURATION}{{function="{loop_function}"}}' for loop_function in metrics_reference.MEASURED)
    elif family.kind in (metric_definitions.MetricKind.HISTOGRAM, metric_definitions.MetricKind.SUMMARY):
        yield f"{family.name}_count"
    else:
        yield family.name


class Coverage:
    """Which files of tests/e2e were run, and in which of them tests were skipped."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.skipped: set[str] = set()

    def note(self, nodeid: str, was_skipped: bool = False) -> None:
        path = nodeid.partition("::")[0]
        if path.startswith(_E2E):
            (self.skipped if was_skipped else self.files).add(path.removeprefix(_E2E))

    def is_whole(self, config: pytest.Config) -> bool:
        """Were all tests of tests/e2e run? Where there is no control plane, or no Go, some are skipped."""
        files = {path.name for path in (Path(__file__).parent / "e2e").glob("test_*.py")} - _OPTIONAL
        names_tests = any("::" in item for item in config.args)
        return files <= self.files - self.skipped and not names_tests and not is_narrowed(config)


_found = Emissions()
_coverage = Coverage()
_patch = pytest.MonkeyPatch()


def note_scrape(series: Mapping[str, float]) -> None:
    """A process beside the real control plane was scraped."""
    _found.note_scrape(series)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--emissions", type=Path, help="write the metrics that moved and the reasons sent to this file")


def pytest_configure(config: pytest.Config) -> None:
    _found.watch(_patch)


def pytest_unconfigure(config: pytest.Config) -> None:
    _patch.undo()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended, and hands over what it found."""
    _found.add(getattr(node, "workeroutput", {}).get(_OUTPUT, Emissions().to_text()))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _coverage.note(report.nodeid, report.skipped)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = _found.to_text()
        return
    if path := session.config.getoption("emissions"):
        path.write_text(json.dumps(_found.to_text(), indent=1))
    if session.exitstatus == pytest.ExitCode.OK and any(find_all_gaps(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if exitstatus == pytest.ExitCode.OK:
        for gap in find_all_gaps(config):
            terminalreporter.write_line(f"not emitted: {gap}", red=True)


def find_all_gaps(config: pytest.Config) -> Iterator[str]:
    """What is documented and was not emitted, as far as this run can tell."""
    if is_whole(config):
        yield from _found.find_gaps()
    if _coverage.is_whole(config):
        yield from _found.find_live_gaps(
            metrics_reference.find() if is_whole(config) else metric_definitions.METRIC_FAMILIES
        )


def is_whole(config: pytest.Config) -> bool:
    """Was all of the suite to be run?"""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not is_narrowed(config)


def is_narrowed(config: pytest.Config) -> bool:
    """Do options leave tests out?"""
    narrowed = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "collectonly", "stepwise", "maxfail")
    return any(config.getoption(item, None) for item in narrowed)
