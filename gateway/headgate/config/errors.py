"""What is wrong with a configuration, said so that it can be put right without the source."""

import dataclasses
import json
from collections.abc import Sequence
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
