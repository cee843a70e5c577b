"""Every option in force with its value and where that is from, fit to be shown."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from headgate.config.load import Loaded
from headgate.config.names import NAMED, SECTIONS, dotted
from headgate.config.secrets import STARS, masked, without_secrets
from headgate.core.option import Option, options_of

_HASHES = "token_sha256"  # no secrets, but nobody who reads here needs them


class Effective(NamedTuple):
    """One option in force. value: as JSON has it, and as it may be shown: see `shown_value`."""

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


def shown_value(option: Option, value: Any) -> Any:
    """A value for people and programs, None = not set: no secret and no hash of one, whoever
    shows it."""
    if option.name == _HASHES:
        return [STARS] * len(value)
    if option.about.secret and value is not None:
        return masked(value) if isinstance(value, str) else [masked(each) for each in value]
    return _plain(value)


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
        value = shown_value(option, getattr(values, option.name))
        yield Effective(section, option.name, value, origins[f"{section}.{option.name}"])
