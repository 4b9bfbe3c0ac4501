import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from windlass import klog
from windlass.errors import InvalidInput
from windlass.observability import klog as observability_klog
from windlass.observability import options

Streams: TypeAlias = pytest.CaptureFixture[str]
LOG = logging.getLogger("windlass.somewhere")


@pytest.fixture
def streams(capsys: Streams) -> Iterator[Streams]:
    """Standard output and standard error, in a process whose logs may be configured."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    asked = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    root.handlers = []
    yield capsys
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)
    logging.logThreads, logging.logProcesses, logging.logMultiprocessing = asked


def test_a_line_looks_like_klogs(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions())
    LOG.info("%d nodes", 3)

    pattern = rf"I\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} {os.getpid():7d} test_klog\.py:\d+\] 3 nodes\n"
    assert re.fullmatch(pattern, streams.readouterr().err)


def test_the_time_is_the_records_to_the_microsecond() -> None:
    record = logging.LogRecord("x", logging.WARNING, "/a/core/loop.py", 12, "m", (), None)
    record.created = 1_700_000_000.000_25
    header = observability_klog.TextFormatter(directory=True).format(record)
    assert re.fullmatch(r"W11\d\d \d\d:\d\d:\d\d\.000250 +\d+ core/loop\.py:12\] m", header)


@pytest.mark.parametrize(
    ("level", "letter"),
    [(logging.DEBUG, "I"), (logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "F")],
)
def test_the_first_letter_is_the_severity(streams: Streams, level: int, letter: str) -> None:
    observability_klog.configure_logging(options.LoggingOptions(v=10))
    LOG.log(level, "so")
    assert streams.readouterr().err[0] == letter


def test_values_follow_the_quoted_message(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions(skip_headers=True))
    LOG.info(
        'say "%s"',
        "a",
        extra=observability_klog.key_values(pod="x/y", count=2, why="one\ntwo", ready=True, names=["a"]),
    )
    LOG.info("failed", extra=observability_klog.key_values(err=ValueError("no")))

    assert streams.readouterr().err == (
        '"say \\"a\\"" pod="x/y" count=2 why=<\n\tone\n\ttwo\n > ready=true names=["a"]\n"failed" err="no"\n'
    )


def test_json_has_a_key_for_each_value(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions(logging_format="json", v=4))
    LOG.log(klog.verbosity_level(4), "Resized", extra=observability_klog.key_values(group="a", size=3))
    LOG.warning("hm")
    try:
        raise ValueError("no")
    except ValueError:
        LOG.exception("wrong")
    first, second, third = map(json.loads, streams.readouterr().err.splitlines())

    assert list(first) == ["ts", "caller", "msg", "v", "group", "size"]
    assert re.fullmatch(r"observability/test_klog\.py:\d+", first["caller"])
    assert (first["msg"], first["v"], first["group"], first["size"]) == ("Resized", 4, "a", 3)
    assert second["v"] == 0
    assert ("v" in third, third["err"]) == (False, "no")
    assert "Traceback" in third["stacktrace"]


def test_a_traceback_follows_the_line(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions())
    try:
        raise ValueError("no")
    except ValueError:
        LOG.exception("wrong")
    lines = streams.readouterr().err.splitlines()
    assert lines[0].endswith("] wrong")
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: no"


def test_verbosity_lets_through_its_levels_and_no_more(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions(v=4, skip_headers=True))
    for step in range(10):
        LOG.log(klog.verbosity_level(step), "%d", step)
    assert streams.readouterr().err.split() == ["0", "1", "2", "3", "4"]


def test_single_files_may_say_more(streams: Streams) -> None:
    observability_klog.configure_logging(
        options.LoggingOptions(v=2, vmodule="other=9,test_k*=4,test_klog=7", skip_headers=True)
    )
    for step in range(10):
        LOG.log(klog.verbosity_level(step), "%d", step)
    assert streams.readouterr().err.split() == ["0", "1", "2", "3", "4"]

    observability_klog.configure_logging(options.LoggingOptions(v=2, vmodule="other=9", skip_headers=True))
    LOG.log(klog.verbosity_level(3), "more")
    assert "more" not in streams.readouterr().err


def test_errors_may_have_a_stream_of_their_own(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions(log_text_split_stream=True, skip_headers=True))
    LOG.warning("right")
    LOG.error("wrong")
    assert streams.readouterr() == ("right\n", "wrong\n")


def test_errors_in_json_may_have_a_stream_of_their_own(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions(logging_format="json", log_json_split_stream=True))
    LOG.warning("right")
    LOG.error("wrong")
    output = streams.readouterr()
    assert [json.loads(text)["msg"] for text in output] == ["right", "wrong"]


def test_the_header_names_the_directory_of_the_file_if_asked_to(streams: Streams) -> None:
    for is_named in (False, True):
        observability_klog.configure_logging(options.LoggingOptions(add_dir_header=is_named))
        LOG.info("so")
        assert ("observability/test_klog.py:" in streams.readouterr().err) is is_named


def test_a_file_is_written_only_if_standard_error_is_not_wanted(streams: Streams, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "windlass.log"
    observability_klog.configure_logging(options.LoggingOptions(log_file=str(path), skip_headers=True))
    LOG.info("one")
    assert not path.exists()
    observability_klog.configure_logging(
        options.LoggingOptions(log_file=str(path), logtostderr=False, skip_headers=True)
    )
    LOG.info("two")
    observability_klog.configure_logging(
        options.LoggingOptions(log_file=str(path), logtostderr=False, alsologtostderr=True, skip_headers=True)
    )
    LOG.info("three")

    assert path.read_text() == "two\nthree\n"
    assert streams.readouterr().err == "one\nthree\n"


def test_without_a_file_standard_error_is_written_in_any_case(streams: Streams) -> None:
    observability_klog.configure_logging(options.LoggingOptions(logtostderr=False, skip_headers=True))
    LOG.info("here")
    assert streams.readouterr().err == "here\n"


def test_a_file_that_cannot_be_written_is_named(streams: Streams, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=r"--log-file: .*/file/log: "):
        observability_klog.configure_logging(
            options.LoggingOptions(log_file=str(tmp_path / "file" / "log"), logtostderr=False)
        )


@pytest.mark.parametrize(("threshold", "shown"), [("0", "one\ntwo\nthree\n"), ("1", "two\nthree\n"), ("2", "three\n")])
def test_while_a_file_is_written_what_is_severe_goes_to_standard_error_too(
    streams: Streams, tmp_path: Path, threshold: str, shown: str
) -> None:
    logging_options = options.LoggingOptions(
        log_dir=str(tmp_path), logtostderr=False, stderrthreshold=threshold, skip_headers=True
    )
    observability_klog.configure_logging(logging_options)
    LOG.info("one")
    LOG.warning("two")
    LOG.error("three")
    assert streams.readouterr().err == shown
    assert (tmp_path / "windlass.log").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(("max_size", "files"), [(1, ["log", "log.1"]), (0, ["log"])])
def test_a_file_grows_no_larger_than_it_may(streams: Streams, tmp_path: Path, max_size: int, files: list[str]) -> None:
    logging_options = options.LoggingOptions(
        log_file=str(tmp_path / "log"), logtostderr=False, log_file_max_size=max_size
    )
    observability_klog.configure_logging(logging_options)
    for _ in range(25):
        LOG.info("x" * 100_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    if max_size:
        assert all(path.stat().st_size <= max_size * 2**20 for path in tmp_path.iterdir())
