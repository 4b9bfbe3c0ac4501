"""`python -m handbook` writes the pages of docs/reference, the files of deploy/rbac and the copies of the latter anew.

With `promtool` it builds what tries alerts.
"""

import sys

from handbook import copies, pages, rights, source
from testbed import building, components


def main() -> int:
    if sys.argv[1:] == ["promtool"]:
        try:
            building.build_tool(components.PROMTOOL)
        except building.BuildFailed as failed:
            print(failed, file=sys.stderr)
            return 1
        return 0
    if sys.argv[1:]:
        print("Usage: python -m handbook [promtool]", file=sys.stderr)
        return 2
    for path in (*pages.write(), *rights.write(), *copies.write()):
        print(f"written: {path.relative_to(source.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
