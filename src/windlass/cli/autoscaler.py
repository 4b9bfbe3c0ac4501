"""`windlass autoscaler`: the autoscaler itself, with the command line of cluster-autoscaler.

Its flags have pflag's syntax, not cyclopts': arguments are passed on unchanged.
"""

import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import Parameter

from windlass import errors
from windlass.cli import terminal_output

if TYPE_CHECKING:
    from windlass.autoscaler.options import command_line

FAILED = 1
UNUSABLE = 2
"""Exit codes: the autoscaler ran and failed, or its arguments cannot be used."""

_has_run = threading.Event()
"""Has the autoscaler run in this process?"""
_WIDTH = 100
"""Columns of the help where the output is no terminal."""


def autoscaler(*flags: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]) -> int:
    """Add nodes for pending pods and remove unneeded nodes, as cluster-autoscaler does.

    Takes the flags of cluster-autoscaler. `windlass autoscaler --help` lists them.
    """
    return _autoscale(flags, "windlass")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as `cluster-autoscaler`: only flags, no command before them, and its decisions unless --behavior is given."""
    with terminal_output.checked_stdout():
        try:
            code = _autoscale(sys.argv[1:] if arguments is None else arguments, "cluster-autoscaler")
        except errors.InvalidInput as error:
            print(f"cluster-autoscaler: {error}", file=sys.stderr)
            code = UNUSABLE
        exit_process(code)


def exit_process(code: int) -> NoReturn:
    """Exit; after a run of the autoscaler, without the interpreter's slow cleanup."""
    if not _has_run.is_set():
        sys.exit(code)
    from windlass.runtime import shutdown

    shutdown.exit_process(code)


def _autoscale(flags: Sequence[str], default_behavior: str) -> int:
    # Imported late, so that `windlass --help` does not load NumPy.
    from windlass.autoscaler.options import command_line

    words = command_line.split_arguments(flags)
    if words.wants_help:
        width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
        print(command_line.format_text(width, default_behavior))
        return 0
    command = command_line.parse_command_line(words, default_behavior)
    _check_dashboard(command)
    return _run(command)


def _check_dashboard(command: "command_line.AutoscalerCommand") -> None:
    """Refuse an unprotected dashboard before connecting to a cluster."""
    from windlass.web import dashboard

    dashboard.validate_options(command.options.dashboard)


def _run(command: "command_line.AutoscalerCommand") -> int:
    import logging

    from windlass import klog, product
    from windlass.autoscaler import app
    from windlass.observability import klog as observability_klog
    from windlass.runtime import shutdown
    from windlass.web import dashboard

    observability_klog.configure_logging(command.options.logging)
    log = logging.getLogger(__name__)
    log.log(klog.verbosity_level(1), "windlass %s", product.version())
    log.info("%s", command.behavior)
    for warning in command.warnings:
        log.warning("%s", warning)
    try:
        ended_well = shutdown.execute(
            app.run(command.settings, command.options, dashboard.serve_beside_autoscaler), grace_s=app.SHUTDOWN_GRACE_S
        )
        _has_run.set()
    except errors.InvalidInput:
        raise
    except (errors.WindlassError, ExceptionGroup) as error:
        for cause in _first_error(error):
            if not isinstance(cause, errors.WindlassError):
                raise  # a bug: print its traceback
            log.error("%s", cause)
        _has_run.set()
        return FAILED
    return 0 if ended_well else FAILED


def _first_error(error: Exception) -> Iterator[Exception]:
    """The first error of a group of tasks that failed together."""
    if isinstance(error, ExceptionGroup):
        for item in error.exceptions:
            yield from _first_error(item)
    else:
        yield error
