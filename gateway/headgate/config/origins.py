"""Where a value is from, in words: `default`, `derived: ...`, a line of the file, a variable."""

import re

DEFAULT = "default"


def is_file_line(origin: str) -> bool:
    """Whether the value itself stands in the configuration file."""
    return re.fullmatch(r".+:\d+", origin) is not None


def derived(rule: str) -> str:
    """The origin of a value that follows from others."""
    return f"derived: {rule}"
