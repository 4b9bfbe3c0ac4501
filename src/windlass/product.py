"""The product's names: what it is installed as, and the annotations that only it defines.

A name that somebody else may register would let them answer for windlass: ship a package that our messages ask for,
serve a page that our alerts link to, or define an annotation that we read. So the distribution is one that is ours,
links lead into the documents of this repository unless the chart is told where they are served, and annotations have a
prefix below a top-level domain that is reserved for private use. tests/install/test_product.py compares manifests.
"""

import importlib.metadata

PROGRAM = "windlass"
"""The command."""
DISTRIBUTION = "windlass-autoscaler"
"""What package indexes call it. The import package and the program are `windlass`."""
PRICE_ANNOTATION = "windlass.internal/price-per-hour"
FORMER_PRICE_ANNOTATION = "windlass.dev/price-per-hour"
"""The same in objects and recordings from before; read where the present one is not set."""
CLUSTER_FINALIZER = "windlass.internal/machine-pools"
"""Of Clusters that have MachinePools."""
SIMULATOR_PREFIX = "simulator.windlass.internal/"
"""Of annotations that the simulator gives to its own objects."""


def version() -> str:
    """Version of what is installed."""
    return importlib.metadata.version(DISTRIBUTION)


def explain_missing_extra(feature: str, extra: str) -> str:
    """Return what to do where a feature needs an extra that is not installed."""
    return f"{feature} needs the extra `{extra}`: install it with pip install '{DISTRIBUTION}[{extra}]'"
