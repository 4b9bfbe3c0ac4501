"""Random: any option, each as likely as any other."""

from collections.abc import Sequence

import numpy as np

from windlass.engine.expanders.option import Option


def keep(options: Sequence[Option], rng: np.random.Generator) -> list[Option]:
    """One of the options; none of none."""
    if not options:
        return []
    return [options[int(rng.integers(len(options)))]]
