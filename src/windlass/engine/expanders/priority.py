"""Priority: the options whose group has the highest priority in the user's rules.

A rule assigns a priority to a regular expression. A group has the highest priority among the expressions that match
anywhere in its id. Groups without a match are dropped, as are priorities below -1, which Cluster Autoscaler ignores.
If no option is left, or there are no rules, all options are kept: a mistake in the rules must not stop scale-up.
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
    """Groups whose id contains a match of the pattern have this priority."""

    priority: int
    pattern: matcher.Regexp


def compile_rules(by_priority: Mapping[int, Sequence[str]]) -> tuple[PriorityRule, ...]:
    """Rules, highest priority first, from expressions in Go's syntax by priority."""
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
    priorities = [find_priority(option.group, rules) for option in options]
    highest = max((priority for priority in priorities if priority is not None), default=LOWEST - 1)
    if highest < LOWEST:
        return list(options)
    return [option for option, priority in zip(options, priorities, strict=True) if priority == highest]


def find_priority(group: str, rules: Sequence[PriorityRule]) -> int | None:
    """The highest priority of the rules that match the group; None if none does."""
    return max((rule.priority for rule in rules if rule.pattern.matches(group)), default=None)
