"""Once more: tests on the real control plane that failed, alone on the machine. `make test` asks for it.

Many processes on few cores have their say in these tests, and one that is starved for a minute fails them without any
fault of ours. A fault fails them twice. Whatever else failed is not tried again, and neither are more than a few.
"""

import json
import subprocess
import sys
from pathlib import Path

REAL = ("tests/e2e/", "tests/testbed/")
MOST = 4
_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def choose(failed: list[str]) -> list[str]:
    """What may be tried again: all of it, or nothing. xdist notes a test with its group behind an `@`."""
    names = sorted({name.partition("@")[0] for name in failed})
    return names if len(names) <= MOST and all(name.startswith(REAL) for name in names) else []


def main() -> int:
    names = choose(list(json.loads(_FAILED.read_text()))) if _FAILED.exists() else []
    if not names:
        return 1
    print(f"ONCE MORE, on the real control plane: {', '.join(names)}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
