"""Where a value is from, in words: `default`, `derived: ...`, a line of the file, a variable."""

import re

DEFAULT = "default"


class Origins(dict[str, str]):
    """By an option's dotted name where its value is from; what is not there is the default."""

    def __missing__(self, option: str) -> str:
        return DEFAULT


def is_file_line(origin: str) -> bool:
    """Whether the value itself stands in the configuration file."""
    return re.fullmatch(r".+:\d+", origin) is not None


def derived(rule: str) -> str:
    """The origin of a value that follows from others."""
    return f"derived: {rule}"
