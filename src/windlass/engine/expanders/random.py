"""Random: one of the options, each with equal probability."""

from collections.abc import Sequence

import numpy as np

from windlass.engine.model.scale_up_status import ExpansionOption


def find_best_options(options: Sequence[ExpansionOption], rng: np.random.Generator) -> list[ExpansionOption]:
    """One of the options; empty if there are none."""
    if not options:
        return []
    return [options[int(rng.integers(len(options)))]]
