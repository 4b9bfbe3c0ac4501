"""Unexpected errors are counted every time and logged once for each object and version."""

import logging

import prometheus_client
import pytest

from windlass import klog
from windlass.runtime import http_server


def raised() -> Exception:
    try:
        raise ValueError("too long")
    except ValueError as error:
        return error


def test_an_error_is_logged_once_for_each_version_of_an_object_and_counted_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = klog.UnexpectedErrors()
    with caplog.at_level(logging.ERROR):
        for version in ("7", "7", "8", "7"):
            errors.report(klog.ErrorPlace.INFORMER, "Pod default/web", version, raised())
    assert [record.getMessage() for record in caplog.records] == [
        f"unexpected error: place=informer object='Pod default/web' version='{version}': ValueError: too long"
        for version in ("7", "8")
    ]
    assert all(record.exc_info for record in caplog.records)
    assert errors.counts()[klog.ErrorPlace.INFORMER] == 4


def test_an_error_whose_message_cannot_be_made_is_reported_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RecursionError

    errors = klog.UnexpectedErrors()
    errors.report(klog.ErrorPlace.INFORMER, "Pod default/web", "7", Mute())
    assert errors.counts()[klog.ErrorPlace.INFORMER] == 1


def test_every_registry_shows_all_places_from_the_start_and_counts_what_the_process_met() -> None:
    registry = prometheus_client.CollectorRegistry()
    http_server.register_unexpected_errors(registry)
    before = registry.get_sample_value(http_server.UNEXPECTED_ERRORS_NAME, {"place": "informer"})
    assert before is not None
    klog.report_error(klog.ErrorPlace.INFORMER, "Pod default/test", "1", raised())
    assert registry.get_sample_value(http_server.UNEXPECTED_ERRORS_NAME, {"place": "informer"}) == before + 1
