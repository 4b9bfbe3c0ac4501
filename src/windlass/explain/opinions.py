"""Opinions: what the user's own expander said of options, and what became of it, in a sentence."""

from windlass.engine.expanders.outside import Opinion, Worth

_SHOWN = 5
"""Groups in a sentence, before the rest is counted."""
_NEXT = "the next expander decides"


def say(opinion: Opinion) -> str:
    """The sentence, without its full stop."""
    match opinion.worth:
        case Worth.FAILED:
            return f"the grpc expander gave no answer ({opinion.failure}); {_NEXT}"
        case Worth.NO_OPTION:
            return f"the grpc expander named {_list(opinion.unknown)} and none of the options; {_NEXT}"
        case Worth.NONE_WANTED:
            return f"the grpc expander wants none of {_count(len(opinion.about), 'option')}: nothing grows"
        case Worth.FOLLOWED:
            chosen = dict.fromkeys(group for group in opinion.groups if group not in opinion.unknown)
            more = f"; {_list(opinion.unknown)} is no option" if opinion.unknown else ""
            return f"the grpc expander chose {_list(tuple(chosen))}{more}"


def _list(groups: tuple[str, ...]) -> str:
    more = len(groups) - _SHOWN
    return ", ".join(group or '""' for group in groups[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
