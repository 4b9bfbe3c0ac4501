"""Least nodes: the options that add the fewest nodes. An option that adds no node is dropped."""

from collections.abc import Sequence

from windlass.engine.model.scale_up_status import ExpansionOption


def find_best_options(options: Sequence[ExpansionOption]) -> list[ExpansionOption]:
    adding = [option for option in options if option.node_count != 0]
    least = min((option.node_count for option in adding), default=0)
    return [option for option in adding if option.node_count == least]
