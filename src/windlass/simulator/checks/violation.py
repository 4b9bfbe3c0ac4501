"""What a rule says when it is broken."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach: when, of which rule, by which object, and the numbers."""

    at_s: float
    rule: str
    name: str
    said: str

    def __str__(self) -> str:
        return f"at {self.at_s:g} s: {self.rule}: {self.name}: {self.said}"


Finding = tuple[str, str]
"""The object's name and what is wrong with it."""
