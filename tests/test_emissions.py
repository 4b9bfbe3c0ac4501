"""A run of the whole suite knows which metrics moved and which reasons were sent, and names those that were not."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import prometheus_client
import pytest

from tests.emissions import Coverage, Emissions, is_whole
from tools import events_reference, metrics_reference
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.kube import client, resources
from windlass.kube import events as kube_events
from windlass.observability import metric_definitions

ABOUT = kube_events.InvolvedObject("v1", "ConfigMap", "status", "kube-system")


@pytest.fixture
def emissions() -> Iterator[Emissions]:
    found, patch = Emissions(), pytest.MonkeyPatch()
    found.watch(patch)
    yield found
    patch.undo()


def test_without_any_emission_every_documented_metric_and_reason_is_a_gap() -> None:
    gaps = list(Emissions().find_gaps())
    moving = [family for family in metrics_reference.find() if not family.constant]
    reasons = [entry for entry in events_reference.find().values() if entry.section != events_reference.ALERTS]
    assert len(gaps) == len(moving) + len(reasons) > 100


def test_what_is_excused_is_documented() -> None:
    excused = metric_definitions.CONSTANT_METRICS.keys() | metric_definitions.NORMALLY_ZERO_METRICS.keys()
    assert excused <= {family.name for family in metrics_reference.find()}
    page = metrics_reference.page()
    assert all(
        reason in page
        for reason in (
            *metric_definitions.CONSTANT_METRICS.values(),
            *metric_definitions.NORMALLY_ZERO_METRICS.values(),
        )
    )


def test_a_metric_that_is_set_to_nothing_has_not_moved(emissions: Emissions) -> None:
    registry = prometheus_client.CollectorRegistry()
    gauge = prometheus_client.Gauge("some_gauge", "help", registry=registry)
    counter = prometheus_client.Counter("some_counter", "help", ["label"], registry=registry)
    gauge.set(0.0)
    counter.labels("a").inc(0.0)
    assert emissions.metrics == set()
    gauge.set(3.0)
    counter.labels("a").inc()
    assert emissions.metrics == {"some_gauge", "some_counter"}


def test_a_metric_that_is_only_read_when_scraped_has_moved_if_it_shows_something(emissions: Emissions) -> None:
    registry = prometheus_client.CollectorRegistry()
    depth = prometheus_client.Gauge("depth", "help", registry=registry)
    depth.set_function(lambda: 2.0)
    list(registry.collect())
    assert emissions.metrics == {"depth"}


def test_a_reason_counts_when_the_package_sends_it_and_not_when_a_test_does(emissions: Emissions) -> None:
    time = clock.VirtualClock()
    api = client.Client(embedded_server.InProcessTransport(server.Server(time), time), time)
    recorder = kube_events.EventRecorder(api, "test")

    async def write() -> None:
        kube_events.EventOccurrence(ABOUT, "Normal", "NotSent", "message")
        condition = {"type": "Ready", "status": "False", "reason": "OfATest"}
        namespace = {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}
        await api.create(resources.NAMESPACES.untyped(), namespace)
        assert emissions.reasons == set()
        recorder.record(ABOUT, "Normal", "OfThePackage", "message")
        running = asyncio.create_task(recorder.run())
        await recorder.wait_written()
        running.cancel()

    time.run(write())
    assert emissions.reasons == {"OfThePackage"}
    assert recorder.dropped == 0


def test_what_workers_found_is_put_together() -> None:
    found, worker = Emissions(), Emissions()
    worker.metrics, worker.reasons, worker.live = {"a"}, {"R"}, {"l"}
    found.metrics = {"b"}
    found.add(worker.to_text())
    assert found.to_text() == {"metrics": ["a", "b"], "reasons": ["R"], "live": ["l"]}


def test_a_family_has_moved_on_a_live_process_if_a_scrape_showed_it_above_0() -> None:
    found, gauge, histogram = Emissions(), metric_definitions.METRIC_FAMILIES[0], metric_definitions.HETEROGENEITY
    found.note_scrape({gauge.name: 0.0, f"{histogram.name}_created": 1.0, f"{histogram.name}_count": 0.0})
    assert len(list(found.find_live_gaps((gauge, histogram)))) == 2
    found.note_scrape({gauge.name: 1.0, f'{histogram.name}_count{{instance_type=""}}': 3.0})
    assert list(found.find_live_gaps((gauge, histogram))) == []


def test_durations_have_moved_on_a_live_process_if_those_of_every_function_have() -> None:
    found = Emissions()
    for loop_function in metrics_reference.MEASURED[1:]:
        found.note_scrape({f'{metric_definitions.FUNCTION_DURATIONS.name}_count{{function="{loop_function}"}}': 1.0})
    (gap,) = found.find_live_gaps((metric_definitions.FUNCTION_DURATIONS,))
    assert f'function="{metrics_reference.MEASURED[0]}"' in gap


def test_constants_and_families_that_are_normally_0_are_no_gaps_on_live_processes() -> None:
    excused = [family for family in metric_definitions.METRIC_FAMILIES if family.constant or family.normally_zero]
    assert len(excused) == len(metric_definitions.CONSTANT_METRICS) + len(metric_definitions.NORMALLY_ZERO_METRICS)
    assert list(Emissions().find_live_gaps(excused)) == []


class Chosen:
    """What pytest was asked to run."""

    def __init__(self, *args: str, keyword: str = "") -> None:
        self.args, self._keyword = args, keyword

    def getoption(self, name: str, default: object = None) -> object:
        return self._keyword if name == "keyword" else default


def note_all(coverage: Coverage) -> Coverage:
    for path in (Path(__file__).parent / "e2e").glob("test_*.py"):
        coverage.note(f"tests/e2e/{path.name}::test_something@live autoscaler")
    return coverage


def is_covered(coverage: Coverage, chosen: Chosen) -> bool:
    return coverage.is_whole(cast(pytest.Config, chosen))


def test_a_run_of_every_file_of_the_tests_on_live_processes_is_judged_by_them() -> None:
    coverage = note_all(Coverage())
    assert is_covered(coverage, Chosen("tests/e2e"))
    coverage.note("tests/e2e/test_outages.py::test_something", was_skipped=True)
    coverage.note("tests/kube/test_client_on_servers.py::test_something", was_skipped=True)
    assert is_covered(coverage, Chosen("tests/e2e"))


def test_a_run_that_leaves_out_tests_on_live_processes_is_not_judged_by_them() -> None:
    assert not is_covered(Coverage(), Chosen("tests/e2e"))
    assert not is_covered(note_all(Coverage()), Chosen("tests/e2e", keyword="some"))
    assert not is_covered(note_all(Coverage()), Chosen("tests/e2e/test_scaling.py::test_something"))
    coverage = note_all(Coverage())
    coverage.note("tests/e2e/test_metrics.py::test_something", was_skipped=True)
    assert not is_covered(coverage, Chosen("tests/e2e"))


def test_a_run_of_a_part_of_the_suite_is_not_the_whole(request: pytest.FixtureRequest) -> None:
    config = request.config
    named_paths = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    assert not (named_paths and is_whole(config))
