"""Check a cross-compiled wheel: each of its extension modules is an ELF file for aarch64."""

import sys
import zipfile
from pathlib import Path

_ELF, _AARCH64 = (
    b"\x7fELF",
    183,
)  # e_machine: System V ABI, chapter 4, and its supplement for AArch64


def problems(wheel: Path) -> list[str]:
    """Return a sentence for each extension module that is not for aarch64."""
    found, modules = list[str](), 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                modules += 1
                head = archive.read(name)[:20]
                if head[:4] != _ELF or int.from_bytes(head[18:20], "little") != _AARCH64:
                    found.append(f"{name} is not an ELF file for aarch64")
                if "-aarch64-linux-gnu." not in name:
                    found.append(f"{name} has another machine in its name")
    return found or ([] if modules else [f"{wheel.name} has no extension module"])


def main(names: list[str]) -> int:
    """Return the exit code."""
    found = [problem for name in names for problem in problems(Path(name))]
    for problem in found:
        sys.stderr.write(f"aarch64: {problem}\n")
    return bool(found) or not names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
