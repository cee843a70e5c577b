"""Finds a Java that can run Kafka.

Standard library only and no import of the rest of the package: `make setup` runs this file with
the system's Python before anything is downloaded.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

MINIMUM_JAVA = 17
DEBIAN_PACKAGE = "openjdk-17-jre-headless"


class JavaMissingError(Exception):
    """No usable Java; the text says what to install."""


def find_java(java_home: str | None) -> Path:
    """Return the `java` to run: the one of `java_home` if given, else the one on the PATH.

    Raises JavaMissingError when there is none or it is older than MINIMUM_JAVA.
    """
    found = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise JavaMissingError(_advice("no java was found"))
    major = _major_version(_version_text(found))
    if major is None or major < MINIMUM_JAVA:
        raise JavaMissingError(_advice(f"{found} is version {major or 'unknown'}"))
    return Path(found)


def java_identity(java: Path) -> str:
    """Return the text that names this exact Java build (a class archive fits one build only)."""
    return _version_text(str(java))


def _version_text(java: str) -> str:
    # `java -version` writes to standard error.
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr


def _major_version(text: str) -> int | None:
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2] or 0) if first == 1 else first  # 1.8 is how Java 8 calls itself


def _advice(problem: str) -> str:
    return (
        f"Headgate's local Kafka needs Java {MINIMUM_JAVA} or newer, but {problem}. "
        f"On Debian or Ubuntu: apt-get install {DEBIAN_PACKAGE}"
    )


def main(java_home: str | None) -> int:
    """Check and say what is wrong: the first step of `make setup`."""
    try:
        find_java(java_home)
    except JavaMissingError as missing:
        sys.stderr.write(f"setup: {missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(os.environ.get("JAVA_HOME")))
