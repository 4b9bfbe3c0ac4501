"""Verbosity: klog's `-v` levels as levels of the logging module.

`-v=0` is INFO and every step further is one lower, so that `-v=9`, which shows every call to an API server, is one
above DEBUG. A line that is not wanted costs a comparison.
"""

import logging


def level(verbosity: int) -> int:
    """The logging level at which `-v=verbosity` speaks."""
    return max(logging.INFO - verbosity, 1)
