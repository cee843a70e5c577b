"""Problems of a configuration, with the option and the fix, and the origins of its values."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headgate.model.text import counted

DEFAULT = "default"
_SHOWN_CHARACTERS = 120


class Origins(dict[str, str]):
    """The origin of each value, by the option's dotted name; a missing one is the default.

    An origin is `default`, `derived: RULE`, a line of the file (`headgate.toml:12`) or the name of
    a variable.
    """

    def __missing__(self, option: str) -> str:
        return DEFAULT


class Problem(NamedTuple):
    """One option that is wrong.

    Attributes:
        option: The dotted name.
        given: The value as written.
        expected: The allowed values; empty if `fix` names the one that is meant.
        fix: What the operator can do.
        origin: Where the value comes from, such as `headgate.toml:12`.
    """

    option: str
    given: str
    expected: str
    fix: str = ""
    origin: str = ""

    def __str__(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        fix = f" {self.fix}" if self.fix else ""
        return f"{self.option}{origin}: {self.given}{expected}.{fix}"


class ConfigError(Exception):
    """The configuration cannot be used; `problems` holds everything that is wrong with it."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        lines = [f"{file}: {counted(len(self.problems), 'problem')} in the configuration"]
        super().__init__("\n".join(lines + [f"  {problem}" for problem in self.problems]))


def shown(value: Any, *, secret: bool = False) -> str:
    """Return a value as errors show it: quoted, shortened, secrets hidden."""
    if secret:
        return "a hidden value"
    text = toml_text(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def toml_text(value: Any) -> str:
    """Return a value as TOML: `true`, `12`, `"text"`, `["a", "b"]`, `{a = 1}`."""
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


def missing_files(paths: Mapping[str, str | None]) -> Iterator[Problem]:
    """Yield a problem for each option whose file does not exist."""
    for option, path in paths.items():
        if path is not None and not Path(path).is_file():
            why = "is no file, but a folder" if Path(path).is_dir() else "does not exist"
            yield Problem(option, f"{shown(path)} {why}", "the path of a PEM file")
