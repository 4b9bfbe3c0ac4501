"""`windlass version`: which one this is, and what it runs on."""

import importlib.metadata
from typing import Annotated, Literal

from cyclopts import Parameter


def tell() -> str:
    """The one line of `--version`."""
    return f"windlass {importlib.metadata.version('windlass')}"


def version(*, output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text") -> int:
    """Print the version of windlass, of Python, and of what decisions depend on.

    Parameters
    ----------
    output
        `text` for people, `json` for programs.
    """
    import json
    import platform

    found = {
        "windlass": importlib.metadata.version("windlass"),
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "numpy": importlib.metadata.version("numpy"),
    }
    print(json.dumps(found) if output == "json" else "\n".join(f"{name:9} {value}" for name, value in found.items()))
    return 0
