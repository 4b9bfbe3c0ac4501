"""The one error tree.

    WindlassError            anything this program says on purpose; the message is for the person who reads it
    ├── InvalidObject        one Kubernetes object that cannot be used: which one, which field, what was found
    └── InvalidInput         a file, a flag or a scenario that cannot be used

Infeasible is not an error: a pod that fits nowhere is a verdict. An error that escapes the command line
and is not a WindlassError is a bug of ours.
"""

from dataclasses import dataclass

_LONGEST_FOUND = 2000
"""Characters of a value that is quoted in an error."""


class WindlassError(Exception):
    """Base of everything windlass raises on purpose."""


@dataclass
class InvalidObject(WindlassError):
    """One Kubernetes object cannot be used. The others go on without it."""

    kind: str
    name: str
    """`namespace/name`, or the bare name of a cluster-scoped object."""
    field: str
    """Path within the object, as kubectl would print it: `spec.containers[0].resources.requests[cpu]`."""
    found: object
    accepted: str
    """What would have been accepted, in words."""

    def __post_init__(self) -> None:
        """Keep what was found only if it can be shown, compared and logged: objects may hold anything."""
        try:
            is_short = len(repr(self.found)) <= _LONGEST_FOUND
        except Exception:  # thousands of digits, or of levels
            self.found = "something that cannot be shown"
        else:
            self.found = self.found if is_short else f"{repr(self.found)[:_LONGEST_FOUND]}…"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.field}: found {self.found!r}, expected {self.accepted}"


class InvalidInput(WindlassError):
    """A file, a flag or a scenario cannot be used; the message names it and what is accepted."""


_LONGEST = 300


def describe_error(error: BaseException) -> str:
    """The message of an exception, shortened; one whose message cannot be made is no error of its own."""
    try:
        said = str(error)
    except Exception:
        return "its message cannot be shown"
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
