"""Files that options name."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from headgate.config.errors import Problem, shown


def missing_files(paths: Mapping[str, str | None]) -> Iterator[Problem]:
    """A problem for each option whose file is not there."""
    for option, path in paths.items():
        if path is not None and not Path(path).is_file():
            yield Problem(option, f"{shown(path)} is not a file", "the path of a PEM file")
