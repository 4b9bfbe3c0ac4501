"""Priority: the options whose group the user ranks highest.

Rules give regular expressions a priority; a group has the highest priority whose expression is found anywhere in its
id. Groups that no rule matches are passed over. So are negative priorities below -1, which Cluster Autoscaler never
looks at. Where no option is left, or there are no rules, all are kept: a slip in the rules must not stop scaling up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass import regexp
from windlass.engine.expanders.option import Option
from windlass.errors import InvalidInput

LOWEST = -1
"""The lowest priority that counts."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Groups whose id the pattern is found in have this priority."""

    priority: int
    pattern: regexp.Regexp


def compile_rules(by_priority: Mapping[int, Sequence[str]]) -> tuple[Rule, ...]:
    """Rules, highest priority first, of expressions in Go's syntax by priority."""
    return tuple(
        Rule(priority, _compile(priority, expression))
        for priority in sorted(by_priority, reverse=True)
        for expression in by_priority[priority]
    )


def _compile(priority: int, expression: str) -> regexp.Regexp:
    try:
        return regexp.compile(expression)
    except regexp.InvalidExpression as error:
        raise InvalidInput(
            f"priority {priority}: {expression!r} is not a regular expression of Go's: {error}"
        ) from error


def keep(options: Sequence[Option], rules: Sequence[Rule]) -> list[Option]:
    ranks = [rank(option.group, rules) for option in options]
    highest = max((ranked for ranked in ranks if ranked is not None), default=LOWEST - 1)
    if highest < LOWEST:
        return list(options)
    return [option for option, ranked in zip(options, ranks, strict=True) if ranked == highest]


def rank(group: str, rules: Sequence[Rule]) -> int | None:
    """The highest priority that a rule gives the group; None if no rule matches it."""
    return max((rule.priority for rule in rules if rule.pattern.matches(group)), default=None)
