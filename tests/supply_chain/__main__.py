"""Validate a bill of materials against CycloneDX' schema: `python -m tests.supply_chain FILE`.

`make supply KIND=sbom` calls it.
"""

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def main() -> int:
    complaint = JsonStrictValidator(SchemaVersion.V1_6).validate_str(Path(sys.argv[1]).read_text("utf-8"))
    print(f"{sys.argv[1]}: {complaint or 'as the schema has it'}")
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
