"""Which build runs, for `--version`, the metrics and the log."""

import platform
from importlib.util import find_spec
from typing import Final

from headgate import __version__
from headgate.native.chosen import CODE


def _hot_path() -> str:
    """What the modules of the hot path are; any of them tells (`setup.py`)."""
    found = find_spec("headgate.core.event")
    origin = (found and found.origin) or ""
    return "python" if origin.endswith(".py") else "mypyc"


HOT_PATH: Final = _hot_path()
DESCRIPTION: Final = f"native code: {CODE}, hot path: {HOT_PATH}"
VERSION: Final = f"headgate {__version__} ({DESCRIPTION}, Python {platform.python_version()})"

BUILD_GAUGES: Final[dict[str, dict[tuple[str, ...], float]]] = {
    "headgate_build_info": {(__version__, platform.python_version()): 1.0},
    "headgate_native_info": {(CODE, HOT_PATH): 1.0},
}
