"""Every option in force with its value and where that is from, fit to be shown."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.config.load import Loaded
from headgate.config.names import NAMED, SECTIONS, dotted
from headgate.core.option import Option, options_of
from headgate.core.secrets import STARS, masked, without_secrets

_HASHES = "token_sha256"  # no secrets, but nobody who reads here needs them


class Effective:
    """One option in force. A thousand topics have 40,000, of which a page shows some."""

    __slots__ = ("_given", "_option", "origin", "section")

    def __init__(self, section: str, option: Option, given: object, origin: str) -> None:
        self.section: Final = section
        self.origin: Final = origin
        self._option = option
        self._given = given

    @property
    def name(self) -> str:
        return self._option.name

    @property
    def value(self) -> Any:
        """As JSON has it, None = not set; no secret and no hash of one, whoever shows it."""
        value: Any = self._given
        if self.name == _HASHES:
            return [STARS] * len(value)
        if self._option.about.secret and value is not None:
            return masked(value) if isinstance(value, str) else [masked(each) for each in value]
        return _plain(value)


def effective(loaded: Loaded) -> Iterator[Effective]:
    """Every option in force, section by section."""
    settings, origins = loaded
    for name in SECTIONS:
        yield from _of_section((name,), getattr(settings, name), origins)
    for name in NAMED:
        tables = getattr(settings, name)
        if name == "topics":
            tables = {policy.pattern: policy for policy in tables}
        for table, values in tables.items():
            yield from _of_section((name, table), values, origins)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _of_section(
    path: tuple[str, ...], values: Any, origins: Mapping[str, str]
) -> Iterator[Effective]:
    section = dotted(path)
    for option in options_of(type(values)).values():  # whose names need no quotes
        given = getattr(values, option.name)
        yield Effective(section, option, given, origins[f"{section}.{option.name}"])
