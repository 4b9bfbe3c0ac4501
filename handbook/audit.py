"""The audit: whether something is known against a dependency. pip-audit asks; this reads what it was told.

pip-audit passes over a package of which the service knows nothing, and ends well. Here that is not an answer: whoever
asks is told how many packages nobody could say anything about.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from handbook import dependencies

NOTHING_KNOWN, VULNERABLE, NOT_ASKED = 0, 1, 3
"""Exit codes; 2 is that of a command that was called wrongly."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was said of all packages together."""

    known: tuple[str, ...]
    """One line for each vulnerability."""
    answered: int
    unanswered: int
    trouble: str = ""

    @property
    def code(self) -> int:
        """What is known counts, even where not everybody could be asked about."""
        if self.known:
            return VULNERABLE
        return NOT_ASKED if self.unanswered else NOTHING_KNOWN

    def tell(self) -> str:
        """In a line, behind one for each vulnerability."""
        everything = self.answered + self.unanswered
        if self.known:
            last = f"audit: {len(self.known)} known in {everything} packages"
        elif self.unanswered:
            last = f"audit: COULD NOT ASK about {self.unanswered} of {everything} packages"
            last += f": {self.trouble}" if self.trouble else ""
        else:
            last = f"audit: nothing is known against {everything} packages"
        return "\n".join((*self.known, last))


def read(answer: str, complaint: str, asked: int) -> Finding:
    """What pip-audit's JSON says; where there is none, its last complaint."""
    try:
        listed = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = complaint.strip().splitlines()
        return Finding((), 0, asked, lines[-1] if lines else "pip-audit said nothing")
    skipped = [each["skip_reason"] for each in listed if "skip_reason" in each]
    known = tuple(
        f"{each['name']} {each['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'no version'}"
        for each in listed
        for one in each.get("vulns", ())
    )
    answered = sum("vulns" in each for each in listed)
    return Finding(known, answered, asked - answered, skipped[0] if skipped else "")


def main() -> int:
    """Ask about everything that an installation may hold."""
    pinned = [f"{one.name}=={one.version}" for one in dependencies.find()]
    finding = _ask(pinned)
    print(finding.tell())
    return finding.code


def _ask(pinned: Sequence[str]) -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text("\n".join(pinned), "utf-8")
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off"]
        answer = subprocess.run(
            [*command, "-f", "json", "-r", str(listed)], capture_output=True, text=True, check=False
        )
    return read(answer.stdout, answer.stderr, len(pinned))
