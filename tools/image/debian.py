"""Debian's packages: downloaded by apt, which verifies signatures and hashes, and unpacked without being configured.

apt runs on directories of its own: nothing of the machine is changed, and no right of root is needed.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass import errors

SUITE = "bookworm"
PYTHON = "3.11"
"""Of that suite; the version that the tests run on."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
SECURITY_MIRROR = "http://deb.debian.org/debian-security"

PACKAGES = (
    "base-files",  # /etc/os-release, by which scanners recognize the distribution, and the empty directories
    "ca-certificates",  # API servers whose kubeconfig names no certificate authority
    "gcc-12-base",  # the copyright of libgcc-s1 and libstdc++6
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libssl3",
    "libstdc++6",  # numpy
    "libuuid1",
    f"python{PYTHON}-minimal",
    "tzdata",  # TZ, which some set to have local times in logs
    "zlib1g",
)
"""All of them. What else these depend on is for package management (dpkg, debconf, perl) or for the modules below."""

MODULES_LEFT_OUT = ("_crypt", "_curses", "_curses_panel", "_dbm", "_sqlite3", "nis", "readline")
"""Extension modules whose libraries are not in the image: it has no terminal, no database and no NIS."""

_LEFT_OUT = (
    "etc/ca-certificates*",
    "etc/cron*",
    "etc/default",
    "etc/init.d",
    "etc/profile.d",
    "etc/skel",
    "etc/update-motd.d",
    "lib/*/libmemusage.so",
    "lib/*/libpcprofile.so",
    "lib/*/libthread_db.so*",
    "usr/sbin/*",
    "usr/share/base-files",
    "usr/share/bug",
    "usr/share/gdb",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/binfmts",
    "usr/share/python*",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/lib/python3*/test",
    "usr/lib/python3*/ensurepip",
    "usr/lib/python3*/venv",
)
_TOOLS: Mapping[str, str] = {"apt-get": "apt", "dpkg": "dpkg", "dpkg-deb": "dpkg"}
"""Programs that are needed, and the packages that have them."""


class DownloadFailed(errors.WindlassError):
    """apt could not give a package; the text says what it said."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package as a file."""

    name: str
    version: str
    architecture: str
    sha256: str
    path: Path


def find_missing() -> list[str]:
    """The Debian packages to install before an image can be built."""
    missing = {package for program, package in _TOOLS.items() if not shutil.which(program)}
    if not KEYRING.is_file():
        missing.add("debian-archive-keyring")
    return sorted(missing)


def read_architecture() -> str:
    """The machine's architecture, as Debian and OCI call it: amd64, arm64."""
    return _run("dpkg", "--print-architecture").strip()


def download(directory: Path, names: Sequence[str] = PACKAGES) -> list[Package]:
    """The newest version of each package, by name. Lists and packages that are still current are not loaded again."""
    for name in ("lists/partial", "cache/archives/partial", "packages"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "status").touch()
    mirror = os.environ.get("DEBIAN_MIRROR", MIRROR)
    security = os.environ.get("DEBIAN_SECURITY_MIRROR", SECURITY_MIRROR)
    sources = ((mirror, SUITE), (mirror, f"{SUITE}-updates"), (security, f"{SUITE}-security"))
    lines = [f"deb [signed-by={KEYRING}] {url} {suite} main\n" for url, suite in sources]
    (directory / "sources.list").write_text("".join(lines))
    apt = ["apt-get", "-qq", *(f"-o{option}" for option in _options(directory.resolve()))]
    _run(*apt, "update")
    listed = _run(*apt, "download", "--print-uris", *names)
    _run(*apt, "download", *names, cwd=directory / "packages")
    files = [directory / "packages" / line.split()[1] for line in listed.splitlines() if line.startswith("'")]
    found = [_read(path) for path in files]
    return sorted(found, key=lambda package: package.name)


def _options(directory: Path) -> list[str]:
    return [
        f"Dir::Etc::SourceList={directory / 'sources.list'}",
        "Dir::Etc::SourceParts=/dev/null",
        "Dir::Etc::Preferences=/dev/null",
        "Dir::Etc::PreferencesParts=/dev/null",
        f"Dir::State::Lists={directory / 'lists'}",
        f"Dir::State::Status={directory / 'status'}",
        f"Dir::Cache={directory / 'cache'}",
        f"APT::Sandbox::User={os.environ.get('USER', 'root')}",
        "APT::Update::Error-Mode=any",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "Acquire::Retries=2",
        "Acquire::http::Timeout=20",
        "Acquire::https::Timeout=20",
    ]


def _read(path: Path) -> Package:
    name, version, architecture = (
        _run("dpkg-deb", "--field", str(path), field).strip() for field in ("Package", "Version", "Architecture")
    )
    return Package(name, version, architecture, hashlib.sha256(path.read_bytes()).hexdigest(), path)


def unpack(packages: Sequence[Package], root: Path) -> None:
    """What the packages hold, without documents and without what needs libraries that are left out.

    The description of each package goes where scanners of images without dpkg look for it.
    """
    described = root / "var/lib/dpkg/status.d"
    for package in packages:
        _run("dpkg-deb", "--extract", str(package.path), str(root))
        described.mkdir(parents=True, exist_ok=True)
        (described / package.name).write_text(_run("dpkg-deb", "--field", str(package.path)))
    for pattern in _LEFT_OUT:
        for path in root.glob(pattern):
            _remove(path)
    for path in (root / "usr/share/doc").rglob("*"):
        if not path.is_dir() and path.name != "copyright":
            path.unlink()
    for path in (root / f"usr/lib/python{PYTHON}/lib-dynload").iterdir():
        if path.name.partition(".")[0] in MODULES_LEFT_OUT:
            path.unlink()
    _write_certificates(root)


def _write_certificates(root: Path) -> None:
    """The bundle that OpenSSL reads, as update-ca-certificates writes it."""
    found = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in found))
    for link, target in (
        ("usr/lib/ssl/certs", "/etc/ssl/certs"),
        ("usr/lib/ssl/cert.pem", f"/{bundle.relative_to(root)}"),
    ):
        path = root / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _run(*words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        raise DownloadFailed(f"{words[0]} {words[-1]}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout
