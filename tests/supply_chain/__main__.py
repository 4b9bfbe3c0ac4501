"""Validate bills of materials against CycloneDX' schema: `python -m tests.supply_chain FILE...`.

`make supply KIND=sbom` calls it.
"""

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def main() -> int:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    complaints = {path: validator.validate_str(Path(path).read_text("utf-8")) for path in sys.argv[1:]}
    for path, complaint in complaints.items():
        print(f"{path}: {complaint or 'as the schema has it'}")
    return 1 if any(complaints.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
