"""Shared page files: scripts for the dashboard and for reports. The dashboard serves them as modules."""

import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable

_FOLDER = "page"


def list_files() -> Iterator[Traversable]:
    """All files."""
    yield from importlib.resources.files(__package__).joinpath(_FOLDER).iterdir()
