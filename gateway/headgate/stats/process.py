"""What the operating system says of this process."""

import os
import resource
from pathlib import Path

_STATM = Path("/proc/self/statm")


def cpu_seconds() -> dict[tuple[str, ...], float]:
    """CPU seconds used so far, by mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {("user",): used.ru_utime, ("system",): used.ru_stime}


def memory_bytes() -> float:
    """Resident memory now; 0 where /proc is not there."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except FileNotFoundError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
