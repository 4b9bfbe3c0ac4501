"""Priority: the options whose group the user ranks highest.

Rules give regular expressions a priority; a group has the highest priority whose expression is found anywhere in its
id. Groups that no rule matches are passed over. So are negative priorities below -1, which Cluster Autoscaler never
looks at. Where no option is left, or there are no rules, all are kept: a slip in the rules must not stop scaling up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.errors import InvalidInput
from windlass.regexp import matcher, syntax

LOWEST = -1
"""The lowest priority that counts."""


@dataclass(frozen=True, slots=True)
class PriorityRule:
    """Groups whose id the pattern is found in have this priority."""

    priority: int
    pattern: matcher.Regexp


def compile_rules(by_priority: Mapping[int, Sequence[str]]) -> tuple[PriorityRule, ...]:
    """Rules, highest priority first, of expressions in Go's syntax by priority."""
    return tuple(
        PriorityRule(priority, _compile(priority, expression))
        for priority in sorted(by_priority, reverse=True)
        for expression in by_priority[priority]
    )


def _compile(priority: int, expression: str) -> matcher.Regexp:
    try:
        return matcher.compile(expression)
    except syntax.InvalidExpression as error:
        raise InvalidInput(
            f"priority {priority}: {expression!r} is not a regular expression of Go's: {error}"
        ) from error


def find_best_options(options: Sequence[ExpansionOption], rules: Sequence[PriorityRule]) -> list[ExpansionOption]:
    ranks = [find_priority(option.group, rules) for option in options]
    highest = max((ranked for ranked in ranks if ranked is not None), default=LOWEST - 1)
    if highest < LOWEST:
        return list(options)
    return [option for option, ranked in zip(options, ranks, strict=True) if ranked == highest]


def find_priority(group: str, rules: Sequence[PriorityRule]) -> int | None:
    """The highest priority that a rule gives the group; None if no rule matches it."""
    return max((rule.priority for rule in rules if rule.pattern.matches(group)), default=None)
