"""Looks every pinned package up in the database of known vulnerabilities. `make audit` runs it.

pip-audit says of what it could not look up that it was skipped, and ends well. Where the data
cannot be reached at all, that would look like a clean bill: so it is told, and --required makes it
a failure.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Vulnerabilities that do not concern us: id -> why, and until when that was looked at.
ACCEPTED: dict[str, str] = {}


def audited(tool: str, lock: Path) -> list[dict[str, Any]] | None:
    """What is known of each package of a lock; None: the database cannot be reached."""
    command = [tool, "--requirement", str(lock), "--disable-pip", "--require-hashes",
               "--progress-spinner", "off", "--format", "json"]  # fmt: skip
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        found: list[dict[str, Any]] = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        sys.stderr.write(run.stderr)
        return None
    return found


def told_of(package: dict[str, Any]) -> Iterator[str]:
    """A line for each vulnerability that is known and not accepted."""
    for each in package.get("vulns", []):
        if not {each["id"], *each["aliases"]} & ACCEPTED.keys():
            fixed = ", ".join(each["fix_versions"]) or "no version yet"
            yield f"{package['name']} {package['version']}: {each['id']}, fixed in {fixed}"


def main(tool: str, *options: str) -> int:
    """tool: pip-audit. 0: nothing is known against what could be looked up."""
    known: list[str] = []
    asked = skipped = 0
    for lock in sorted(ROOT.glob("requirements*.lock")):
        found = audited(tool, lock)
        rows = found if found is not None else [{"skip_reason": "unreachable"}]
        asked += len(rows)
        skipped += sum("skip_reason" in one for one in rows)
        known += [f"{lock.name}: {line}" for one in rows for line in told_of(one)]
    counts = f"{asked - skipped} of {asked} packages looked up, {len(known)} known vulnerabilities"
    sys.stdout.write("".join(f"{line}\n" for line in (*known, f"audit: {counts}")))
    if skipped:
        why = "the database cannot be reached"
        sys.stderr.write(f"audit: {skipped} packages were NOT looked up: {why}\n")
    return 1 if known or (skipped and "--required" in options) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
