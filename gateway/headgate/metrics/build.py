"""The running build, for `--version`, the metrics and the log."""

import logging
import os
import platform
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from headgate import __version__
from headgate.native.chosen import CODE


def _hot_path() -> str:
    """Return how the hot path was built; any of its modules shows it (`setup.py`)."""
    spec = find_spec("headgate.model.publish")
    origin = (spec and spec.origin) or ""
    return "python" if origin.endswith(".py") else "mypyc"


HOT_PATH: Final = _hot_path()
DESCRIPTION: Final = f"native code: {'none' if CODE == 'python' else CODE}, hot path: {HOT_PATH}"
VERSION: Final = f"headgate {__version__} ({DESCRIPTION}, Python {platform.python_version()})"

BUILD_GAUGES: Final[dict[str, dict[tuple[str, ...], float]]] = {
    "headgate_build_info": {(__version__, platform.python_version()): 1.0},
    "headgate_native_info": {(CODE, HOT_PATH): 1.0},
}
BUILD_FIELDS: Final = {
    "version": __version__,
    "native": CODE,
    "hot_path": HOT_PATH,
    "python": platform.python_version(),
}
WITHOUT_NATIVE: Final = (
    "Headgate runs without its native code and uses up to twice the processor time: reinstall it "
    "with a C compiler"
)


def start_fields(file: Path, text: str) -> dict[str, object]:
    """Return the fields of the log line at the start of a process.

    Args:
        file: The configuration file.
        text: Its contents.
    """
    digest = sha256(text.encode()).hexdigest()
    return {**BUILD_FIELDS, "pid": os.getpid(), "file": str(file), "config_sha256": digest}


def warn_unless_native(log: logging.Logger, native: str = CODE, hot_path: str = HOT_PATH) -> None:
    """Warn at the start of a gateway that runs without compiled code."""
    if (native, hot_path) != ("c", "mypyc"):
        log.warning(WITHOUT_NATIVE, extra={"native": native, "hot_path": hot_path})
