"""What is wrong with a configuration, said so that it can be put right without the source."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headgate.core.terminal.figures import counted

_SHOWN_CHARACTERS = 120


class Problem(NamedTuple):
    """One option that is wrong.

    option: dotted name.  found: its value as written.  expected: the allowed values.
    fix: what to do.  origin: where the value is from, e.g. `headgate.toml:12`.
    """

    option: str
    found: str
    expected: str
    fix: str = ""
    origin: str = ""

    def __str__(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        fix = f" {self.fix}" if self.fix else ""
        return f"{self.option}{origin}: {self.found}; expected {self.expected}.{fix}"


class ConfigError(Exception):
    """The configuration cannot be used; `problems` holds everything that is wrong with it."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        lines = [f"{file}: {counted(len(self.problems), 'problem')} in the configuration"]
        super().__init__("\n".join(lines + [f"  {problem}" for problem in self.problems]))


def shown(value: Any, *, secret: bool = False) -> str:
    """A value as it appears in an error: quoted text, shortened, secrets hidden."""
    if secret:
        return "a hidden value"
    text = toml_text(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def toml_text(value: Any) -> str:
    """A value as TOML: `true`, `12`, `"text"`, `["a", "b"]`, `{a = 1}`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # its escapes are TOML's, too
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_text(each) for each in value)}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {toml_text(each)}' for name, each in value.items())}}}"
    return str(value)


# Where a value is from, in words: `default`, `derived: ...`, a line of the file, a variable.


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


# Files that options name.


def missing_files(paths: Mapping[str, str | None]) -> Iterator[Problem]:
    """A problem for each option whose file is not there."""
    for option, path in paths.items():
        if path is not None and not Path(path).is_file():
            yield Problem(option, f"{shown(path)} is not a file", "the path of a PEM file")
