"""Error hierarchy.

    WindlassError            expected errors, with a message for the user
    ├── InvalidObject        a Kubernetes object cannot be used: object, field, value
    └── InvalidInput         a file, flag or scenario cannot be used

An unschedulable pod is a verdict, not an error. Any other exception that leaves the command line is a bug.
"""

from dataclasses import dataclass

_LONGEST_FOUND = 2000
"""Maximum length of a value quoted in an error."""


class WindlassError(Exception):
    """Base class of expected errors."""


@dataclass
class InvalidObject(WindlassError):
    """A Kubernetes object cannot be used; others are unaffected."""

    kind: str
    name: str
    """`namespace/name`, or the bare name of a cluster-scoped object."""
    field: str
    """Path in the object, as kubectl prints it: `spec.containers[0].resources.requests[cpu]`."""
    found: object
    accepted: str
    """Description of accepted values."""

    def __post_init__(self) -> None:
        """Keep the found value only if it can be compared and printed: objects may contain anything."""
        try:
            is_short = len(repr(self.found)) <= _LONGEST_FOUND
        except Exception:  # such as integers of thousands of digits, or deep nesting
            self.found = "something that cannot be shown"
        else:
            self.found = self.found if is_short else f"{repr(self.found)[:_LONGEST_FOUND]}…"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.field}: found {self.found!r}, expected {self.accepted}"


class InvalidInput(WindlassError):
    """A file, flag or scenario cannot be used; the message names it and the accepted values."""


_LONGEST = 300


def describe_error(error: BaseException) -> str:
    """The message of an exception, shortened. An exception whose `__str__` fails is described by its type."""
    try:
        text = str(error)
    except Exception:
        return "its message cannot be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
