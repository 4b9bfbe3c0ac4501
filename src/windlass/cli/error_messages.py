"""Error messages: what goes wrong in a command is one line on standard error that says what to do, and an exit code.

A traceback is for developers: WINDLASS_TRACEBACK=1 shows it. The autoscaler itself logs the tracebacks of bugs.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import NoReturn

import cyclopts

from windlass import errors

UNUSABLE = 2
"""Exit code for input that cannot be used, flags and files alike."""
INTERNAL_ERROR = 70
"""Exit code for a bug, as sysexits has it."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What would move the cursor or turn the direction of text: names in messages may come from anywhere."""

TRACEBACK_VARIABLE = "WINDLASS_TRACEBACK"


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End the process with one line for every error of a command."""
    try:
        yield
    except (cyclopts.CycloptsError, errors.WindlassError, OSError, KeyboardInterrupt, Exception) as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        end(*_describe(error))


def end(message: str, code: int = UNUSABLE) -> NoReturn:
    """Print the line and exit."""
    shown = _CONTROL.sub(lambda found: repr(found[0])[1:-1], message)
    print(f"windlass: {shown}", file=sys.stderr)
    sys.exit(code)


def _describe(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    match error:
        case cyclopts.CycloptsError():
            return _describe_usage(error), UNUSABLE
        case errors.WindlassError():
            return str(error), UNUSABLE
        case KeyboardInterrupt():
            return "interrupted", INTERRUPTED
        case OSError(filename=str() as name):
            return f"{name}: {error.strerror}", UNUSABLE
        case OSError():
            return str(error.strerror or error), UNUSABLE
        case RecursionError() | MemoryError():
            return "the input is nested too deeply or too large to be read", UNUSABLE
    again = f"{TRACEBACK_VARIABLE}=1 shows where; please report it"
    return f"internal error: {type(error).__name__}: {' '.join(str(error).split())}; {again}", INTERNAL_ERROR


def _describe_usage(error: cyclopts.CycloptsError) -> str:
    """Say in one line what is wrong with a command line, and where its help is."""
    from windlass import cli

    command = " ".join((cli.PROGRAM, *(error.command_chain or ())))
    see = f"see {command} --help"
    match error:
        case cyclopts.UnknownCommandError(unused_tokens=[str() as word, *_]):
            near = _suggest(word, [name for name in cli.app if not name.startswith("-")])
            return f"{word}: no such {'option' if word.startswith('-') else 'command'}{near}; {see}"
        case cyclopts.UnusedCliTokensError(unused_tokens=[str() as word, *_]):
            return f"found {word!r}, which {command} does not take; {see}"
    return f"{' '.join(str(error).split()).rstrip('.')}; {see}"


def _suggest(word: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5) or [name for name in names if name.startswith(word)]
    return f"; did you mean {near[0]}?" if near else ""
