"""What is built once for all tests here."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install import distributions as install_distributions
from tests.install.containerfile import ROOT


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree, which nobody changes meanwhile."""
    place = tmp_path_factory.mktemp("tree") / "windlass"
    left_out = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "site"
    )
    shutil.copytree(ROOT, place, ignore=left_out)
    return place


@pytest.fixture(scope="session")
def distributions(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    wheel, sdist = install_distributions.build(tree, tmp_path_factory.mktemp("distributions"), "wheel", "sdist")
    return wheel, sdist


@pytest.fixture(scope="session")
def installed(distributions: tuple[Path, Path]) -> Iterator[Path]:
    """Where the wheel is installed as in the image. Others may read it, which they may not in pytest's directories."""
    place = Path(tempfile.mkdtemp(prefix="windlass-image-"))
    place.chmod(0o755)
    yield install_distributions.install(place, distributions[0])
    shutil.rmtree(place)
