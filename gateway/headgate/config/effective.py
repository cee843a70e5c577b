"""Every option in force with its value and where that is from, fit to be shown."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from headgate.config.load import Loaded
from headgate.config.names import NAMED, SECTIONS, dotted
from headgate.config.secrets import masked
from headgate.core.option import options_of


class Effective(NamedTuple):
    """One option in force. value: None = not set; secrets are masked."""

    section: str
    name: str
    value: Any
    origin: str


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


def plain(value: Any) -> Any:
    """A value as JSON has it: tables as objects, and no URL with a password in it."""
    if isinstance(value, str):
        return masked(value) if "://" in value else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _of_section(
    path: tuple[str, ...], values: Any, origins: Mapping[str, str]
) -> Iterator[Effective]:
    for option in options_of(type(values)).values():
        value = getattr(values, option.name)
        if option.about.secret and value is not None:
            value = masked(value) if isinstance(value, str) else tuple(map(masked, value))
        name = dotted((*path, option.name))
        yield Effective(dotted(path), option.name, value, origins[name])
