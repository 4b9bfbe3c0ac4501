"""Real objects of OpenShift, which lie beside the project: definitions, gates, MachineSets and their mirrors."""

import gzip
from pathlib import Path
from typing import Any

import pytest
import yaml

Json = dict[str, Any]

UPSTREAM = Path(__file__).parents[4] / "shared" / "upstream" / "openshift"

needed = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason="NOT JUDGED: OpenShift's real objects are not at ../shared/upstream/openshift"
)


def names(pattern: str) -> list[str]:
    """Paths within the folder, without what follows the first dot; nothing where it is absent."""
    return sorted({str(path.relative_to(UPSTREAM)).split(".")[0] for path in UPSTREAM.glob(pattern)})


def read_all(path: str) -> list[Json]:
    data = (UPSTREAM / path).read_bytes()
    text = gzip.decompress(data) if path.endswith(".gz") else data
    return [body for body in yaml.load_all(text, yaml.CSafeLoader) if body]


def read(path: str) -> Json:
    return read_all(path)[0]
