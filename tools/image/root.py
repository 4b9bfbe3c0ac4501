"""The root filesystem of the image, in three parts that become layers: Debian with Python, dependencies, windlass.

There is no compiler, no pip, no package manager and no shell in it. Bytecode is compiled by the image's own Python, so
that a read-only root costs no time.
"""

import os
import subprocess
import sys
from pathlib import Path

from tools import dependencies, source_analysis
from tools.image import debian
from windlass import errors

USER = 65532
_ROOT_USER = "root:x:0:0:root:/root:/sbin/nologin"
PLACE = "opt/windlass"
"""A virtual environment, as the Containerfile makes one at the same place."""
PACKAGES = f"{PLACE}/lib/python{debian.PYTHON}/site-packages"
_INTERPRETER = f"/{PLACE}/bin/python"
_LOCK = source_analysis.ROOT / "requirements" / "image.txt"
_MACHINES = {"amd64": ("x86_64", "lib64/ld-linux-x86-64.so.2"), "arm64": ("aarch64", "lib/ld-linux-aarch64.so.1")}
"""By Debian's name of the architecture: that of wheels and C libraries, and the program that loads others."""
_NEWEST_GLIBC = 36
"""Of the suite: 2.36. Wheels say from which one on they run."""
_LINKS = {"var/run": "/run", "var/lock": "/run/lock"}
"""Those that base-files makes when it is configured: tokens of ServiceAccounts are mounted at /var/run."""


class BuildFailed(errors.WindlassError):
    """A step of the build ended with an error; the text says what it said."""


def add_debian(root: Path, packages: list[debian.Package]) -> None:
    """The first part: Debian's packages, and the files that nothing else writes."""
    debian.unpack(packages, root)
    files = {
        "etc/passwd": f"{_ROOT_USER}\nnonroot:x:{USER}:{USER}:nonroot:/nonexistent:/sbin/nologin\n",
        "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    for name, target in _LINKS.items():
        (root / name).rmdir()
        (root / name).symlink_to(target)


def add_dependencies(root: Path, architecture: str) -> None:
    """The second part: the wheels of the lock, each with the hash that it names."""
    machine = _MACHINES[architecture][0]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(_NEWEST_GLIBC, 4, -1)]
    chosen = [f"--platform={name}" for name in (*platforms, f"manylinux2014_{machine}")]
    abi = f"cp{debian.PYTHON.replace('.', '')}"
    _install(
        root,
        *chosen,
        f"--python-version={debian.PYTHON}",
        "--implementation=cp",
        f"--abi={abi}",
        "--require-hashes",
        "--only-binary=:all:",
        f"--requirement={_LOCK}",
    )
    (root / PLACE / "bin").mkdir()
    (root / PLACE / "bin" / "python").symlink_to(f"/usr/bin/python{debian.PYTHON}")
    (root / PLACE / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")


def add_program(root: Path, epoch_s: int, directory: Path) -> Path:
    """The third part: windlass and its entry points. Returns the wheel, which is built in a directory."""
    wheel = build_distributions(directory, epoch_s, "wheel")[0]
    name, version = (dependencies.project()[key] for key in ("name", "version"))
    _install(root, "--no-index", "--no-deps", f"--find-links={directory}", f"{name}=={version}")
    scripts = dependencies.project()["scripts"]
    for program, place in scripts.items():
        module, _, function = place.partition(":")
        _write_script(root / PLACE / "bin" / program, module, function)
    # Where a Deployment of Cluster Autoscaler looks for its program.
    module, _, function = scripts["cluster-autoscaler"].partition(":")
    _write_script(root / "cluster-autoscaler", module, function)
    return wheel


def build_distributions(directory: Path, epoch_s: int, *targets: str) -> list[Path]:
    """Wheel or sdist of the working tree, by the build backend that pyproject.toml names."""
    wanted = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory), *wanted]
    _run(command, {"SOURCE_DATE_EPOCH": str(epoch_s)}, source_analysis.ROOT)
    return sorted([*directory.glob("*.whl"), *directory.glob("*.tar.gz")])


def compile_bytecode(debian_root: Path, root: Path, architecture: str) -> None:
    """Compile all modules below a root with the image's Python. What is compiled is never compared with its source."""
    machine, loader = _MACHINES[architecture]
    libraries = [f"{debian_root}/{place}/{machine}-linux-gnu" for place in ("lib", "usr/lib")]
    python = [str(debian_root / loader), "--inhibit-cache", "--library-path", ":".join(libraries)]
    python += [str(debian_root / f"usr/bin/python{debian.PYTHON}"), "-S", "-m", "compileall", "-q"]
    command = [*python, "--invalidation-mode=unchecked-hash", "-s", str(root), "-p", "/", str(root)]
    # Sets of constants are written in the order of their hashes.
    _run(command, {"PYTHONHOME": str(debian_root / "usr"), "PYTHONHASHSEED": "0"}, root)


def _install(root: Path, *words: str) -> None:
    """Install with pip. Its scripts would name the interpreter that runs it; ours are written by `_write_script`."""
    target = root / PACKAGES
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    _run([*pip, "--no-warn-conflicts", f"--target={target}", *words], {}, root)
    for path in [*(target / "bin").glob("*")]:
        path.unlink()
    if (target / "bin").is_dir():
        (target / "bin").rmdir()


def _write_script(path: Path, module: str, function: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{_INTERPRETER}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n")
    path.chmod(0o755)


def _run(command: list[str], environment: dict[str, str], directory: Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=directory, env={**os.environ, **environment}
    )
    if done.returncode:
        raise BuildFailed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
