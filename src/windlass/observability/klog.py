"""klog formatting: log lines in klog's text format or as JSON, with --v and --vmodule."""

import fnmatch
import functools
import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TextIO

from windlass import errors, klog
from windlass.observability import options
from windlass.selectors import parse_int64

_KEY_VALUES = "windlass_values"
_LETTERS = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
"""Severity letters by level; lower levels are I."""
_SEVERITIES = (logging.NOTSET, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""Lowest level of each klog severity."""
_MIB = 2**20

VmodulePatterns = tuple[tuple[str, int], ...]
"""Verbosity by file name pattern, first match wins."""


def key_values(**pairs: object) -> dict[str, Mapping[str, object]]:
    """Return key-value pairs of a message as the logging module's `extra`."""
    return {_KEY_VALUES: pairs}


def parse_vmodule(text: str) -> VmodulePatterns:
    """Parse --vmodule. ValueError says what is accepted."""
    patterns = []
    for part in filter(None, text.split(",")):
        pattern, equals, level = part.partition("=")
        number = parse_int64(level)
        if not pattern or not equals or number is None or number < 0:
            raise ValueError("<pattern>=<level>, separated by commas, each level 0 or more")
        patterns.append((pattern, number))
    return tuple(patterns)


class TextFormatter(logging.Formatter):
    """Formats lines like klog."""

    def __init__(self, *, headers: bool = True, directory: bool = False) -> None:
        super().__init__()
        self._headers, self._directory = headers, directory
        self._pid = f"{os.getpid():7d}"

    def format(self, record: logging.LogRecord) -> str:
        header = self._make_header(record) if self._headers else ""
        pairs: Mapping[str, object] | None = getattr(record, _KEY_VALUES, None)
        message = record.getMessage()
        if pairs is not None:
            message = _quote(message) + "".join(f" {key}{_write_value(value)}" for key, value in pairs.items())
        return "\n".join((header + message, *_with_traceback(self, record)))

    def _make_header(self, record: logging.LogRecord) -> str:
        seconds = int(record.created)
        when = time.strftime("%m%d %H:%M:%S", time.localtime(seconds))
        micros = int((record.created - seconds) * 1_000_000)
        path = _short_path(record.pathname) if self._directory else record.filename
        return f"{_LETTERS.get(record.levelno, 'I')}{when}.{micros:06d} {self._pid} {path}:{record.lineno}] "


class JsonFormatter(logging.Formatter):
    """Formats lines like Kubernetes components with --logging-format=json."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{_short_path(record.pathname)}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = max(logging.INFO - record.levelno, 0)
        line |= getattr(record, _KEY_VALUES, {})
        if record.exc_info and record.exc_info[1] is not None:
            line["err"] = str(record.exc_info[1])
        if traces := _with_traceback(self, record):
            line["stacktrace"] = "\n".join(traces)
        return json.dumps(line, separators=(",", ":"), ensure_ascii=False, default=str)


class VmoduleFilter:
    """Applies the verbosity of a record's file."""

    def __init__(self, patterns: VmodulePatterns, otherwise: int) -> None:
        self._patterns, self._otherwise = patterns, otherwise
        self._find_level = functools.lru_cache(maxsize=1024)(self._match)

    def __call__(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._find_level(record.module)

    def _match(self, module: str) -> int:
        found = (wanted for pattern, wanted in self._patterns if fnmatch.fnmatchcase(module, pattern))
        return klog.verbosity_level(max(next(found, self._otherwise), self._otherwise))


def configure_logging(logging_options: options.LoggingOptions) -> None:
    """Configure logging of the whole process. InvalidInput if a file cannot be written."""
    # Headers use the file name; looking up thread, process and task would double the cost of a line.
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    patterns = parse_vmodule(logging_options.vmodule)
    handlers = list(_make_handlers(logging_options))
    for handler in handlers:
        handler.setFormatter(_make_formatter(logging_options))
        if patterns:
            handler.addFilter(VmoduleFilter(patterns, logging_options.v))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(klog.verbosity_level(max((logging_options.v, *(level for _, level in patterns)))))


def _make_formatter(logging_options: options.LoggingOptions) -> logging.Formatter:
    if logging_options.logging_format == "json":
        return JsonFormatter()
    return TextFormatter(headers=not logging_options.skip_headers, directory=logging_options.add_dir_header)


def _make_handlers(logging_options: options.LoggingOptions) -> Iterable[logging.Handler]:
    is_json = logging_options.logging_format == "json"
    is_split = logging_options.log_json_split_stream if is_json else logging_options.log_text_split_stream
    path = (
        Path(logging_options.log_file)
        if logging_options.log_file
        else Path(logging_options.log_dir, "windlass.log")
        if logging_options.log_dir
        else None
    )
    if path is not None and not logging_options.logtostderr:
        yield _open_log_file(path, logging_options)
        if not logging_options.alsologtostderr:
            severe = _stream(sys.stderr)
            severe.setLevel(_SEVERITIES[int(logging_options.stderrthreshold)])
            yield severe
            return
    if not is_split:
        yield _stream(sys.stderr)
        return
    wrong, right = _stream(sys.stderr), _stream(sys.stdout)
    wrong.addFilter(lambda record: record.levelno >= logging.ERROR)
    right.addFilter(lambda record: record.levelno < logging.ERROR)
    yield from (wrong, right)


def _stream(stream: TextIO) -> logging.Handler:
    return logging.StreamHandler(stream)


def _open_log_file(path: Path, logging_options: options.LoggingOptions) -> logging.Handler:
    largest_bytes = max(logging_options.log_file_max_size, 0) * _MIB
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return RotatingFileHandler(path, maxBytes=largest_bytes, backupCount=1, encoding="utf-8")
    except OSError as error:
        flag = "log-file" if logging_options.log_file else "log-dir"
        raise errors.InvalidInput(f"--{flag}: {path}: {error.strerror}") from error


def _with_traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    traces = []
    if record.exc_info:
        traces.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        traces.append(record.stack_info)
    return traces


def _short_path(path: str) -> str:
    """Return file and directory."""
    return "/".join(path.rsplit("/", 2)[-2:])


def _write_value(value: object) -> str:
    """Format `=value` like klog: text is quoted, or raw if it has several lines."""
    if isinstance(value, str):
        if "\n" not in value:
            return "=" + _quote(value)
        lines = value.removesuffix("\n").split("\n")
        return "=<\n" + "".join(f"\t{line}\n" for line in lines) + " >"
    if isinstance(value, BaseException):
        return "=" + _quote(str(value))
    return "=" + json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
