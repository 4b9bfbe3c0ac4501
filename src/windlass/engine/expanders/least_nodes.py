"""Least nodes: the options that add the fewest nodes. An option that adds none is no option."""

from collections.abc import Sequence

from windlass.engine.expanders.option import Option


def keep(options: Sequence[Option]) -> list[Option]:
    adding = [option for option in options if option.node_count != 0]
    least = min((option.node_count for option in adding), default=0)
    return [option for option in adding if option.node_count == least]
