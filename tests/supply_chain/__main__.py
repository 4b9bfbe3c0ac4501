"""Validate a bill of materials against CycloneDX' schema: `python -m tests.supply_chain FILE`.

`make supply KIND=sbom` calls it.
"""

import importlib
import sys
from pathlib import Path


def main() -> int:
    schema = importlib.import_module("cyclonedx.schema")
    validation = importlib.import_module("cyclonedx.validation.json")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    complaint = validator.validate_str(Path(sys.argv[1]).read_text("utf-8"))
    print(f"{sys.argv[1]}: {complaint or 'as the schema has it'}")
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
