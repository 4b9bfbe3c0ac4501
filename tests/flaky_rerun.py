"""A second look at tests on the real control plane that failed: they run once more, alone on the machine.

The answer helps to find the cause and changes nothing else: a run in which a test failed has failed. A test that passes
alone was starved by the others or disturbed by them, and is to be mended; one that fails twice shows a fault.
"""

import json
import subprocess
import sys
from pathlib import Path

REAL = ("tests/e2e/", "tests/testbed/")
MOST = 4
_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def choose(failed: list[str]) -> list[str]:
    """Which tests to run again: all of them, or none. xdist notes a test with its group behind an `@`."""
    names = sorted({name.partition("@")[0] for name in failed})
    return names if len(names) <= MOST and all(name.startswith(REAL) for name in names) else []


def main() -> int:
    names = choose(list(json.loads(_FAILED.read_text()))) if _FAILED.exists() else []
    if names:
        print(f"FAILED on the real control plane, running alone to find the cause: {', '.join(names)}", flush=True)
        code = subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *names], check=False).returncode
        print(f"FAILED beside other tests, {'passed' if code == 0 else 'failed'} alone: {', '.join(names)}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
